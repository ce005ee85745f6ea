"""Methods side by side: what is hidden, what is scored and when, what is left when time is up."""

from __future__ import annotations

import json
from contextlib import nullcontext

import numpy as np
import pytest
from scipy import sparse

from ibp import MEIBP, METHODS, open_rows
from ibp.comparison import (
    ComparedFit,
    Comparison,
    compare,
    fit_scored,
    zero_minimum_shift,
)
from ibp.datasets import make_binary_factors, make_block_images
from ibp.errors import CheckpointError
from ibp.evaluate import HeldOut, held_out_block

SWEEPS = 15


@pytest.fixture(scope="module")
def held_out():
    drawn = make_binary_factors(60, 30, 3, random_state=0)
    return HeldOut(drawn.data, held_out_block(60, 30, 0))


@pytest.fixture(scope="module")
def blocks():
    return make_block_images(100, noise_std=0.3, random_state=0).data


def by_hand(held_out, prediction, noise_std):
    errors = (held_out.data - prediction)[held_out.hidden]
    return -0.5 * (np.log(2 * np.pi * noise_std**2) + (errors / noise_std) ** 2).mean()


def scored(label, held_out, noise_std=1.0, **changes):
    model = METHODS[label](3, random_state=1, **({"max_iter": SWEEPS} | changes))
    shift = zero_minimum_shift(model, held_out.training)
    return model, shift, fit_scored(model, held_out, noise_std, ComparedFit(label, 1), shift=shift)


# What is hidden


@pytest.mark.parametrize("rows", ["last", "random"])
@pytest.mark.parametrize(("n", "d", "fraction"), [(10, 10, 0.2), (7, 3, 0.9), (2, 2, 0.01)])
def test_a_block_is_hidden(rows, n, d, fraction):
    hidden = held_out_block(n, d, 0, fraction=fraction, rows=rows)
    rows_hidden, columns_hidden = hidden.any(axis=1), hidden.any(axis=0)
    assert (hidden == np.outer(rows_hidden, columns_hidden)).all()
    assert rows_hidden.sum() == n - n // 2
    assert columns_hidden.sum() == min(max(round(fraction * d), 1), d - 1)
    if rows == "last":
        assert rows_hidden[n // 2 :].all()
    assert (hidden == held_out_block(n, d, 0, fraction=fraction, rows=rows)).all()


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1, np.nan])
def test_a_fraction_is_one(fraction):
    with pytest.raises(ValueError, match="fraction must lie between 0 and 1"):
        held_out_block(4, 4, fraction=fraction)


def test_fits_do_not_see_what_is_hidden(held_out):
    assert np.isnan(held_out.training[held_out.hidden]).all()
    changed = HeldOut(np.where(held_out.hidden, 1e6, held_out.data), held_out.hidden)
    first, second = (scored("meibp-default", data)[0] for data in (held_out, changed))
    np.testing.assert_array_equal(first.components_, second.components_)
    assert held_out.n_hidden == held_out.hidden.sum()


def test_what_fits_see_is_made_once_and_shifted_apart():
    data = make_block_images(40, noise_std=0.3, random_state=0).data
    held_out = HeldOut.of(data, 0)
    seen = held_out.training
    before = seen.copy()
    _, shift, _ = scored("bnmf", held_out)
    assert shift > 0 and held_out.training is seen
    np.testing.assert_array_equal(seen, before)


# What is scored, and when


@pytest.mark.parametrize("label", ["meibp", "bnmf", "f-vibp"])
def test_a_scored_fit_is_that_of_the_estimator(held_out, label):
    _, shift, record = scored(label, held_out, noise_std=0.7)
    alone = METHODS[label](3, random_state=1, max_iter=SWEEPS)
    with pytest.warns() if record.notes else nullcontext():
        alone.fit(held_out.training + shift)
    prediction = alone._training_codes() @ alone.components_ + alone.intercept_ - shift
    assert record.n_iter == alone.n_iter_ and record.ending == alone.ending_
    assert record.log_likelihood[-1] == pytest.approx(by_hand(held_out, prediction, 0.7))
    own = by_hand(held_out, prediction, alone.noise_std_)
    assert record.own_log_likelihood[-1] == pytest.approx(own)


@pytest.mark.parametrize("label", ["aibp", "t-ugibbs"])
def test_a_sampler_predicts_by_the_average_of_its_samples(held_out, label):
    model, shift, record = scored(label, held_out)
    predictions = [s.assignments @ s.components + s.intercept - shift for s in model.samples_]
    expected = by_hand(held_out, np.mean(predictions, axis=0), 1.0)
    assert record.log_likelihood[-1] == pytest.approx(expected)


def test_curves_rise_in_time_and_end_with_the_fit(held_out):
    _, _, record = scored("t-aibp", held_out, max_iter=40, tol=0)
    assert record.sweeps[:10] == list(range(1, 11))
    assert record.sweeps[-1] == record.n_iter == 40
    assert len(record.sweeps) < 25  # later sweeps are scored less often
    assert (np.diff(record.sweeps) > 0).all() and (np.diff(record.seconds) > 0).all()
    sizes = {len(curve) for curve in (record.sweeps, record.seconds, record.log_likelihood)}
    assert sizes == {len(record.own_log_likelihood)}


def test_a_fit_without_time_is_scored_once(held_out):
    _, _, record = scored("bnmf", held_out, time_limit=0.0)
    assert (record.ending, record.n_iter, record.sweeps) == ("time_limit", 0, [0])
    assert record.notes == []  # its ending says so


def test_missing_entries_do_not_count(held_out):
    data = held_out.data.copy()
    rows, columns = np.nonzero(held_out.hidden)
    data[rows[:7], columns[:7]] = np.nan
    holed = HeldOut(data, held_out.hidden)
    assert holed.n_hidden == held_out.n_hidden - 7
    model, shift, record = scored("bnmf", holed)
    errors = (data - (model._training_codes() @ model.components_ - shift))[held_out.hidden]
    errors = errors[~np.isnan(errors)]
    assert record.log_likelihood[-1] == pytest.approx(-0.5 * (np.log(2 * np.pi) + errors**2).mean())


# The whole


def test_compare_fits_all_methods_and_ranks_them(blocks):
    seen = []
    result = compare(
        blocks,
        ["bnmf", "meibp-default", "f-vibp"],
        n_restarts=2,
        time_limit=60,
        on_progress=seen.append,
    )
    assert [(fit.label, fit.seed) for fit in result.fits] == [
        (label, seed) for label in ("bnmf", "meibp-default", "f-vibp") for seed in (0, 1)
    ]
    ranking = result.ranking()
    scores = [row.log_likelihood for row in ranking]
    assert scores == sorted(scores, reverse=True)
    best = ranking[0]
    finals = [fit.log_likelihood[-1] for fit in result.fits if fit.label == best.label]
    assert best.log_likelihood == pytest.approx(np.mean(finals))
    assert best.spread == pytest.approx(np.std(finals))
    # Found by meibp-default in what was not hidden, and given to those who need it.
    assert result.n_components == 4
    assert all(fit.n_components == 4 for fit in result.fits if fit.label == "bnmf")
    assert result.noise_std == 0.75 * result.data_std
    assert (seen[0].label, seen[0].done, seen[0].total) == ("bnmf", 0, 6)
    assert (seen[-1].label, seen[-1].done) == ("f-vibp", 5)
    assert seen[0].log_likelihood == result.fits[0].log_likelihood[0]
    assert not result.interrupted and not result.skipped
    again = Comparison.from_dict(json.loads(json.dumps(result.to_dict())))
    assert again == result


def test_the_same_seed_gives_the_same_scores(blocks):
    first, second = (compare(blocks, ["t-aibp"], n_components=3) for _ in range(2))
    assert first.fits[0].log_likelihood == second.fits[0].log_likelihood
    other = compare(blocks, ["t-aibp"], n_components=3, random_state=5)
    assert other.fits[0].seed == 5
    assert first.fits[0].log_likelihood != other.fits[0].log_likelihood


def test_sparse_and_single_precision_data(blocks):
    data = np.where(blocks > 0.6, blocks, 0.0)
    dense = compare(data, ["meibp-default"])
    compressed = compare(sparse.csr_array(data), ["meibp-default"])
    assert dense.ranking()[0].log_likelihood == compressed.ranking()[0].log_likelihood
    single = compare(data.astype(np.float32), ["meibp-default"])
    assert single.ranking()[0].log_likelihood == pytest.approx(
        dense.ranking()[0].log_likelihood, abs=0.01
    )


def test_no_time_at_all_still_gives_an_answer(blocks):
    result = compare(blocks, ["bnmf", "i-vibp"], time_limit=0.0)
    assert [fit.ending for fit in result.fits] == ["time_limit", "time_limit"]
    assert len(result.ranking()) == 2


def test_ctrl_c_keeps_what_there_is(blocks):
    def interrupt(progress):
        if progress.label == "i-vibp" and progress.sweep == 2:
            raise KeyboardInterrupt

    result = compare(blocks, ["bnmf", "i-vibp", "f-vibp"], n_components=4, on_progress=interrupt)
    assert result.interrupted
    assert [fit.label for fit in result.fits] == ["bnmf", "i-vibp"]
    assert result.fits[1].ending == "interrupted"
    assert len(result.ranking()) == 2


def test_ctrl_c_before_the_first_fit_has_nothing_to_keep(blocks, monkeypatch):
    def interrupt(progress):
        raise KeyboardInterrupt

    make = METHODS["meibp-default"]
    quick = lambda k=None, **settings: make(k, **settings, callbacks=interrupt)  # noqa: E731
    monkeypatch.setitem(METHODS, "meibp-default", quick)
    with pytest.raises(KeyboardInterrupt):
        compare(blocks, ["bnmf"])


def test_what_cannot_be_compared(blocks, monkeypatch):
    with pytest.raises(ValueError, match="There is no method 'pca'; choose among meibp"):
        compare(blocks, ["pca"])
    with pytest.raises(ValueError, match="nothing to compare"):
        compare(blocks, [])
    with pytest.raises(ValueError, match="constant"):
        compare(np.ones((10, 4)), ["bnmf"])
    with pytest.raises(ValueError, match="infinity"):
        compare(np.where(blocks > 1, np.inf, blocks), ["bnmf"])
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        compare(blocks[:, :1], ["bnmf"])
    hidden = held_out_block(100, 36, 1, rows="random")
    with pytest.raises(ValueError, match="All entries that would be hidden are missing"):
        compare(np.where(hidden, np.nan, blocks), ["bnmf"], random_state=1)
    with pytest.raises(ValueError, match="n_restarts == 0, must be >= 1"):
        compare(blocks, ["bnmf"], n_restarts=0)
    with pytest.raises(ValueError, match="time_limit"):
        compare(blocks, ["bnmf"], time_limit=-1)
    with pytest.raises(ValueError, match="time_limit must be a number"):
        compare(blocks, ["bnmf"], time_limit=np.nan)
    with pytest.raises(TypeError, match="random_state must be an instance"):
        compare(blocks, ["bnmf"], random_state=None)
    monkeypatch.setattr("ibp.comparison.MOST_ENTRIES", 100)
    with pytest.raises(ValueError, match="100 x 36 entries, too many"):
        compare(sparse.csr_array(blocks), ["bnmf"])


def test_a_method_that_refuses_is_named_with_its_reason(blocks):
    data = blocks.copy()
    data[:, 3] = np.nan  # nothing observed
    result = compare(data, ["bnmf", "f-vibp"], n_components=4, n_restarts=2)
    assert set(result.skipped) == {"bnmf", "f-vibp"}
    assert "column" in result.skipped["bnmf"].lower()
    assert result.fits == [] and result.ranking() == []


def test_rows_that_are_alike_at_first_are_no_obstacle():
    data = make_block_images(60, noise_std=0.3, random_state=0).data
    data = np.vstack([np.zeros((200, 36)), data])
    result = compare(data, "bnmf", n_components=2, time_limit=10)
    assert not result.skipped and result.ranking()[0].label == "bnmf"


def test_no_column_is_hidden_as_a_whole():
    data = make_block_images(60, noise_std=0.3, random_state=0).data
    data[1:, :30] = np.nan  # thirty columns have one entry each
    for seed in range(5):
        seen = HeldOut.of(data, seed, rows="random").training
        assert not np.isnan(seen).all(axis=0).any()


def test_trouble_of_the_callers_own_is_not_the_methods(blocks):
    def fail(progress):
        raise ValueError("the disk is full")

    with pytest.raises(ValueError, match="the disk is full"):
        compare(blocks, ["bnmf"], n_components=2, on_progress=fail)


def test_errors_are_compared_with_those_of_column_means_in_units_of_the_columns(held_out):
    hidden, unit = held_out.hidden, np.where(np.arange(30) == 3, 1000.0, 1.0)
    scaled = HeldOut(held_out.data * unit, hidden)
    model = MEIBP(random_state=0).fit(scaled.training)
    error, ratio = scaled.own_errors(model)
    filled = model.impute(scaled.training)
    residual = (filled - scaled.data)[hidden]
    assert error == pytest.approx(np.sqrt(np.mean(residual**2)))
    seen = scaled.training
    from_mean = (scaled.data - np.nanmean(seen, axis=0))[hidden]
    spread = np.broadcast_to(np.nanstd(seen, axis=0), hidden.shape)[hidden]
    expected = np.sum((residual / spread) ** 2) / np.sum((from_mean / spread) ** 2)
    assert ratio == pytest.approx(np.sqrt(expected))


def test_column_means_without_an_error_are_nothing_to_compare_with(held_out):
    data = np.where(held_out.hidden.any(axis=0), 2.0, held_out.data)
    same = HeldOut(data, held_out.hidden)
    error, ratio = same.own_errors(MEIBP(random_state=0).fit(same.training))
    assert ratio is None
    assert error == pytest.approx(0.0, abs=1e-9)


# Checkpoints


def without_seconds(comparison):
    values = comparison.to_dict()
    for fit in values["fits"]:
        del fit["seconds"]
    return values


def test_a_comparison_goes_on_where_it_was(blocks, tmp_path):
    path, told = tmp_path / "run.ckpt", []
    methods = ["bnmf", "f-vibp"]
    settings = {"n_restarts": 2, "time_limit": 60.0, "checkpoint": path}

    def interrupt(progress):
        if progress.done == 2 and progress.sweep == 2:
            raise KeyboardInterrupt

    half = compare(blocks, methods, **settings, on_progress=interrupt)
    assert half.interrupted and len(half.fits) == 3
    with pytest.raises(CheckpointError, match="holds 2 fits of a comparison that has not ended"):
        compare(blocks, methods, **settings)
    resumed = {"resume": True, "on_resumed": lambda *so_far: told.append(so_far)}
    result = compare(blocks, methods, **settings, **resumed)
    (so_far, seconds), *_ = told
    assert [(fit.label, fit.seed) for fit in so_far.fits[:2]] == [("bnmf", 0), ("bnmf", 1)]
    assert 0 < seconds < 60
    settings.pop("checkpoint")
    assert without_seconds(result) == without_seconds(compare(blocks, methods, **settings))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"time_limit": 3.0}, "time_limit was 2.0 and is 3.0"),
        ({"methods": ["inmf"]}, r"methods was \['bnmf'\] and is \['inmf'\]"),
        ({"X": np.ones((3, 3))}, "constant"),
        ({"X": np.arange(12.0).reshape(4, 3)}, "100 x 36 numbers, and now there are 4 x 3"),
    ],
)
def test_one_of_something_else_is_refused(blocks, tmp_path, changes, words):
    settings = {"X": blocks, "methods": ["bnmf"], "time_limit": 2.0, "n_components": 2}
    settings["checkpoint"] = tmp_path / "run.ckpt"
    compare(**settings)
    with pytest.raises(ValueError, match=words):
        compare(**(settings | changes), resume=True)


def test_numbers_of_numpy_are_written_down_as_others_are(blocks, tmp_path):
    settings = {"n_components": np.int64(2), "random_state": np.int64(1), "n_restarts": np.int64(1)}
    settings |= {"time_limit": np.float32(2.0), "fraction": np.float32(0.25)}
    kept = {"checkpoint": tmp_path / "run.ckpt"}
    result = compare(blocks, ["bnmf"], **settings, **kept)
    assert compare(blocks, ["bnmf"], **settings, **kept, resume=True) == result


def test_rows_of_a_source_are_compared_on_as_an_array_is(blocks, tmp_path):
    np.save(tmp_path / "blocks.npy", blocks)
    settings = {"n_components": 2, "time_limit": 60.0}
    of_file = compare(open_rows(tmp_path / "blocks.npy"), ["bnmf"], **settings)
    assert without_seconds(of_file) == without_seconds(compare(blocks, ["bnmf"], **settings))


def test_time_that_was_spent_before_is_not_given_again(blocks, tmp_path):
    settings = {"n_components": 2, "time_limit": 0.0, "checkpoint": tmp_path / "run.ckpt"}
    before = compare(blocks, ["bnmf"], **settings)
    after = compare(blocks, ["bnmf"], **settings, resume=True)
    assert after == before and after.fits[0].ending == "time_limit"
