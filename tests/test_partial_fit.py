"""Rows that come in batches: sums of them are kept, and features are born when they show."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest
from scipy import sparse

import ibp
from ibp import MEIBP
from ibp.errors import InvalidValueError

K, D = 5, 14


def planted(n, seed=0, noise=0.2):
    """Rows, their codes and the factors, which are the same for all seeds."""
    factors_rng, rng = np.random.default_rng(7), np.random.default_rng(seed)
    factors = factors_rng.uniform(0.5, 2.0, (K, D)) * (factors_rng.random((K, D)) < 0.6)
    codes = (rng.random((n, K)) < 0.35).astype(np.uint8)
    return codes @ factors + rng.normal(0.0, noise, (n, D)) + 1.0, codes, factors


def in_batches(values, n_batches=10, make=np.asarray, **settings):
    """A model of rows that came in batches, and the smallest rise of its evidence in a batch."""
    model, rises = MEIBP(random_state=0, **settings), []
    for rows in np.array_split(np.arange(values.shape[0]), n_batches):
        model.partial_fit(make(values[rows]))
        rises += np.diff(model.history_["evidence"]).tolist()
    return model, min(rises)


def recovered(model, codes, values):
    """The share of rows in which each true feature is a feature of the model, at the least."""
    found = model.transform(values)
    same = (found[:, :, None] == codes[:, None, :]).mean(axis=0)
    return same.max(axis=0).min()


@pytest.mark.parametrize(
    "settings", [{}, {"noise": "shared", "prior": "lof", "moves": False}], ids=str
)
def test_ten_batches_find_what_all_rows_together_show(settings):
    values, codes, _ = planted(1000)
    model, least_rise = in_batches(values, **settings)
    whole = MEIBP(random_state=0, **settings).fit(values)
    unseen, unseen_codes, _ = planted(400, seed=1)
    assert model.n_components_ == whole.n_components_ == K
    assert model.n_samples_fit_ == 1000
    assert recovered(model, unseen_codes, unseen) > 0.98
    assert model.score(unseen) == pytest.approx(whole.score(unseen), abs=0.005)
    assert model.evidence_ == pytest.approx(whole.evidence_, rel=0.005)
    assert least_rise > -1e-6
    assert np.abs(np.sort(model.feature_counts_) - np.sort(codes.sum(axis=0))).max() < 15


def test_the_evidence_is_that_of_all_rows_at_the_codes_they_have():
    """Batches whose codes are kept by hand give the statistics, and so the bound, of all rows."""
    values, codes, _ = planted(600)
    model = MEIBP(init={"Z": codes[:300]}, moves=False, tol=0, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = MEIBP(init={"Z": codes[:300]}, moves=False, tol=0, max_iter=50).fit(values[:300])
        first = first.assignments_
        model.partial_fit(values[:300])
        model.partial_fit(values[300:])
        sums = model._past.statistics
        assert sums.counts.tolist() == model.feature_counts_.tolist()
        second = model.transform(values[300:])
        together = np.vstack([first, second]).astype(float)
        # But for a row or two whose place hangs on the others.
        assert np.abs(sums.gram[0] - together.T @ together).max() <= 3.0
        assert sums.gram[0].diagonal().tolist() == sums.counts.tolist()


def test_features_are_born_in_the_batch_that_shows_them():
    values, codes, factors = planted(1200)
    hidden = slice(0, 600)
    values[hidden] -= codes[hidden, 3:] @ factors[3:]
    model = MEIBP(random_state=0)
    for rows in np.array_split(np.arange(600), 2):
        model.partial_fit(values[rows])
    assert model.n_components_ == 3
    for rows in np.array_split(np.arange(600, 1200), 2):
        model.partial_fit(values[rows])
    assert model.n_components_ == K
    assert np.sort(model.feature_counts_)[:2] == pytest.approx(
        np.sort(codes[600:, 3:].sum(axis=0)), abs=10
    )


@pytest.mark.parametrize("kind", ["gaps", "sparse", "sparse gaps", "single"])
def test_missing_entries_sparse_rows_and_single_precision(kind):
    values, codes, _ = planted(900)
    if "sparse" in kind:
        values = np.where(values > 1.4, values, 0.0)
    if "gaps" in kind:  # of columns that were complete in the batches before
        rng = np.random.default_rng(3)
        values[400:, :3] = np.where(rng.random((500, 3)) < 0.3, np.nan, values[400:, :3])
        values[700:, 5] = np.nan
    if kind == "single":
        values = values.astype(np.float32)
    make = sparse.csr_array if "sparse" in kind else np.asarray
    model, least_rise = in_batches(values, 4, make, init={"Z": codes[:225]}, moves=False)
    whole = MEIBP(init={"Z": codes}, moves=False).fit(make(values))
    assert least_rise > -1e-4
    assert model.n_components_ == whole.n_components_ == K
    assert model.components_ == pytest.approx(whole.components_, abs=0.1)
    assert model.score(make(values)) == pytest.approx(whole.score(make(values)), abs=0.03)


def test_what_is_forgotten_counts_for_less():
    values, _, _ = planted(900)
    batches = np.array_split(values, 3)
    model = MEIBP(random_state=0)
    for batch in batches:
        model.partial_fit(batch, forgetting=0.5)
    # 300 rows, half of them again, and so on.
    assert model.n_samples_fit_ == 300 + 150 + 75
    assert model.n_components_ == K


def test_a_stream_that_forgets_follows_what_changes():
    values, codes, _ = planted(600)
    settings = {"init": {"Z": codes[:100]}, "moves": False}
    follows, stays = (MEIBP(**settings) for _ in range(2))
    drift = np.repeat([0.0, 0.4], 300)[:, None]
    for batch in np.array_split(values + drift, 6):
        follows.partial_fit(batch, forgetting=0.3)
        stays.partial_fit(batch)
    assert np.abs(follows.intercept_ - 1.4).mean() < 0.5 * np.abs(stays.intercept_ - 1.4).mean()


def test_a_fitted_model_goes_on_and_a_loaded_one_says_why_not(tmp_path, monkeypatch):
    values, _, _ = planted(500)
    model = MEIBP(random_state=0).fit(values[:400])
    assert model.assignments_.shape[0] == 400
    model.partial_fit(values[400:])
    assert model.n_samples_fit_ == 500
    assert not hasattr(model, "assignments_")
    model.save(tmp_path / "m.ibp")
    loaded = ibp.load(tmp_path / "m.ibp")
    assert np.array_equal(loaded.transform(values), model.transform(values))
    with pytest.raises(InvalidValueError, match="it was read from a file"):
        loaded.partial_fit(values)
    monkeypatch.setattr("ibp.methods.meibp.stream.MOST_SUMS", 10)
    model.fit(values)  # begins anew
    assert model.assignments_.shape[0] == 500
    with pytest.raises(InvalidValueError, match="too large to keep"):
        model.partial_fit(values)


def test_what_a_stream_cannot_take():
    values, _, _ = planted(200)
    with pytest.raises(InvalidValueError, match="forgetting is 0"):
        MEIBP().partial_fit(values, forgetting=0)
    with pytest.raises(InvalidValueError, match='codes="binary"'):
        MEIBP(codes="weighted").partial_fit(values)
    model = MEIBP(random_state=0).partial_fit(values)
    with pytest.raises(InvalidValueError, match="14 features"):
        model.partial_fit(values[:, :5])
    broken = values.copy()
    broken[3, 2] = np.inf
    before = model.components_.copy()
    with pytest.raises(InvalidValueError, match="infinity in row 3, column 2"):
        model.partial_fit(broken)
    assert np.array_equal(model.components_, before)
    assert model.n_samples_fit_ == 200
    da = pytest.importorskip("dask.array")
    with pytest.raises(InvalidValueError, match="batches that are in memory"):
        model.partial_fit(da.from_array(values, chunks=(50, -1)))


def test_the_number_of_threads_changes_nothing():
    values, _, _ = planted(600)
    one, two = (in_batches(values, 3, n_jobs=n)[0] for n in (1, 2))
    assert one.evidence_ == two.evidence_
    assert np.array_equal(one.components_, two.components_)


def test_a_batch_is_placed_by_the_noise_that_its_columns_have(monkeypatch):
    """Gaps that none of the rows before had put the columns in another order."""
    from ibp.methods.meibp import stream

    values, codes, factors = planted(600)
    noise = np.linspace(0.1, 1.0, D)
    values = codes @ factors + np.random.default_rng(1).normal(0.0, noise, values.shape)
    values[400:, 4] = np.nan
    model = MEIBP(init={"Z": codes[:300]}, moves=False).fit(values[:300])
    known, placed_by, frozen_at = model.noise_std_.copy(), [], stream.frozen_at
    monkeypatch.setattr(
        stream, "frozen_at", lambda *given: placed_by.append(frozen_at(*given)) or placed_by[-1]
    )
    model.partial_fit(values[300:])
    assert placed_by[0].noise_std == pytest.approx(known)


def test_what_rounding_to_whole_rows_leaves_out_is_kept():
    values, codes, _ = planted(400)
    values[:100, 2] = np.nan
    past = MEIBP(init={"Z": codes}, moves=False).fit(values)._past
    faded = past
    for _ in range(200):
        faded = faded.faded(0.99)
    share = 0.99**200
    assert faded.n_samples == round(share * 400)
    assert faded.statistics.counts == pytest.approx(share * past.statistics.counts, abs=0.5)
    assert faded.observations.group_rows == pytest.approx(
        share * past.observations.group_rows, abs=0.5
    )


def test_batches_of_one_row_fade_as_larger_ones_do():
    values, codes, _ = planted(500)
    model = MEIBP(init={"Z": codes[:300]}, moves=False, n_jobs=1).fit(values[:300])
    for row in values[300:]:
        model.partial_fit(row[None], forgetting=0.98)
    n_rows = 300 * 0.98**200 + (1.0 - 0.98**200) / 0.02
    assert model.n_samples_fit_ == pytest.approx(n_rows, abs=1.0)
    assert model.feature_counts_ == pytest.approx(
        model._past.statistics.gram[0].diagonal(), abs=1.0
    )
    assert np.median(model.noise_std_) == pytest.approx(0.2, rel=0.15)


def test_all_rows_may_be_forgotten():
    values, codes, factors = planted(600)
    values[:300] -= codes[:300, 4:] @ factors[4:]
    model = MEIBP(random_state=0).fit(values[:300])
    model.partial_fit(values[300:], forgetting=1e-6)
    assert model.n_samples_fit_ == 300
    assert model.n_components_ >= K
    assert recovered(model, codes[300:], values[300:]) > 0.9


def test_callbacks_of_a_batch_are_given_models_that_predict():
    values, _, _ = planted(400)
    placed = []
    model = MEIBP(random_state=0).partial_fit(values[:200])
    model.set_params(callbacks=lambda progress: placed.append(progress.fitted_model()) and None)
    model.partial_fit(values[200:])
    assert placed[-1].transform(values).shape == (400, K)
    assert not hasattr(placed[-1], "assignments_")


def test_what_is_kept_does_not_grow_with_the_rows():
    values, codes, _ = planted(3000)
    sizes = [
        len(pickle.dumps(MEIBP(init={"Z": codes[:n]}, moves=False).fit(values[:n])._past))
        for n in (300, 3000)
    ]
    assert sizes[1] < 1.5 * sizes[0]
