"""The state of every method is arrays and plain numbers, and a run goes on from them."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

import ibp
from ibp.blas import single_threaded_blas
from ibp.methods.context import Context
from ibp.registry import CARDS, card_of
from problems import random_data
from resuming import assert_resumes
from tiny_fits import MODES

SETTINGS = {
    label: {"thin": 2, "burn_in": 3} if card.samples else {}
    for card in CARDS.values()
    for label in card.labels
} | {"bs-ibp": {"beam_width": 3, "order": "random"}, "inmf": {"n_components": None, "tol": 1e-2}}
ESTIMATORS = (
    {
        f"{label}, {hyperparameters}": ibp.METHODS[label](
            **{"n_components": 4, "learn_hyperparameters": hyperparameters == "learned"} | settings
        )
        for label, settings in SETTINGS.items()
        for hyperparameters in ("known", "learned")
    }
    | {f"MEIBP, {mode}": ibp.MEIBP(**settings) for mode, settings in MODES.items()}
    | {
        "ugibbs, gaussian": ibp.UncollapsedGibbs(factors="gaussian"),
        "t-ugibbs, gaussian": ibp.UncollapsedGibbs(4, factors="gaussian"),
        "fvibp, without intercept": ibp.FiniteVIBP(4, fit_intercept=False),
        "ivibp, without intercept": ibp.InfiniteVIBP(4, fit_intercept=False),
    }
)
# Sweeps between states that are written down. Counted sums are made anew after the 16th.
SWEEPS = (1, 2, 3, 12)


def data(kind):
    X = random_data(np.random.default_rng(3), 24, 8, missing="none" if kind == "sparse" else kind)
    X -= np.nanmin(X)
    return sparse.csr_array(np.where(X < 0.5, 0.0, X)) if kind == "sparse" else X


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "name, kind",
    [
        (name, kind)
        for name, estimator in ESTIMATORS.items()
        for kind in ("none", "scattered", "sparse")
        if kind != "sparse" or card_of(estimator).accepts_sparse
    ],
)
def test_a_run_goes_on_from_what_was_written_down(name, kind):
    estimator = clone(ESTIMATORS[name]).set_params(random_state=0)
    with estimator._executor() as executor, single_threaded_blas():
        observations = estimator._observe_training_data(data(kind), executor)
        method = estimator._method(observations)
        context = Context(observations, np.random.default_rng(0), executor)
        state = method.init(context)
        seen = set()
        for n_sweeps in SWEEPS:
            assert_resumes(method, context, state, n_sweeps)
            seen |= state.to_arrays().keys()
    # What is not there at first, too, but for what only a fit at its limit knows and the walk of
    # reheatings, which `test_moves.py` writes down.
    assert {part.name for part in fields(state)} - {"limit_gain", "walker"} <= seen
    if card_of(estimator).samples:
        assert len(state.chain.samples) > 1
