"""Traces of samplers, as arrays and for ArviZ."""

from __future__ import annotations

import importlib
import sys
import warnings

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import ibp
from ibp.estimators.gibbs import AcceleratedGibbs
from ibp.traces import stacked_traces, to_arviz

NAMES = ("alpha", "noise_std", "factor_std", "n_components", "log_joint")


class StandInSampler:
    """What the traces need of a sampler; entries are sweep + 1000 chain + a tenth per name."""

    def __init__(self, n_iter, burn_in=0, chain=0, names=NAMES):
        self.burn_in = burn_in
        sweeps = np.arange(n_iter) + 1000.0 * chain
        self.trace_ = {name: sweeps + 0.1 * i for i, name in enumerate(names)}
        if "n_components" in self.trace_:
            self.trace_["n_components"] = self.trace_["n_components"].astype(np.int64)
        self.history_ = {"evidence": sweeps}
        self.n_iter_ = n_iter


class OtherSampler(StandInSampler):
    pass


def imported(name):
    """A module, without the warnings that it greets with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            pytest.skip(f"{name} is not installed")


@pytest.fixture(params=["arviz", "arviz_base"])
def arviz(request, monkeypatch):
    """ArviZ as installed, and the part of ArviZ 1.x that makes its trees."""
    module = imported(request.param)
    monkeypatch.setitem(sys.modules, "arviz", module)
    return module


def test_burn_in_is_dropped_and_chains_are_stacked():
    traces = stacked_traces(StandInSampler(10, burn_in=4), StandInSampler(10, burn_in=4, chain=1))
    assert set(traces) == set(NAMES)
    assert all(values.shape == (2, 6) for values in traces.values())
    np.testing.assert_array_equal(traces["alpha"][1], np.arange(1004, 1010))
    assert traces["n_components"].dtype == np.int64


def test_chains_are_cut_to_the_shortest_at_their_beginning():
    long, short = StandInSampler(30, burn_in=2), StandInSampler(9, burn_in=5, chain=1)
    alpha = stacked_traces(long, short)["alpha"]
    np.testing.assert_array_equal(alpha, [np.arange(26, 30), np.arange(1005, 1009)])


def test_burn_in_may_be_a_part_of_the_sweeps():
    half, third = StandInSampler(9, burn_in=0.5), StandInSampler(6, burn_in=0.34, chain=1)
    alpha = stacked_traces(half, third)["alpha"]
    np.testing.assert_array_equal(alpha, [np.arange(5, 9), np.arange(1002, 1006)])


def test_traces_come_from_the_history_of_a_sampler():
    model = AcceleratedGibbs(burn_in=2)
    with pytest.raises(NotFittedError, match="AcceleratedGibbs is not fitted"):
        stacked_traces(model)
    model.history_ = {name: np.arange(6.0) for name in (*NAMES, "evidence", "seconds")}
    traces = stacked_traces(model)
    assert set(traces) == set(NAMES)
    np.testing.assert_array_equal(traces["log_joint"], [np.arange(2.0, 6.0)])


def test_traces_are_copies():
    model = StandInSampler(5)
    stacked_traces(model)["alpha"][:] = -1
    assert (model.trace_["alpha"] >= 0).all()


def test_a_single_draw_is_enough():
    assert stacked_traces(StandInSampler(5, burn_in=4))["alpha"].tolist() == [[4.0]]


@pytest.mark.parametrize("n_iter, burn_in", [(5, 5), (3, 10), (0, 0)])
def test_refuses_chains_without_draws(n_iter, burn_in):
    good = StandInSampler(20)
    message = f"no sweeps after its burn-in: it made {n_iter} and burn_in is {burn_in}.*max_iter"
    with pytest.raises(ValueError, match=message):
        stacked_traces(good, StandInSampler(n_iter, burn_in))


def test_refuses_what_is_not_a_sampler():
    with pytest.raises(TypeError, match="MEIBP is not a sampler.*AcceleratedGibbs"):
        stacked_traces(StandInSampler(5), ibp.MEIBP())


def test_refuses_what_is_not_fitted():
    model = StandInSampler(5)
    del model.trace_
    with pytest.raises(NotFittedError, match="StandInSampler is not fitted"):
        stacked_traces(model)


def test_refuses_no_models_and_a_list_of_them():
    with pytest.raises(ValueError, match="no chain"):
        stacked_traces()
    with pytest.raises(TypeError, match="one by one"):
        stacked_traces([StandInSampler(5)])


def test_refuses_chains_with_different_traces():
    with pytest.raises(ValueError, match="not chains of one posterior"):
        stacked_traces(StandInSampler(5), StandInSampler(5, names=("alpha",)))


def test_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r'pip install "ibp\[arviz\]"'):
        to_arviz(StandInSampler(5))


def test_arviz_gets_groups_and_attributes(arviz):
    models = StandInSampler(12, burn_in=2), OtherSampler(12, burn_in=2, chain=1)
    tree = to_arviz(*models)
    assert set(tree.posterior.data_vars) == {"alpha", "noise_std", "factor_std", "n_components"}
    assert dict(tree.posterior.sizes) == {"chain": 2, "draw": 10}
    np.testing.assert_array_equal(
        tree.sample_stats["lp"].values, [model.trace_["log_joint"][2:] for model in models]
    )
    assert tree.attrs["method"] == "OtherSampler, StandInSampler"
    assert tree.attrs["inference_library"] == "ibp"
    assert tree.attrs["inference_library_version"] == ibp.__version__


def test_arviz_gets_no_statistics_without_a_joint_density(arviz):
    tree = to_arviz(StandInSampler(12, names=("alpha", "n_components")))
    assert set(tree.posterior.data_vars) == {"alpha", "n_components"}
    assert not hasattr(tree, "sample_stats")


def test_arviz_summarises():
    arviz = imported("arviz")
    table = arviz.summary(to_arviz(*(StandInSampler(60, burn_in=10) for _ in range(2))))
    assert set(table.index) == {"alpha", "noise_std", "factor_std", "n_components"}


def test_chains_of_fitted_samplers():
    X = np.random.default_rng(0).random((20, 4))
    chains = [
        ibp.AcceleratedGibbs(max_iter=8, burn_in=2, thin=1, random_state=seed).fit(X)
        for seed in range(2)
    ]
    traces = stacked_traces(*chains)
    assert set(traces) == {"alpha", "noise_std", "factor_std", "n_components", "log_joint"}
    for name, values in traces.items():
        np.testing.assert_array_equal(values, [chain.trace_[name][2:] for chain in chains])
