"""Sparse data: the same model as of the dense matrix, at the cost of what is stored."""

import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ibp import MEIBP
from ibp.data import Observations, summarize
from ibp.methods.context import Context
from ibp.methods.meibp.method import MEIBPMethod
from ibp.methods.meibp.random_start import RandomStart
from ibp.model import Bound, Statistics
from ibp.model.ibp_prior import EQUIVALENCE_CLASSES
from problems import missing_kinds, priors, random_hyperparameters, seeds, unmoved


def sparse_data(rng, n=60, d=9, k=3, missing="none", dtype=np.float64):
    """Counts of a few features with many zeros; some entries missing."""
    A = rng.uniform(1.0, 4.0, size=(k, d)) * (rng.random((k, d)) < 0.5)
    Z = rng.random((n, k)) < 0.4
    X = np.where(rng.random((n, d)) < 0.9, Z @ A, 0.0)
    X = np.where(X > 0, X + 0.2 * rng.normal(size=(n, d)), 0.0)
    if missing == "block":
        X[n // 2 :, : d // 3] = np.nan
    elif missing != "none":
        X[rng.random(X.shape) < {"scattered": 0.1, "heavy": 0.5}[missing]] = np.nan
    X[0] = 1.0  # every column keeps a value
    return X.astype(dtype)


def as_csr(X):
    """What is not zero, NaN among it."""
    return sparse.csr_array(X)


def a_start(X, k=4, seed=0):
    rng = np.random.default_rng(seed)
    n, d = X.shape
    return {
        "Z": (rng.random((n, k)) < 0.4).astype(np.uint8),
        "mu": rng.random((k, d)),
        "sigma": np.full((k, d), 0.2),
    }


FIXED = {"noise_std": 0.4, "factor_std": 1.5, "learn_hyperparameters": False}


@pytest.fixture(scope="module", params=["none", "scattered", "block"])
def X(request):
    return sparse_data(np.random.default_rng(0), missing=request.param)


@pytest.fixture(scope="module")
def models(X):
    """The same fit of the dense and of the sparse matrix."""
    settings = {"init": a_start(X), "block_size": 7, "tol": 0, "max_iter": 12, "noise_std": 0.4}
    return unmoved(**settings).fit(X), unmoved(**settings).fit(as_csr(X))


# The same model


@given(seed=seeds, missing=missing_kinds, prior=priors, intercept=st.booleans())
@settings(max_examples=40)
def test_the_bound_of_any_state_is_that_of_the_dense_matrix(seed, missing, prior, intercept):
    rng = np.random.default_rng(seed)
    X = sparse_data(rng, 20, 5, missing=missing)
    hyper = random_hyperparameters(rng, True, 3, 5, 100)
    values = []
    for matrix in (X, as_csr(X)):
        summary = summarize(matrix)
        o = Observations.from_summary(matrix, summary, centre=summary.means if intercept else None)
        classes = EQUIVALENCE_CLASSES[prior]
        method = MEIBPMethod(
            RandomStart(3), hyper, intercept_std=5.0 if intercept else None, prior=classes
        )
        context = Context(o, np.random.default_rng(1))
        state = method.init(context)
        parts = method.evidence(context, state)
        fresh = Statistics.from_codes(o, state.assignments)
        direct = Bound(
            o,
            fresh,
            state.factors,
            state.hyperparameters,
            classes,
            state.intercept,
            columns=state.column_hash,
        )
        assert direct.evidence().total == pytest.approx(parts.total, rel=1e-11)
        values.append([*vars(parts).values(), *fresh.gram.ravel(), *fresh.totals.ravel()])
    np.testing.assert_allclose(values[0], values[1], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("block_size", [1, 7, "auto"])
@pytest.mark.parametrize("changes", [{}, {"fit_intercept": False}, FIXED, {"shuffle": True}])
@pytest.mark.parametrize("optimizer", ["exact", "local_search"])
@pytest.mark.filterwarnings("ignore:X has negative entries")
def test_every_sweep_is_that_of_the_dense_matrix(X, prior, block_size, changes, optimizer):
    courses = []
    for matrix in (X, as_csr(X)):
        codes = []
        model = unmoved(
            init=a_start(X),
            prior=prior,
            block_size=block_size,
            optimizer=optimizer,
            callbacks=lambda progress, codes=codes: codes.append(progress.state.assignments.copy()),
            max_iter=4,
            tol=0,
            random_state=0,
            **({"noise_std": 0.4} | changes),
        ).fit(matrix)
        courses.append((codes, model))
    (dense_codes, dense), (sparse_codes, other) = courses
    assert dense.n_components_ >= 1
    assert len(dense_codes) == len(sparse_codes)
    for one, two in zip(dense_codes, sparse_codes, strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_allclose(dense.history_["evidence"], other.history_["evidence"], rtol=1e-10)
    np.testing.assert_allclose(
        dense.history_["train_log_likelihood"], other.history_["train_log_likelihood"], rtol=1e-9
    )
    np.testing.assert_array_equal(dense.history_["proven"], other.history_["proven"])
    np.testing.assert_allclose(dense.components_, other.components_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(dense.intercept_, other.intercept_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("missing", ["none", "scattered"])
@pytest.mark.filterwarnings("ignore:No convergence")
def test_the_authors_cold_search(missing):
    X = np.abs(sparse_data(np.random.default_rng(1), missing=missing))
    start = a_start(X)
    one, other = (
        MEIBP.paper(4, init=start, noise_std=0.4, factor_std=1.5, max_iter=8).fit(matrix)
        for matrix in (X, as_csr(X))
    )
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    np.testing.assert_allclose(one.history_["evidence"], other.history_["evidence"], rtol=1e-10)


def test_methods_agree(X, models):
    dense, other = models
    new = sparse_data(np.random.default_rng(5), 40, missing="scattered")
    new[7] = np.nan
    S = as_csr(new)
    np.testing.assert_array_equal(dense.transform(new), other.transform(S))
    np.testing.assert_array_equal(dense.transform(new), dense.transform(S))
    np.testing.assert_allclose(dense.confidence(new), dense.confidence(S), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(dense.score_samples(new), dense.score_samples(S), rtol=1e-9)
    assert dense.score(new) == pytest.approx(dense.score(S), rel=1e-9)
    filled = dense.impute(S)
    assert sparse.issparse(filled)
    np.testing.assert_allclose(filled.toarray(), dense.impute(new), rtol=1e-12)
    assert np.isnan(S.data).any()  # which was not touched
    true = sparse_data(np.random.default_rng(5), 40)
    assert dense.score_heldout(new, true) == pytest.approx(
        dense.score_heldout(S, as_csr(true)), rel=1e-9
    )


def test_scores_across_pieces(monkeypatch, models):
    dense, _ = models
    new = sparse_data(np.random.default_rng(6), 50, missing="scattered")
    expected = dense.score_samples(new)
    monkeypatch.setattr("ibp.evaluate.ROWS_AT_ONCE", 7)
    np.testing.assert_allclose(dense.score_samples(as_csr(new)), expected, rtol=1e-9)


def test_scores_near_a_perfect_fit():
    # The sum of squares is then a small difference of large numbers.
    Z = (np.random.default_rng(0).random((60, 2)) < 0.5).astype(np.uint8)
    X = Z @ np.array([[1000.0, 0, 500, 0], [0, 800.0, 0, 0]])
    X[0, 0] += 0.1
    model = unmoved(init=a_start(X, 2) | {"Z": Z}, max_iter=3, tol=0).fit(X)
    model.noise_std_ = 0.1
    np.testing.assert_allclose(
        model.score_samples(as_csr(X)), model.score_samples(X), rtol=1e-4, atol=1e-4
    )


def test_heldout_zeros_that_are_not_stored(models):
    dense, _ = models
    true = sparse_data(np.random.default_rng(5), 40)
    seen = true.copy()
    hidden = np.random.default_rng(0).random(seen.shape) < 0.3
    seen[hidden] = np.nan
    assert (true[hidden] == 0).any()
    expected = dense.score_heldout(seen, true)
    assert dense.score_heldout(as_csr(seen), as_csr(true)) == pytest.approx(expected, rel=1e-9)
    # What both do not know is not scored.
    true[3, hidden[3]] = np.nan
    expected = dense.score_heldout(seen, true)
    assert dense.score_heldout(as_csr(seen), as_csr(true)) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="both be dense, or both be sparse"):
        dense.score_heldout(as_csr(seen), true)


def test_pieces_with_nothing_held_out(monkeypatch, models):
    dense, _ = models
    true = sparse_data(np.random.default_rng(5), 40)
    seen = true.copy()
    seen[30, 2] = np.nan
    monkeypatch.setattr("ibp.evaluate.ROWS_AT_ONCE", 16)
    expected = dense.score_heldout(seen, true)
    assert dense.score_heldout(as_csr(seen), as_csr(true)) == pytest.approx(expected, rel=1e-9)
    with pytest.raises(ValueError, match="No entry is missing"):
        dense.score_heldout(as_csr(true), as_csr(true))


def planted(missing, errors):
    """Four features with columns of their own; a part of the entries has an error."""
    rng = np.random.default_rng(0)
    Z = (rng.random((600, 4)) < 0.3).astype(np.uint8)
    A = np.kron(np.eye(4), np.ones(10)) * 3.0
    X = Z @ A + errors(rng, (600, 40))
    if missing != "none":
        X[rng.random(X.shape) < 0.05] = np.nan
    return X, Z


@pytest.mark.parametrize("missing", ["none", "scattered"])
@pytest.mark.parametrize("noise", ["per_column", "shared"])
def test_the_default_fit_finds_what_is_planted(missing, noise):
    # Errors far outside of what a normal distribution of their variance has would be features.
    X, Z = planted(
        missing, lambda rng, shape: (rng.random(shape) < 0.2) * rng.uniform(-1.0, 1.0, size=shape)
    )
    S = as_csr(X)
    assert S.nnz < 0.5 * X.size
    model = MEIBP(random_state=0, noise=noise).fit(S)
    found = {column.tobytes() for column in np.ascontiguousarray(model.assignments_.T)}
    assert found == {column.tobytes() for column in np.ascontiguousarray(Z.T)}


@pytest.mark.parametrize("missing", ["none", "scattered"])
@pytest.mark.parametrize("noise", ["per_column", "shared"])
@pytest.mark.parametrize("convert", [as_csr, lambda X: X.astype(np.float32)], ids=["csr", "single"])
def test_the_same_numbers_have_the_same_start(missing, noise, convert):
    # Rare errors, some of them 13 standard deviations: with one noise level, candidates with many
    # features describe these one by one, and what a start makes of them depends on the last digit
    # of its data. With a level for each column, what is common there counts as uncertain as that.
    X, _ = planted(missing, lambda rng, shape: (rng.random(shape) < 0.05) * rng.normal(size=shape))
    X = X.astype(np.float32).astype(np.float64)
    settings = {"max_iter": 1, "tol": 0, "random_state": 0, "noise": noise}
    one, other = (unmoved(**settings).fit(matrix) for matrix in (X, convert(X)))
    assert one.n_components_ == 4 if noise == "per_column" else one.n_components_ > 4
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    per_entry = 1e-9 if convert is as_csr else 1e-4
    assert abs(one.evidence_ - other.evidence_) < per_entry * X.size


# Formats


def shuffled_entries(X):
    """CSR with columns out of order, zeros stored, and entries in two parts."""
    rng = np.random.default_rng(0)
    row, column = np.nonzero((X != 0) | (rng.random(X.shape) < 0.2))
    value = X[row, column]
    half = np.where(np.isnan(value), np.nan, value / 2)
    order = rng.permutation(2 * row.size)
    rows = np.concatenate([row, row])[order]
    by_row = np.argsort(rows, kind="stable")
    order = order[by_row]
    return sparse.csr_array(
        (
            np.concatenate([half, half])[order],
            np.concatenate([column, column])[order],
            np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=X.shape[0]))]),
        ),
        shape=X.shape,
    )


@pytest.mark.parametrize(
    "convert",
    [
        sparse.csr_array,
        sparse.csr_matrix,
        sparse.csc_array,
        sparse.csc_matrix,
        sparse.coo_array,
        sparse.coo_matrix,
        sparse.lil_array,
        sparse.dok_array,
        sparse.bsr_array,
        sparse.dia_array,
        shuffled_entries,
        lambda X: pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X)),
    ],
    ids=[
        "csr",
        "csr_matrix",
        "csc",
        "csc_matrix",
        "coo",
        "coo_matrix",
        "lil",
        "dok",
        "bsr",
        "dia",
        "shuffled",
        "pandas",
    ],
)
def test_formats(X, models, convert):
    matrix = convert(X)
    before = matrix.copy()
    settings = {"init": a_start(X), "block_size": 7, "tol": 0, "max_iter": 12, "noise_std": 0.4}
    model = unmoved(**settings).fit(matrix)
    np.testing.assert_array_equal(model.assignments_, models[0].assignments_)
    np.testing.assert_allclose(model.components_, models[0].components_, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(model.transform(matrix), models[0].transform(X))
    if sparse.issparse(matrix):
        filled = model.impute(matrix).toarray()
        np.testing.assert_allclose(filled, models[0].impute(X), rtol=1e-9)
        if hasattr(matrix, "indices"):  # the user's own stays as it was, in its order
            np.testing.assert_array_equal(matrix.data, before.data)
            np.testing.assert_array_equal(matrix.indices, before.indices)
            np.testing.assert_array_equal(matrix.indptr, before.indptr)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32])
def test_number_types(dtype):
    X = np.rint(np.abs(sparse_data(np.random.default_rng(2)))).astype(dtype)
    settings = {"init": a_start(X), "block_size": 7, "tol": 0, "max_iter": 8, "noise_std": 0.4}
    expected = unmoved(**settings).fit(X.astype(np.float64))
    model = unmoved(**settings).fit(sparse.csr_array(X))
    np.testing.assert_array_equal(model.assignments_, expected.assignments_)
    np.testing.assert_allclose(model.components_, expected.components_, rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(
        model.transform(sparse.csr_array(X)), expected.transform(X.astype(np.float64))
    )


def test_long_indices_and_read_only_arrays(X, models):
    S = as_csr(X)
    S.indices, S.indptr = S.indices.astype(np.int64), S.indptr.astype(np.int64)
    for array in (S.data, S.indices, S.indptr):
        array.flags.writeable = False
    settings = {"init": a_start(X), "block_size": 7, "tol": 0, "max_iter": 12, "noise_std": 0.4}
    model = unmoved(**settings).fit(S)
    np.testing.assert_array_equal(model.assignments_, models[0].assignments_)
    np.testing.assert_array_equal(model.transform(S), models[0].transform(X))


def test_rows_and_columns_with_nothing_stored():
    X = sparse_data(np.random.default_rng(3))
    X[0] = 0.0
    X[10:14] = 0.0
    X[:, 4] = 0.0
    settings = {"init": a_start(X), "noise_std": 0.4, "max_iter": 5, "tol": 0}
    one, other = (unmoved(**settings).fit(matrix) for matrix in (X, as_csr(X)))
    np.testing.assert_array_equal(one.assignments_, other.assignments_)
    np.testing.assert_array_equal(one.transform(X[10:14]), other.transform(as_csr(X[10:14])))
    nothing = sparse.csr_array((3, 9))
    np.testing.assert_array_equal(other.transform(nothing), one.transform(np.zeros((3, 9))))


# Errors


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_infinities_are_named(value, convert):
    X = np.zeros((30, 8))
    X[::2, ::3] = 1.0
    X[11, 2] = X[12, 1] = value
    with pytest.raises(ValueError, match=r"infinity in row 11, column 2\b.*NaN"):
        MEIBP().fit(convert(X))
    model = unmoved(2, max_iter=1, tol=0, random_state=0, **FIXED).fit(np.where(np.isinf(X), 0, X))
    for method in (model.transform, model.score, model.impute):
        with pytest.raises(ValueError, match=r"infinity in row 11, column 2\b"):
            method(convert(X))


def test_other_errors():
    X = np.ones((30, 8))
    X[3, 4] = 1e200
    with pytest.raises(ValueError, match=r"row 3, column 4.*Divide"):
        MEIBP().fit(as_csr(X))
    X[:, 4] = np.nan
    with pytest.raises(ValueError, match="no observed value in column 4"):
        MEIBP().fit(as_csr(X))
    with pytest.raises(ValueError, match="constant"):
        MEIBP().fit(sparse.csr_array((20, 5)))
    with pytest.raises(ValueError, match=r"[Cc]omplex"):
        MEIBP().fit(sparse.csr_array(np.eye(5) * 1j))
    X = np.zeros((30, 8))
    X[5, 3] = -1.0
    X[::2, 1] = 1.0
    with pytest.warns(UserWarning, match="negative entries, the first in row 5, column 3"):
        unmoved(2, fit_intercept=False, max_iter=0, tol=0, random_state=0, **FIXED).fit(as_csr(X))


# Memory


LARGE = """
from pathlib import Path
import numpy as np
from scipy import sparse
from ibp import MEIBP

def peak():
    # Not that of getrusage, which begins with what the process that started us has taken.
    (line,) = [x for x in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in x]
    return int(line.split()[1]) / 1024  # MiB

def matrix(n, d, rng):
    # Each of five features fills five columns of its own; other entries stand anywhere.
    has, which = np.nonzero(rng.random((n, 5)) < 0.18)
    row = np.concatenate([np.repeat(has, 5), rng.integers(n, size=n // 2)])
    column = (which[:, None] * (d // 5) + np.arange(5)).ravel()
    column = np.concatenate([column, rng.integers(d, size=n // 2)])
    value = (1.0 + 0.2 * rng.random(row.size)).astype(np.float32)
    value[rng.random(row.size) < 0.01] = np.nan
    return sparse.csr_array(sparse.coo_array((value, (row, column)), shape=(n, d)))

rng = np.random.default_rng(0)
small = matrix(3000, 50, rng)
MEIBP(CHANGES, max_iter=2, tol=0, random_state=0).fit(small).score(small)  # compiled from here on
S = matrix(100_000, 5000, rng)
Path("/proc/self/clear_refs").write_text("5")  # the peak of compilation is forgotten
before = peak()
model = MEIBP(CHANGES, max_iter=2, tol=0, random_state=0).fit(S)
model.transform(S), model.score_samples(S[:20_000]), model.impute(S)
print(peak() - before, model.n_components_, S.nnz)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.parametrize(
    "changes",
    ["5", pytest.param("5, init='random', block_size=100_000", marks=pytest.mark.long)],
)
def test_memory_follows_what_is_stored(changes):
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LARGE.replace("CHANGES", changes)],
        capture_output=True,
        text=True,
        env=os.environ | {"MALLOC_ARENA_MAX": "2"},
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    growth, n_components, n_stored = map(float, finished.stdout.split())
    assert n_components == 5
    assert n_stored > 450_000
    # As a dense matrix of single precision it would take 1907 MiB; what is stored, 4.
    assert 4 < growth < 300
