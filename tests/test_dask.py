"""Dask arrays and data frames as X, on local threads: no client is active here."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import ibp
from chunked_problems import CHUNK, D, K, N, blurred, chunked, planted, with_gaps
from ibp import MEIBP
from ibp.data.chunks import joined_groups
from ibp.errors import InvalidTypeError, InvalidValueError, RechunkedWarning
from ibp.methods.meibp.distributed.method import DistributedMethod
from ibp.methods.meibp.distributed.parts import CodedRows
from ibp.workers import ThreadWorkers, active_client, add_up

da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")

ROUNDS = 3
# The rows in the order in which rounds visit them: a third of each chunk, then the next.
ORDER = np.concatenate(
    [
        np.arange(chunk * CHUNK + r * CHUNK // ROUNDS, chunk * CHUNK + (r + 1) * CHUNK // ROUNDS)
        for r in range(ROUNDS)
        for chunk in range(N // CHUNK)
    ]
)


@pytest.mark.parametrize(
    ("kind", "optimizer"),
    [
        ("dense", "exact"),
        ("dense", "double_greedy"),
        ("gaps", "exact"),
        ("sparse", "local_search"),
        ("sparse gaps", "exact"),
    ],
)
def test_same_blocks_give_the_same_evidence_as_in_memory(kind, optimizer):
    values, codes = planted()
    if "sparse" in kind:
        values = np.where(values > 1.5, values, 0.0)
    if "gaps" in kind:
        values = with_gaps(values)
    make = sparse.csr_array if "sparse" in kind else np.asarray
    settings = {"moves": False, "max_iter": 4, "tol": 0, "optimizer": optimizer}
    settings |= {"block_size": N // ROUNDS}
    start = blurred(codes)
    here = MEIBP(init={"Z": start[ORDER]}, **settings).fit(make(values[ORDER]))
    there = MEIBP(init={"Z": start}, **settings).fit(chunked(values).map_blocks(make))
    assert here.history_["n_changed"][0] > 100
    assert there.evidence_ == pytest.approx(here.evidence_, rel=1e-9)
    assert np.array_equal(there.history_["n_changed"], here.history_["n_changed"])
    assert np.array_equal(np.asarray(there.assignments_)[ORDER], here.assignments_)
    assert there.components_ == pytest.approx(here.components_, rel=1e-6, abs=1e-9)
    assert there.noise_std_ == pytest.approx(here.noise_std_, rel=1e-9)


@pytest.mark.parametrize("prior", ["shifted", "lof"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_the_bound_never_falls_though_features_die(prior, fit_intercept):
    values, _ = planted(noise=1.0)
    rng = np.random.default_rng(0)
    start = (rng.random((N, 9)) < 0.3).astype(np.uint8)
    start[:, 7:] = 0
    start[3, 7] = start[200, 8] = 1  # features that one row has for itself
    settings = {"prior": prior, "fit_intercept": fit_intercept, "noise": "shared"}
    settings |= {"learn_hyperparameters": False, "noise_std": 0.8, "factor_std": 1.0}
    model = MEIBP(init={"Z": start}, moves=False, block_size=N, tol=0, max_iter=12, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(chunked(values))
    rises = np.diff(model.history_["evidence"])
    assert (rises > -1e-9 * abs(model.evidence_)).all()
    assert model.n_components_ < 9
    again = np.asarray(model.assignments_).sum(axis=0)
    assert np.array_equal(again, model.feature_counts_)


def test_a_round_that_would_lower_the_bound_is_made_chunk_by_chunk(monkeypatch):
    from ibp.methods.meibp.distributed import rounds

    tried = []

    def falls(settings, state, step, *rest):
        tried.append(step)
        return True

    monkeypatch.setattr(rounds, "would_fall", falls)
    values, codes = planted()
    settings = {"moves": False, "block_size": N, "optimizer": "local_search", "max_iter": 2}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MEIBP(init={"Z": blurred(codes)}, tol=0, **settings).fit(chunked(values))
    # Four chunks, two halves and each of them alone, in both sweeps; then row by row.
    assert len(tried) == 2 * (1 + 2 + 4)
    assert model.history_["n_changed"][0] > 100
    assert np.diff(model.history_["evidence"]).min() > 0.0
    assert (np.asarray(model.assignments_) == codes).mean() > 0.95


def test_moves_find_planted_features_from_nothing():
    values, codes = planted(700)
    model = MEIBP(random_state=0).fit(chunked(values, 200))
    assert model.n_components_ == K
    found = np.asarray(model.assignments_)
    same = (found[:, :, None] == codes[:, None, :]).mean(axis=0)
    assert same.max(axis=0).min() > 0.98
    here = MEIBP(random_state=0).fit(values)
    assert model.evidence_ == pytest.approx(here.evidence_, rel=1e-4)


def test_births_on_all_rows_find_what_the_start_lacks():
    values, codes = planted(700)
    start = {"Z": codes[:, :2]}
    model = MEIBP(init=start, random_state=0).fit(chunked(values, 200))
    assert model.n_components_ == K
    assert "birth" in model.history_["move"]
    assert np.diff(model.history_["evidence"]).min() > -1e-6


def test_merges_and_removals_of_features_that_are_elsewhere():
    values, codes = planted(700)
    rng = np.random.default_rng(0)
    half = rng.random(700) < 0.5
    start = np.hstack([codes, np.zeros((700, 1), dtype=np.uint8)])
    start[half, K] = start[half, 0]
    start[half, 0] = 0
    model = MEIBP(init={"Z": start}, random_state=0).fit(chunked(values, 200))
    assert model.n_components_ == K


def test_a_sample_finds_the_start_of_more_rows_than_it_has(monkeypatch):
    from ibp.methods.meibp import automatic_start
    from ibp.methods.meibp.distributed import method

    monkeypatch.setattr(automatic_start, "SAMPLE_ROWS", 300)
    monkeypatch.setattr(automatic_start, "ROWS_PER_FEATURE", 5)
    monkeypatch.setattr(method, "ROWS_PER_FEATURE", 1)
    values, _ = planted(1000)
    model = MEIBP(random_state=0).fit(chunked(values, 250))
    assert model.n_components_ == K
    assert model.n_samples_fit_ == 1000


def test_births_look_at_a_sample_and_place_all_rows(monkeypatch):
    from ibp.methods.meibp.moves import residuals

    monkeypatch.setattr(residuals, "MOST_ENTRIES", 1000)
    monkeypatch.setattr(residuals, "SAMPLED_ENTRIES", 4000)
    monkeypatch.setattr(residuals, "LEAST_ROWS", 100)
    values, codes = planted(1000)
    model = MEIBP(init={"Z": codes[:, :2]}, random_state=0).fit(chunked(with_gaps(values), 250))
    assert model.n_components_ == K


def test_the_number_of_threads_changes_nothing():
    values, codes = planted()
    start = {"init": {"Z": blurred(codes)}, "moves": False}
    one, two = (MEIBP(n_jobs=n, **start).fit(chunked(values)) for n in (1, 2))
    assert one.evidence_ == two.evidence_
    assert np.array_equal(one.components_, two.components_)
    assert np.array_equal(np.asarray(one.assignments_), np.asarray(two.assignments_))


def test_assignments_are_a_dask_array_with_the_rows_chunks():
    values, codes = planted()
    model = MEIBP(init={"Z": codes}, moves=False).fit(chunked(values))
    assert isinstance(model.assignments_, da.Array)
    assert model.assignments_.chunks == ((CHUNK,) * 4, (model.n_components_,))
    assert model.assignments_.dtype == np.uint8
    transformed = MEIBP(init={"Z": codes}, moves=False).fit_transform(chunked(values))
    assert np.array_equal(transformed.compute(), np.asarray(model.assignments_))


def test_predictions_come_by_chunks_and_are_those_of_rows_in_memory():
    values, codes = planted()
    holed = with_gaps(values)
    model = MEIBP(init={"Z": codes}, moves=False).fit(chunked(values))
    x, true = chunked(holed, 200), chunked(values, 200)
    for name in ("transform", "probabilities", "confidence", "score_samples", "impute"):
        said = getattr(model, name)(x)
        assert isinstance(said, da.Array), name
        expected = getattr(model, name)(holed)
        assert said.shape == expected.shape
        assert said.compute() == pytest.approx(expected), name
    assert model.score(x) == pytest.approx(model.score(holed))
    assert model.score_heldout(x, true) == pytest.approx(model.score_heldout(holed, values))
    assert model.transform(x).dtype == np.uint8
    with pytest.raises(InvalidValueError, match="both be Dask's"):
        model.score_heldout(x, values)
    with pytest.raises(InvalidValueError, match="the same chunks"):
        model.score_heldout(x, chunked(values, 100))


def test_predictions_of_sparse_chunks_of_frames_and_of_other_methods():
    values, codes = planted()
    holed = with_gaps(np.where(values > 1.5, values, 0.0)).astype(np.float32)
    model = MEIBP(init={"Z": codes}, moves=False).fit(values)
    x = chunked(holed).map_blocks(sparse.csr_array)
    filled = model.impute(x)
    assert filled.dtype == np.float32
    first = filled.blocks[0].compute()
    assert sparse.issparse(first)
    expected = model.impute(sparse.csr_array(holed))[:CHUNK]
    assert first.toarray() == pytest.approx(expected.toarray())
    assert np.array_equal(model.transform(x).compute(), model.transform(sparse.csr_array(holed)))
    with pytest.raises(InvalidValueError, match="5 features"):
        model.transform(chunked(values)[:, :5])
    soft = ibp.FiniteVIBP(K, random_state=0, max_iter=3, tol=0).fit(values)
    assert soft.transform(chunked(values)).compute() == pytest.approx(soft.transform(values))
    frame = pd.DataFrame(values, columns=[f"c{j}" for j in range(D)])
    model.fit(frame)
    assert model.transform(dd.from_pandas(frame, npartitions=2)).compute().shape == (N, K)
    turned = dd.from_pandas(frame[frame.columns[::-1]], npartitions=2)
    with pytest.raises(InvalidValueError, match="feature names should match"):
        model.transform(turned)


def test_a_model_of_a_dask_array_is_saved_and_goes_on(tmp_path):
    values, codes = planted()
    model = MEIBP(init={"Z": codes}, moves=False).fit(chunked(values))
    model.save(tmp_path / "m.ibp")
    loaded = ibp.load(tmp_path / "m.ibp")
    assert np.array_equal(loaded.assignments_, np.asarray(model.assignments_))
    assert np.array_equal(loaded.transform(values), model.transform(values))
    further = MEIBP(init=model, moves=False).fit(chunked(values))
    assert further.evidence_ >= model.evidence_ - 1e-6


def test_data_frames_with_chunks_of_unknown_size():
    values, codes = planted()
    frame = pd.DataFrame(values, columns=[f"c{j}" for j in range(D)])
    frame["c3"] = frame["c3"].astype("float32")
    whole = MEIBP(init={"Z": codes}, moves=False).fit(chunked(frame.to_numpy()))
    model = MEIBP(init={"Z": codes}, moves=False).fit(dd.from_pandas(frame, npartitions=4))
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.evidence_ == pytest.approx(whole.evidence_, rel=1e-9)
    unknown = dd.from_pandas(frame, npartitions=4).to_dask_array()
    assert np.isnan(unknown.shape[0])
    assert MEIBP(init={"Z": codes}, moves=False).fit(unknown).evidence_ == model.evidence_
    assert model.transform(dd.from_pandas(frame, npartitions=2)).compute().shape == (N, K)


def test_an_array_in_memory_that_knows_dask_is_none_of_dasks():
    class Labelled:
        """As xarray's are, whose values may be Dask's or not."""

        def __init__(self, values):
            self.values, self.shape, self.chunks = values, values.shape, None

        def __dask_graph__(self):
            return None

        def __len__(self):
            return self.shape[0]

        def __array__(self, dtype=None, copy=None):
            return self.values

    values, codes = planted()
    settings = {"init": {"Z": codes}, "moves": False}
    model = MEIBP(**settings).fit(Labelled(values))
    assert model.evidence_ == MEIBP(**settings).fit(values).evidence_


def test_chunks_cut_along_columns_are_put_together_with_a_sentence():
    values, codes = planted()
    cut = da.from_array(values, chunks=(CHUNK, 5))
    with pytest.warns(RechunkedWarning, match="cut along its columns into 3 chunks"):
        model = MEIBP(init={"Z": codes}, moves=False).fit(cut)
    whole = MEIBP(init={"Z": codes}, moves=False).fit(chunked(values))
    assert model.evidence_ == whole.evidence_


def test_empty_chunks_are_passed_over():
    values, codes = planted()
    x = chunked(values)
    holes = da.concatenate([x[:0], x[:CHUNK], x[:0], x[CHUNK:]])
    model = MEIBP(init={"Z": codes}, moves=False).fit(holes)
    assert model.n_samples_fit_ == N
    with pytest.raises(InvalidValueError, match="has no rows"):
        MEIBP().fit(x[:0])


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_an_infinity_is_named_with_its_chunk(make):
    values, _ = planted()
    values[CHUNK + 7, 2] = np.inf
    with pytest.raises(InvalidValueError) as raised:
        MEIBP().fit(chunked(values).map_blocks(make))
    assert str(raised.value).startswith(
        "X (chunk 1 with the rows 120 to 239) has an infinity in row 127, column 2"
    )


def test_what_cannot_be_fitted_is_told_in_a_sentence():
    values, _ = planted()
    x = chunked(values)
    frame = dd.from_pandas(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}), npartitions=1)
    with pytest.raises(InvalidTypeError, match=r"column 1 \('b'\), where numbers are needed"):
        MEIBP().fit(frame)
    with pytest.raises(InvalidValueError, match="of 1 dimension"):
        MEIBP().fit(x[:, 0])
    with pytest.raises(InvalidTypeError, match="numbers are needed"):
        MEIBP().fit(x.astype(complex))
    lying = x.map_blocks(lambda block: block[:, :3], dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(InvalidValueError, match="chunk 0 as a block of shape"):
        MEIBP().fit(lying)
    mixed = da.concatenate([x[:CHUNK], x[CHUNK : 2 * CHUNK].map_blocks(sparse.csr_array)])
    with pytest.raises(InvalidValueError, match="chunk 1 is sparse, and chunk 0 is not"):
        MEIBP().fit(mixed)
    for setting in ({"codes": "weighted"}, {"row_start": "empty"}, {"block_size": 1}):
        with pytest.raises(InvalidValueError, match="is not for a Dask X"):
            MEIBP(**setting).fit(x)
    with pytest.raises(InvalidValueError, match=r"no observed value in column 2"):
        MEIBP().fit(da.where(da.arange(D, chunks=-1) == 2, np.nan, x))


def test_restarts_and_shuffled_rounds():
    values, _ = planted()
    model = MEIBP(random_state=0, n_init=2, shuffle=True, moves=False, n_components=K)
    model.fit(chunked(values))
    assert model.restart_evidence_.size == 2
    assert model.evidence_ == pytest.approx(model.restart_evidence_.max())


def test_callbacks_end_a_fit_and_have_models_so_far():
    values, codes = planted()
    seen = []

    def stop(progress):
        seen.append(progress.fitted_model().assignments_)
        return True

    model = MEIBP(init={"Z": blurred(codes)}, callbacks=stop).fit(chunked(values))
    assert model.ending_ == "callback"
    assert len(seen) == 1
    assert isinstance(seen[0], da.Array)


def test_a_state_that_is_elsewhere_is_not_written_down():
    values, codes = planted()

    def write(progress):
        progress.state.to_arrays()

    with pytest.raises(InvalidValueError, match="lies with the workers"):
        MEIBP(init={"Z": codes}, moves=False, callbacks=write).fit(chunked(values))


def test_copies_of_codes_cut_what_they_are_made_of(monkeypatch):
    from ibp.methods.meibp.distributed import method
    from ibp.methods.meibp.distributed.state import DistributedState

    anchored = []
    monkeypatch.setattr(method, "LONGEST_LINEAGE", 1)
    keep = DistributedState.anchor
    monkeypatch.setattr(DistributedState, "anchor", lambda s: (anchored.append(1), keep(s))[1])
    values, codes = planted()
    often = MEIBP(init={"Z": blurred(codes)}, moves=False).fit(chunked(values))
    assert len(anchored) == often.n_iter_
    monkeypatch.undo()
    never = MEIBP(init={"Z": blurred(codes)}, moves=False).fit(chunked(values))
    assert often.evidence_ == never.evidence_


def test_codes_are_packed_and_known_by_rows():
    codes = (np.random.default_rng(0).random((10, 13)) < 0.5).astype(np.uint8)
    coded = CodedRows.of(codes)
    assert coded.bits.shape == (10, 2)
    assert np.array_equal(coded.codes(), codes)
    assert np.array_equal(coded.codes(slice(3, 7)), codes[3:7])
    assert CodedRows.of(codes[:, :0]).codes().shape == (10, 0)


def test_groups_of_columns_are_joined_in_order_of_first_appearance():
    first, second = np.array([0, 0, 1, 1, 0]), np.array([0, 1, 1, 1, 0])
    assert joined_groups(first, second).tolist() == [0, 1, 2, 2, 0]


def test_sums_are_made_in_a_fixed_order():
    workers = ThreadWorkers(2)
    handles = [workers.hold(f"{i}") for i in range(20)]
    (text,) = workers.collect([add_up(workers, lambda *parts: f"({''.join(parts)})", handles)])
    assert text == "((01234567)(89101112131415)(16171819))"
    workers.close()
    assert active_client() is None


def test_settings_go_along_to_the_sample():
    method = DistributedMethod(start=None, hyperparameters=None, limit=7, moves=True)
    here = method.in_memory()
    assert type(here) is not DistributedMethod
    assert (here.limit, here.moves) == (7, True)
