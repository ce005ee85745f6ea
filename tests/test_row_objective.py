import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ibp.model import Statistics, evidence
from ibp.model.ibp_prior import column_multiplicities
from ibp.model.row_objective import class_size_groups, row_problem
from problems import missing_kinds, priors, random_state_parts, seeds


@given(seed=seeds, missing=missing_kinds, prior=priors, learned=st.booleans())
@settings(max_examples=60)
def test_differs_from_the_bound_by_a_constant(seed, missing, prior, learned):
    observations, Z, _, factors, hyper = random_state_parts(seed, missing, learned, k=4)
    row = seed % 8
    others = np.delete(Z, row, axis=0)
    x = observations.values[row, observations.column_order]
    problem = row_problem(x, others, factors, hyper, prior)
    differences = []
    for z in itertools.product((0, 1), repeat=4):
        full = np.insert(others, row, z, axis=0).astype(np.uint8)
        statistics = Statistics.from_codes(observations, full)
        bound = evidence(
            observations, statistics, factors, hyper, prior, column_multiplicities(full)
        ).total
        differences.append(bound - problem.value(z))
    scale = max(np.abs(differences).max(), 1.0)
    assert np.ptp(differences) < 1e-10 * scale


def test_groups_of_the_left_ordered_form():
    others = np.array([[1, 1, 0, 0, 1, 0], [0, 0, 1, 0, 0, 0]], dtype=np.uint8)
    group, values = class_size_groups(others, "lof")
    assert group[0] == group[1] == group[4]
    assert group[3] == group[5]
    assert len({group[0], group[2], group[3]}) == 3
    np.testing.assert_allclose(values[group[0], :4], -np.log([6, 2, 2, 6]))
    np.testing.assert_allclose(values[group[3], :3], -np.log([1, 1, 2]))


def test_groups_of_the_shifted_classes():
    others = np.array([[1, 0, 1, 0], [0, 0, 1, 0]], dtype=np.uint8)
    group, values = class_size_groups(others, "shifted")
    np.testing.assert_array_equal(group, [-1, 0, -1, 0])
    np.testing.assert_allclose(values[0, :3], -np.log([2, 6, 24]))


def test_one_row_alone_makes_every_feature_new():
    others = np.empty((0, 3), dtype=np.uint8)
    for prior in ("shifted", "lof"):
        group, values = class_size_groups(others, prior)
        np.testing.assert_array_equal(group, [0, 0, 0])
        np.testing.assert_allclose(values[0, :4], -np.log([1, 1, 2, 6]))
