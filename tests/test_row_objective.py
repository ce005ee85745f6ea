import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ibp.data import all_rows
from ibp.model import Bound, LeftOrderedClasses, ShiftedClasses, Statistics
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from ibp.model.row_objective import row_problem
from problems import missing_kinds, priors, random_state_parts, seeds


@given(seed=seeds, missing=missing_kinds, prior=priors, learned=st.booleans())
@settings(max_examples=60)
def test_differs_from_the_bound_by_a_constant(seed, missing, prior, learned):
    observations, Z, _, factors, hyper = random_state_parts(seed, missing, learned, k=4)
    row = seed % 8
    others = np.delete(Z, row, axis=0)
    x = all_rows(observations.source)[row, observations.layout.column_order]
    classes = EQUIVALENCE_CLASSES[prior]
    problem = row_problem(x, others, factors, hyper, classes)
    differences = []
    for z in itertools.product((0, 1), repeat=4):
        full = np.insert(others, row, z, axis=0).astype(np.uint8)
        statistics = Statistics.from_codes(observations, full)
        bound = Bound(observations, statistics, factors, hyper, classes, columns=full.T)
        differences.append(bound.evidence().total - problem.value(z))
    scale = max(np.abs(differences).max(), 1.0)
    assert np.ptp(differences) < 1e-10 * scale


def test_groups_of_the_left_ordered_form():
    others = np.array([[1, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0]], dtype=np.uint8)
    group, values = LeftOrderedClasses().row_groups(others)
    assert group[0] == group[1] == group[4]
    assert group[3] == group[5]
    assert len({group[0], group[2], group[3]}) == 3
    np.testing.assert_allclose(values[group[0], :4], -np.log([6, 2, 2, 6]))
    np.testing.assert_allclose(values[group[3], :3], -np.log([1, 1, 2]))


def test_groups_of_the_shifted_classes():
    others = np.array([[1, 0, 1, 0], [0, 0, 1, 0]], dtype=np.uint8)
    group, values = ShiftedClasses().row_groups(others)
    np.testing.assert_array_equal(group, [-1, 0, -1, 0])
    np.testing.assert_allclose(values[0, :3], -np.log([2, 6, 24]))


def test_one_row_alone_makes_every_feature_new():
    others = np.empty((0, 3), dtype=np.uint8)
    for classes in EQUIVALENCE_CLASSES.values():
        group, values = classes.row_groups(others)
        np.testing.assert_array_equal(group, [0, 0, 0])
        np.testing.assert_allclose(values[0, :4], -np.log([1, 1, 2, 6]))
