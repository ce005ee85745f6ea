"""The paper's Figure 3 in small: every method is run, scored and put into one table."""

import importlib.util
import sys
from pathlib import Path

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


@pytest.mark.parametrize("label", METHODS)
def test_every_method_is_recorded(experiment, task, label):
    fitted = experiment.fit(label, task, 0, SECONDS, max_iter=SWEEPS)
    assert fitted.sweeps[-1] == fitted.n_iter <= SWEEPS
    oracle = task.oracle(task.common_noise_std)
    assert 3 * oracle < fitted.log_likelihood[-1] < 0.9 * oracle


@pytest.mark.parametrize("label", ["meibp", "ugibbs", "f-vibp"])
def test_data_as_made_need_no_offset(experiment, task, label):
    fitted = experiment.fit(label, task, 0, SECONDS, as_made=True, max_iter=SWEEPS)
    shifted = experiment.fit(label, task, 0, SECONDS, max_iter=SWEEPS)
    assert fitted.log_likelihood[0] != shifted.log_likelihood[0]
    oracle = task.oracle(task.common_noise_std)
    assert 2 * oracle < fitted.log_likelihood[-1] < 0.9 * oracle


def test_table_and_picture(experiment, task, tmp_path, capsys):
    result = experiment.compare(task, ["bnmf", "f-vibp"], 2, SECONDS)
    lines = experiment.table(result, task).splitlines()[2:]
    labels = [line.split()[0] for line in lines]
    assert sorted(labels) == ["bnmf", "f-vibp"]
    totals = [float(line.split()[1]) for line in lines]
    assert totals == sorted(totals, reverse=True)
    assert all(line.endswith("converged 2") for line in lines)
    assert "bnmf, seed 1" in capsys.readouterr().out
    pytest.importorskip("matplotlib")
    oracle = task.oracle(task.common_noise_std)
    assert experiment.draw_picture(result, oracle, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 0
