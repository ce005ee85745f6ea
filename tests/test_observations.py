import numpy as np
from hypothesis import given

from ibp.model import Observations, Statistics
from ibp.model import observations as observations_module
from problems import missing_kinds, random_data, seeds


@given(seed=seeds, missing=missing_kinds)
def test_patterns_group_equal_rows_and_columns(seed, missing):
    rng = np.random.default_rng(seed)
    X = random_data(rng, rng.integers(1, 40), rng.integers(1, 12), missing=missing)
    o = Observations.from_array(X)
    nan = np.isnan(X)
    for pattern in range(o.n_patterns):
        members = nan[o.row_pattern == pattern]
        assert len(members) > 0
        assert (members == members[0]).all()
    assert len({r.tobytes() for r in nan}) == o.n_patterns
    ordered = nan[:, o.column_order]
    for g in range(o.group_start.size - 1):
        block = ordered[:, o.group_start[g] : o.group_start[g + 1]]
        assert block.shape[1] > 0
        assert (block == block[:, :1]).all()
    assert len({c.tobytes() for c in np.ascontiguousarray(nan.T)}) == o.group_start.size - 1
    assert sorted(o.column_order) == list(range(X.shape[1]))
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
    np.testing.assert_allclose(o.from_layout(statistics.cross), Z.T @ filled, atol=1e-12)
    for g in range(o.group_start.size - 1):
        seen = ~np.isnan(X[:, o.group_column[g]])
        np.testing.assert_array_equal(statistics.gram[g], Z[seen].T.astype(int) @ Z[seen])


def test_blocks_leave_the_data_alone_and_cover_it(monkeypatch):
    monkeypatch.setattr(observations_module, "BLOCK_ROWS", 16)
    rng = np.random.default_rng(0)
    X = random_data(rng, 50, 7, missing="scattered").astype(np.float32)
    copy = X.copy()
    o = Observations.from_array(X)
    assert np.shares_memory(o.values, X)  # no copy of C-contiguous data
    blocks = [block for _, block in o.blocks(16)]
    assert all(block.dtype == np.float64 for block in blocks)
    np.testing.assert_array_equal(
        np.concatenate(blocks), np.nan_to_num(X)[:, o.column_order].astype(np.float64)
    )
    np.testing.assert_array_equal(X, copy)


def test_layout_order_and_back():
    rng = np.random.default_rng(0)
    X = random_data(rng, 20, 6, missing="scattered")
    o = Observations.from_array(X)
    A = rng.random((3, 6))
    np.testing.assert_array_equal(o.from_layout(o.to_layout(A)), A)
