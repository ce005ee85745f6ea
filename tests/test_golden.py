"""The authors' own numbers."""

import numpy as np
import pytest

from ibp import MEIBP
from ibp.data import Observations
from ibp.model import Bound, Factors, Hyperparameters, Statistics, update_factors
from ibp.model.row_objective import row_problem
from ibp.submodular import maximize

CASES = ["a_dense", "b_masked", "c_wide", "d_tall"]


@pytest.fixture(params=CASES)
def case(request, golden):
    values = golden(request.param)
    values["X"] = np.where(values["mask"], np.nan, values["X"])
    return values


def model_of(case, sweeps):
    return MEIBP.paper(
        case["Z0"].shape[1],
        alpha=float(case["alpha"]),
        noise_std=float(case["sigma_x"]),
        factor_std=float(case["sigma_a"]),
        row_start="empty",
        init={"Z": case["Z0"], "mu": case["mu0"], "sigma": case["sigma0"]},
        max_iter=sweeps,
        tol=0,
    )


def test_initial_bound_and_first_factor_update(case):
    observations = Observations.from_array(case["X"])
    hyper = Hyperparameters.known(
        noise_std=float(case["sigma_x"]),
        factor_std=float(case["sigma_a"]),
        alpha=float(case["alpha"]),
    )
    statistics = Statistics.from_codes(observations, case["Z0"])
    factors = Factors.from_parameters(
        observations.layout.arrange(case["mu0"]), observations.layout.arrange(case["sigma0"])
    )
    parts = Bound(observations, statistics, factors, hyper).evidence()
    assert parts.total == pytest.approx(float(case["evidence_initial"]), rel=1e-8)
    np.testing.assert_allclose(
        [parts.likelihood, parts.assignment_prior, parts.factor_prior, parts.factor_entropy],
        case["evidence_initial_terms"],
        rtol=1e-8,
    )
    update_factors(factors, statistics, observations.layout.group_start, hyper)
    for name, expected in (
        ("location", "mu"),
        ("scale", "sigma"),
        ("mean", "mean"),
        ("second_moment", "second_moment"),
    ):
        np.testing.assert_allclose(
            observations.layout.restore(getattr(factors, name)),
            case[f"{expected}_after_factor_update"],
            rtol=1e-12,
            atol=1e-12,
        )
    after = Bound(observations, statistics, factors, hyper).evidence().total
    assert after == pytest.approx(float(case["evidence_after_factor_update"]), rel=1e-8)

    for n, x in enumerate(case["X"]):
        problem = row_problem(
            x[observations.layout.column_order], np.delete(case["Z0"], n, axis=0), factors, hyper
        )
        solution = maximize(problem, "local_search", complement=False)
        np.testing.assert_array_equal(solution.chosen, case["Z_local_search_frozen"][n])


@pytest.mark.filterwarnings("ignore:X has negative entries")
def test_every_sweep(case):
    start = model_of(case, 0).fit(case["X"])
    np.testing.assert_array_equal(start.assignments_, case["Z0"])
    np.testing.assert_allclose(
        start.components_, case["mean_after_factor_update"], rtol=1e-12, atol=1e-12
    )
    assert start.evidence_ == pytest.approx(float(case["evidence_after_factor_update"]), rel=1e-8)
    for sweeps in (1, 2, 3, 4):
        model = model_of(case, sweeps).fit(case["X"])
        np.testing.assert_array_equal(model.assignments_, case["Z_per_sweep"][sweeps - 1])
        np.testing.assert_allclose(
            model.components_, case["mean_per_sweep"][sweeps - 1], rtol=1e-12, atol=1e-12
        )
        np.testing.assert_allclose(
            model.history_["evidence"], case["evidence_per_sweep"][:sweeps], rtol=1e-8
        )


@pytest.mark.filterwarnings("ignore:X has negative entries")
def test_hidden_entries_do_not_matter(golden):
    values = golden("b_masked")
    model = model_of(values, 4).fit(np.where(values["mask"], np.nan, values["X"]))
    np.testing.assert_array_equal(model.assignments_, values["Z_per_sweep"][3])
    complete = model_of(values, 4).fit(values["X"])
    assert (complete.assignments_ != model.assignments_).any()


@pytest.mark.parametrize("seed", range(5))
def test_small_synthetic_set_from_random_starts(small_synthetic, seed):
    values = small_synthetic
    model = MEIBP.paper(
        20,
        alpha=float(values["alpha"]),
        noise_std=float(values["sigma_x"]),
        factor_std=float(values["sigma_a"]),
        row_start="current",
        random_state=seed,
    ).fit(np.where(values["mask"], np.nan, values["X"]))
    assert model.evidence_ >= -397e3
    assert model.converged_
