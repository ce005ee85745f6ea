"""Rows of a matrix, whatever holds them: sources, the layout of columns, patterns of gaps."""

from __future__ import annotations

import re
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import ibp
from ibp.data import Layout, Observations, SharedPatterns, all_rows, as_source, summarize
from ibp.data.observations import ROWS_FOR_A_FORM
from ibp.data.source import (
    ConvertedRows,
    DenseRows,
    MappedRows,
    SparseRows,
    in_double_precision,
    is_source,
    is_sparse,
)
from ibp.errors import InvalidTypeError, InvalidValueError
from ibp.validation import check_matrix
from problems import random_data, unmoved

SELECTIONS = {
    "slice": slice(3, 9),
    "all": slice(0, 20),
    "empty slice": slice(4, 4),
    "numbers": np.array([7, 2, 2, 19]),
    "no numbers": np.array([], dtype=np.int64),
}


class HomeMadeRows:
    """A source with what the protocol asks for and nothing else."""

    def __init__(self, values):
        self._values = values
        self.shape = values.shape
        self.dtype = values.dtype
        self.most_rows = 0

    def rows(self, rows):
        block = self._values[rows]
        self.most_rows = max(self.most_rows, block.shape[0])
        return block


def mapped(folder, values, order="C"):
    """The same numbers in a file, as NumPy maps them."""
    path = folder / "data.npy"
    file = np.lib.format.open_memmap(
        path, "w+", values.dtype, values.shape, fortran_order=order == "F"
    )
    file[:] = values
    file.flush()
    return np.load(path, mmap_mode="r")


def dense(block):
    return block.toarray() if sparse.issparse(block) else np.asarray(block)


@pytest.fixture
def X():
    return random_data(np.random.default_rng(0), 20, 5, missing="scattered")


@pytest.fixture(params=["dense", "mapped", "mapped by columns", "sparse", "converted", "given"])
def source(request, X, tmp_path):
    return {
        "dense": lambda: DenseRows(X),
        "mapped": lambda: MappedRows(mapped(tmp_path, X)),
        "mapped by columns": lambda: MappedRows(mapped(tmp_path, X, "F")),
        "sparse": lambda: SparseRows(sparse.csr_array(X)),
        "converted": lambda: ConvertedRows(DenseRows(X), np.float64),
        "given": lambda: as_source(HomeMadeRows(np.asfortranarray(X))),
    }[request.param]()


@pytest.mark.parametrize("rows", SELECTIONS.values(), ids=SELECTIONS)
def test_every_source_gives_the_same_rows(source, X, rows):
    block = source.rows(rows)
    assert_array_equal(dense(block), X[rows])
    assert block.shape == X[rows].shape
    assert source.shape == X.shape
    assert block.dtype == source.dtype == X.dtype
    assert sparse.issparse(block) == is_sparse(source) == isinstance(source, SparseRows)


@pytest.mark.parametrize("rows", [slice(3, 9), slice(0, 20)])
def test_blocks_are_read_only_and_lie_in_memory_row_after_row(source, rows):
    block = source.rows(rows)
    if sparse.issparse(block):
        assert block.has_canonical_format
        return
    assert type(block) is np.ndarray
    assert block.flags.c_contiguous
    with pytest.raises(ValueError, match="read-only"):
        block[0, 0] = 1.0


def test_consecutive_rows_of_an_array_are_a_view(X, tmp_path):
    on_disk = mapped(tmp_path, X)
    for values in (X, on_disk):
        assert np.shares_memory(as_source(values).rows(slice(2, 6)), values)
        assert np.shares_memory(all_rows(as_source(values)), values)
    assert X.flags.writeable  # the user's own stays as it was


@pytest.mark.parametrize("dtype", [np.int16, np.uint8, np.bool_, np.float16, ">f8", np.longdouble])
def test_other_numbers_become_double_precision_block_by_block(dtype, tmp_path):
    values = np.arange(12).reshape(4, 3).astype(dtype)
    for source in (as_source(mapped(tmp_path, values)), as_source(HomeMadeRows(values))):
        assert source.dtype == np.float64
        assert source.rows(slice(1, 3)).dtype == np.dtype(np.float64)
        assert_array_equal(all_rows(source), values.astype(float))


def test_single_precision_stays_until_it_must_not(X, tmp_path):
    single = X.astype(np.float32)
    sources = {
        DenseRows: as_source(single),
        SparseRows: as_source(sparse.csr_array(single)),
        ConvertedRows: as_source(mapped(tmp_path, single)),
    }
    for kind, source in sources.items():
        assert source.dtype == np.float32
        wide = in_double_precision(source)
        assert isinstance(wide, kind)
        assert wide.dtype == np.float64
        assert in_double_precision(wide) is wide
        assert_array_equal(dense(wide.rows(slice(0, 20))), single.astype(float))


def test_a_source_is_taken_as_it_is(X):
    source = as_source(X)
    assert as_source(source) is source
    given = as_source(HomeMadeRows(X))
    assert as_source(given) is given


def test_blocks_of_a_given_sparse_source_are_put_in_order():
    values = sparse.csr_array(
        (np.array([1, 2, 4]), np.array([2, 0, 0]), np.array([0, 3])), shape=(1, 3)
    )
    block = as_source(HomeMadeRows(values)).rows(slice(0, 1))
    assert block.has_canonical_format
    assert block.dtype == np.float64
    assert_array_equal(block.toarray(), [[6, 0, 1]])
    assert values.nnz == 3


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ((25, 7), "a block of shape (20, 7) when asked for 25 rows of 7 columns"),
        ((20, 8), "a block of shape (1, 7) when asked for 1 row of 8 columns"),
        ((20,), "gives rows but has the shape (20,)"),
    ],
)
def test_a_source_that_gives_other_rows_than_it_says_is_refused(shape, words):
    source = HomeMadeRows(np.random.default_rng(0).random((20, 7)))
    source.shape = shape
    with pytest.raises(InvalidValueError, match=re.escape(words)):
        unmoved(2, max_iter=2).fit(source)


def test_what_is_a_source_is_told_by_what_it_has(X):
    assert is_source(HomeMadeRows(X))
    assert is_source(as_source(X))
    for other in (X, sparse.csr_array(X), sparse.lil_array(X), [[1.0]], "rows"):
        assert not is_source(other)
    polars = pytest.importorskip("polars")
    assert not is_source(polars.DataFrame({"rows": [1.0]}))


def test_the_layout_puts_columns_of_one_group_side_by_side():
    layout = Layout.of_groups(np.array([0, 1, 0, 2, 1]))
    assert_array_equal(layout.column_order, [0, 2, 1, 4, 3])
    assert_array_equal(layout.group_start, [0, 2, 4, 5])
    assert_array_equal(layout.group_of_position, [0, 0, 1, 1, 2])
    assert_array_equal(layout.position_of_column, [0, 2, 1, 4, 3])
    assert (layout.n_features, layout.n_groups) == (5, 3)
    by_column = np.arange(10).reshape(2, 5)
    assert_array_equal(layout.arrange(by_column), by_column[:, [0, 2, 1, 4, 3]])
    assert_array_equal(layout.restore(layout.arrange(by_column)), by_column)


def test_rows_share_a_form_by_their_pattern():
    shared = SharedPatterns(np.array([0, -1, 1]), [np.array([]), np.array([3])])
    assert shared.n_forms == 2
    assert_array_equal(shared.forms_of(np.array([0, 1, 2, -1], dtype=np.int32)), [0, -1, 1, -1])


def test_common_patterns_have_a_form_and_rare_ones_none():
    X = np.ones((40, 4))
    X[:ROWS_FOR_A_FORM, 1] = np.nan
    X[-1, [0, 2]] = np.nan
    for values in (X, sparse.csr_array(X)):
        observations = Observations.from_array(values)
        shared = observations.shared_patterns
        forms = shared.forms_of(observations.row_pattern)
        assert_array_equal(forms, [1] * ROWS_FOR_A_FORM + [0] * (39 - ROWS_FOR_A_FORM) + [-1])
        assert_array_equal(observations.layout.column_order[shared.missing[1]], [1])


def test_gaps_of_groups_are_found_piece_by_piece(X, monkeypatch):
    whole = Observations.from_array(X).group_gaps
    monkeypatch.setattr("ibp.data.observations.PIECE_ROWS", 3)
    monkeypatch.setattr("ibp.data.observations.SPARSE_PIECE_ROWS", 3)
    for values in (X, sparse.csr_array(X)):
        gaps = Observations.from_array(values).group_gaps
        assert gaps.format == "csc"
        assert_array_equal(gaps.toarray(), whole.toarray())


# Fits


def same_answers(model, other, X, X_other):
    """Fit both, each to its own form of the same numbers, and compare all that they say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X)
        other.fit(X_other)
    assert other.n_features_in_ == X.shape[1]
    assert_array_equal(other._training_codes(), model._training_codes())
    assert_array_equal(other.components_, model.components_)
    assert other.evidence_ == model.evidence_
    assert_array_equal(other.history_["evidence"], model.history_["evidence"])
    assert_array_equal(other.transform(X_other), model.transform(X))
    assert_array_equal(other.score_samples(X_other), model.score_samples(X))
    assert other.score(X_other) == model.score(X)
    assert_array_equal(dense(other.impute(X_other)), dense(model.impute(X)))


def method(label):
    settings = {} if label in ("meibp", "meibp-default", "bs-ibp") else {"max_iter": 4}
    return ibp.METHODS[label](n_components=3, random_state=1, **settings)


@pytest.mark.parametrize("label", ibp.METHODS)
def test_every_method_fits_a_source_as_it_fits_the_array(label):
    X = random_data(np.random.default_rng(3), 18, 7, missing="scattered")
    X -= np.nanmin(X)
    same_answers(method(label), method(label), X, HomeMadeRows(X))


@pytest.mark.parametrize("label", ["meibp-default", "f-vibp", "inmf", "bnmf", "ugibbs"])
def test_every_method_for_sparse_data_fits_a_sparse_source_as_it_fits_the_matrix(label):
    X = random_data(np.random.default_rng(3), 18, 7, missing="scattered")
    X = sparse.csr_array(np.where(np.nanmedian(X) > X, 0.0, X))
    same_answers(method(label), method(label), X, HomeMadeRows(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.float16, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("settings", [{}, {"block_size": 1, "init": "random"}])
def test_a_mapped_file_is_fitted_as_the_array_is(dtype, order, settings, tmp_path):
    X = 3.0 * random_data(np.random.default_rng(5), 300, 6)
    X = np.abs(X) > 3.0 if dtype is np.bool_ else X.astype(dtype)
    if X.dtype.kind == "f":
        X[::3, 2] = np.nan
        X[1, 4] = np.nan
    on_disk = mapped(tmp_path, X, order)
    same_answers(
        *(unmoved(4, max_iter=5, random_state=2, **settings) for _ in range(2)), X, on_disk
    )


@pytest.mark.parametrize("dtype", [np.int16, np.float32])
def test_a_mapped_file_is_never_converted_or_copied_as_a_whole(dtype, tmp_path):
    rng = np.random.default_rng(0)
    Z = rng.random((20_000, 4)) < 0.4
    X = 20.0 * (Z @ rng.uniform(1, 3, size=(4, 150))) + 5.0 * rng.normal(size=(20_000, 150))
    X = X.astype(dtype)
    if X.dtype.kind == "f":
        X[10_000:, :30] = np.nan
    on_disk = mapped(tmp_path, X, "F")
    converted = X.size * as_source(on_disk).dtype.itemsize
    settings = {"init": "random", "max_iter": 3, "tol": 0, "n_jobs": 2, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        unmoved(6, **settings).fit(X[:500])
        tracemalloc.start()
        try:
            model = unmoved(6, **settings).fit(on_disk)
            model.transform(on_disk)
            with pytest.raises(InvalidValueError, match="is expecting 150 features"):
                model.transform(on_disk[:, :20])
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert model.n_components_ > 1
    assert peak < converted / 4


def test_a_source_is_read_a_few_rows_at_a_time():
    X = random_data(np.random.default_rng(1), 6000, 4)
    source = HomeMadeRows(X)
    model = unmoved(3, init="random", max_iter=2, tol=0, random_state=0).fit(source)
    model.score(source)
    assert source.most_rows <= 1024


# What is said of bad data


def messages(estimator, *data):
    """What is said of each form of the data."""
    said = []
    for X in data:
        with pytest.raises((InvalidValueError, InvalidTypeError)) as caught:
            estimator.fit(X)
        said.append((type(caught.value), str(caught.value)))
    return said


@pytest.mark.parametrize("wrong", [np.inf, -np.inf, 1e200])
def test_the_first_wrong_entry_is_named_wherever_it_stands(wrong, tmp_path):
    X = np.ones((700, 3))
    X[300:, 2] = np.nan
    X[600, 1] = X[650, 0] = wrong
    said = messages(ibp.MEIBP(), X, mapped(tmp_path, X), HomeMadeRows(X), sparse.csr_array(X))
    assert len(set(said)) == 1
    assert "row 600, column 1" in said[0][1]


def test_the_first_negative_entry_is_named(tmp_path):
    X = np.ones((700, 3))
    X[600, 1] = -1.0
    for data in (X, mapped(tmp_path, X), HomeMadeRows(X), sparse.csr_array(X)):
        with pytest.warns(UserWarning, match="first in row 600, column 1"):
            unmoved(1, fit_intercept=False, init="random", max_iter=1, tol=0).fit(data)


def test_bad_sources_are_refused_as_bad_matrices_are(X, tmp_path):
    for bad in (X[:0], X[:, :0], X + 1j, X.astype("datetime64[s]")):
        ((kind, text), other) = messages(ibp.MEIBP(), bad, HomeMadeRows(bad))
        assert other == (kind, text)
    ((kind, text), other) = messages(ibp.MEIBP(), X[0], mapped(tmp_path, X[0]))
    assert other == (kind, text)
    assert "sparse" in messages(ibp.BeamSearchIBP(), HomeMadeRows(sparse.csr_array(X)))[0][1]
    assert "numbers" in messages(ibp.MEIBP(), HomeMadeRows(X.astype(object)))[0][1]
    text = mapped(tmp_path, np.array([["1", "2"], ["3", "four"]]))
    assert "the text 'four' in row 1, column 1" in messages(ibp.MEIBP(), text)[0][1]


def test_the_number_of_columns_of_a_source_is_checked(X):
    model = unmoved(2, random_state=0, max_iter=1, tol=0).fit(HomeMadeRows(X))
    assert model.n_features_in_ == 5
    with pytest.raises(InvalidValueError) as of_array:
        model.transform(X[:, :4])
    with pytest.raises(InvalidValueError) as of_source:
        model.transform(HomeMadeRows(X[:, :4]))
    assert str(of_source.value) == str(of_array.value)
    assert "X has 4 features, but MEIBP is expecting 5 features as input" in str(of_source.value)


def test_validation_gives_rows_and_copies_no_more_than_it_must(X):
    estimator = ibp.MEIBP()
    assert np.shares_memory(all_rows(check_matrix(estimator, X, reset=True)), X)
    stored = sparse.csr_array(X)
    assert np.shares_memory(
        check_matrix(estimator, stored, reset=True).rows(slice(0, 20)).data, stored.data
    )
    frame = pytest.importorskip("pandas").DataFrame(X.astype(np.float32), columns=list("abcde"))
    source = check_matrix(estimator, frame, reset=True)
    assert source.dtype == np.float32
    assert_array_equal(estimator.feature_names_in_, list("abcde"))
    assert_array_equal(summarize(source).counts, (~np.isnan(X)).sum(axis=0))
