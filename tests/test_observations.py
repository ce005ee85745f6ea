import numpy as np
from hypothesis import given

from ibp.data import Observations, all_rows
from ibp.data.summary import COMPLETE
from ibp.model import Statistics
from problems import missing_kinds, random_data, seeds


@given(seed=seeds, missing=missing_kinds)
def test_patterns_group_equal_rows_and_columns(seed, missing):
    rng = np.random.default_rng(seed)
    X = random_data(rng, rng.integers(1, 40), rng.integers(1, 12), missing=missing)
    o = Observations.from_array(X)
    nan = np.isnan(X)
    for pattern in np.unique(o.row_pattern):
        members = nan[o.row_pattern == pattern]
        assert (members == members[0]).all()
        assert members[0].any() == (pattern != COMPLETE)
    assert len({r.tobytes() for r in nan}) == len(set(o.row_pattern))
    ordered = nan[:, o.layout.column_order]
    for g in range(o.layout.group_start.size - 1):
        block = ordered[:, o.layout.group_start[g] : o.layout.group_start[g + 1]]
        assert block.shape[1] > 0
        assert (block == block[:, :1]).all()
    assert len({c.tobytes() for c in np.ascontiguousarray(nan.T)}) == o.layout.group_start.size - 1
    assert sorted(o.layout.column_order) == list(range(X.shape[1]))
    assert o.n_observed == (~nan).sum()
    assert np.isclose(o.sum_of_squares, np.nansum(X**2))


@given(seed=seeds, missing=missing_kinds)
def test_statistics_count_observed_entries_only(seed, missing):
    rng = np.random.default_rng(seed)
    X = random_data(rng, 30, 6, missing=missing)
    Z = (rng.random((30, 4)) < 0.5).astype(np.uint8)
    o = Observations.from_array(X)
    statistics = Statistics.from_codes(o, Z)
    filled = np.nan_to_num(X)
    np.testing.assert_allclose(o.layout.restore(statistics.cross), Z.T @ filled, atol=1e-12)
    for g in range(o.layout.group_start.size - 1):
        seen = ~np.isnan(X[:, o.layout.column_order[o.layout.group_start[g]]])
        assert o.group_rows[g] == seen.sum()
        np.testing.assert_array_equal(statistics.totals[g], Z[seen].sum(axis=0))
        np.testing.assert_array_equal(statistics.gram[g], Z[seen].T.astype(int) @ Z[seen])


def test_rows_are_filled_and_the_data_left_alone():
    rng = np.random.default_rng(0)
    X = random_data(rng, 50, 7, missing="block").astype(np.float32)
    copy = X.copy()
    o = Observations.from_array(X)
    assert np.shares_memory(all_rows(o.source), X)  # no copy of C-contiguous data
    assert np.shares_memory(o.rows(slice(0, 20)), X)  # nor of complete rows
    np.testing.assert_array_equal(o.rows(slice(0, 50)), np.nan_to_num(X))
    np.testing.assert_array_equal(o.rows(np.array([40, 3])), np.nan_to_num(X)[[40, 3]])
    assert o.rows(slice(0, 50)).dtype == np.float32
    np.testing.assert_array_equal(X, copy)


def test_layout_order_and_back():
    rng = np.random.default_rng(0)
    X = random_data(rng, 20, 6, missing="scattered")
    o = Observations.from_array(X)
    A = rng.random((3, 6))
    np.testing.assert_array_equal(o.layout.restore(o.layout.arrange(A)), A)
