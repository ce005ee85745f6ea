"""The paper's Figure 3 in small: every method is run, scored and put into one table."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from ibp import METHODS

SECONDS, SWEEPS = 20.0, 20


@pytest.fixture(scope="module")
def experiment():
    path = Path(__file__).resolve().parents[1] / "experiments" / "synthetic_comparison.py"
    spec = importlib.util.spec_from_file_location("synthetic_comparison", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for their module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def task(experiment):
    return experiment.Task.draw(60, 30, 3, seed=0)


def by_hand(task, prediction, noise_std):
    errors = (task.data - prediction)[task.hidden]
    return -0.5 * (np.log(2 * np.pi * noise_std**2) + (errors / noise_std) ** 2).sum()


@pytest.mark.parametrize("label", METHODS)
def test_every_method_is_recorded(experiment, task, label):
    fitted = experiment.fit(label, task, 0, SECONDS, max_iter=SWEEPS)
    curve = fitted["curve"]
    assert [point["sweep"] for point in curve] == sorted({point["sweep"] for point in curve})
    assert curve[-1]["sweep"] == fitted["sweeps"] <= SWEEPS
    assert (np.diff([point["seconds"] for point in curve]) > 0).all()
    assert fitted["test_log_likelihood"] == curve[-1]["test_log_likelihood"]
    oracle = task.test_log_likelihood(task.truth, 0.0, task.common_noise_std)
    assert 3 * oracle < fitted["test_log_likelihood"] < 0.9 * oracle


@pytest.mark.filterwarnings("ignore:No convergence")
@pytest.mark.parametrize("label", ["meibp", "bnmf", "f-vibp"])
def test_a_recorded_fit_is_that_of_the_estimator(experiment, task, label):
    fitted = experiment.fit(label, task, 1, SECONDS, max_iter=SWEEPS)
    model = METHODS[label](3, random_state=1, max_iter=SWEEPS)
    shift = np.nanmin(task.training) if model.nonnegative and not model.fit_intercept else 0.0
    model.fit(task.training - shift)
    prediction = model._training_codes() @ model.components_ + model.intercept_ + shift
    assert fitted["sweeps"] == model.n_iter_
    assert fitted["test_log_likelihood"] == pytest.approx(
        by_hand(task, prediction, 0.75 * np.nanstd(task.training))
    )
    assert fitted["test_log_likelihood_own_noise"] == pytest.approx(
        by_hand(task, prediction, model.noise_std_)
    )


@pytest.mark.filterwarnings("ignore:No convergence")
@pytest.mark.parametrize("label", ["aibp", "t-ugibbs"])
def test_a_sampler_predicts_by_the_average_of_its_samples(experiment, task, label):
    fitted = experiment.fit(label, task, 1, SECONDS, max_iter=SWEEPS)
    model = METHODS[label](3, random_state=1, max_iter=SWEEPS)
    shift = 0.0 if model.fit_intercept else np.nanmin(task.training)
    samples = model.fit(task.training - shift).samples_
    predictions = [s.assignments @ s.components + s.intercept + shift for s in samples]
    assert fitted["sweeps"] == model.n_iter_
    assert fitted["test_log_likelihood"] == pytest.approx(
        by_hand(task, np.mean(predictions, axis=0), task.common_noise_std)
    )


@pytest.mark.filterwarnings("ignore:X has negative entries")
@pytest.mark.parametrize("label", ["meibp", "ugibbs", "f-vibp"])
def test_data_as_made_need_no_offset(experiment, task, label):
    fitted = experiment.fit(label, task, 0, SECONDS, as_made=True, max_iter=SWEEPS)
    shifted = experiment.fit(label, task, 0, SECONDS, max_iter=SWEEPS)
    assert fitted["curve"][0] != shifted["curve"][0]
    oracle = task.test_log_likelihood(task.truth, 0.0, task.common_noise_std)
    assert 2 * oracle < fitted["test_log_likelihood"] < 0.9 * oracle


def test_a_limit_that_ends_a_fit_is_stated(experiment, task):
    fitted = experiment.fit("bnmf", task, 0, 0.0)
    assert (fitted["ending"], fitted["sweeps"]) == ("time_limit", 0)


def test_table(experiment, task, capsys):
    results = experiment.compare(task, ["bnmf", "f-vibp"], 2, SECONDS)
    lines = experiment.table(results).splitlines()[2:]
    labels = [line.split()[0] for line in lines]
    assert sorted(labels) == ["bnmf", "f-vibp"]
    totals = [float(line.split()[1]) for line in lines]
    assert totals == sorted(totals, reverse=True)
    assert all(line.endswith("converged 2") for line in lines)
    assert len(json.loads(json.dumps(results))["fits"]) == 4
    assert "bnmf, seed 1" in capsys.readouterr().out


def test_picture(experiment, tmp_path):
    pytest.importorskip("matplotlib")
    results = {
        "held_out_entries": 10,
        "oracle": {"test_log_likelihood": -15.0},
        "fits": [
            {
                "method": "bnmf",
                "test_log_likelihood": -16.0,
                "curve": [{"seconds": 0.1, "test_log_likelihood": -16.0}],
            }
        ],
    }
    assert experiment.draw_picture(results, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0
