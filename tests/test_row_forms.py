"""The quadratic forms of rows, with and without gaps, against the model's equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from ibp import MEIBP
from ibp.data import Observations, summarize
from ibp.datasets import make_block_images
from ibp.kernels.block_rows import own_margins
from ibp.kernels.factors import complete_form
from ibp.kernels.row_forms import Columns, Form, own_form
from ibp.methods.row_forms import RowForms, SearchForms, gaps_of
from ibp.model.row_objective import likelihood_terms
from ibp.submodular.certificate import needed_margin
from problems import random_data, random_factors, seeds

shares = st.sampled_from([0.1, 0.4, 0.6, 0.9])


def random_columns(rng, n, d):
    """Means, variances, an offset and a noise precision per column, and what is made of them."""
    mean = np.abs(rng.normal(size=(n, d))) + 1e-3
    variance, offset = rng.uniform(0.0, 2.0, size=(n, d)), rng.normal(size=d)
    weight = rng.uniform(0.1, 30.0, size=d)
    terms = weight * (mean * offset + 0.5 * variance)
    columns = Columns(weight.copy(), np.ascontiguousarray(mean.T), np.ascontiguousarray(terms.T))
    return mean, variance, offset, weight, columns


def form_from_scratch(mean, variance, offset, weight, seen, covariance=None):
    """W and the constant as the module's docstring states them."""
    quadratic = np.zeros((len(mean), len(mean)))
    constant = np.zeros(len(mean))
    for d in seen:
        quadratic += weight[d] * np.outer(mean[:, d], mean[:, d])
        if covariance is not None:
            quadratic += weight[d] * covariance[d]
        constant += weight[d] * (mean[:, d] * offset[d] + 0.5 * variance[:, d])
    return quadratic, constant


@given(seed=seeds, share=shares, with_covariance=st.booleans(), spread=st.sampled_from([1.0, 1e6]))
@settings(max_examples=100)
def test_the_form_of_a_row_with_gaps(seed, share, with_covariance, spread):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 7)), int(rng.integers(1, 12))
    mean, variance, offset, weight, columns = random_columns(rng, n, d)
    # A column that outweighs all others must leave digits of them when it is taken away.
    columns.weight[0] *= spread
    columns.constant[0] *= spread
    weight = columns.weight.copy()
    covariance = None
    if with_covariance:
        roots = rng.normal(size=(d, n, n))
        covariance = roots @ roots.transpose(0, 2, 1)
    everything = (mean, variance, offset, weight)
    complete = Form(*form_from_scratch(*everything, range(d), covariance))
    missing = np.flatnonzero(rng.random(d) < share)
    seen = np.setdiff1d(np.arange(d), missing)
    own = Form(np.empty((n, n)), np.empty(n))
    lost = own_form(missing, columns, covariance, complete, own)
    quadratic, constant = form_from_scratch(*everything, seen, covariance)
    np.testing.assert_allclose(own.quadratic, quadratic, rtol=1e-9, atol=1e-11 * spread)
    np.testing.assert_allclose(own.constant, constant, rtol=1e-9, atol=1e-10 * spread)
    np.testing.assert_array_equal(own.quadratic, own.quadratic.T)
    largest = np.linalg.eigvalsh(complete.quadratic - quadratic)[-1]
    assert lost >= largest * (1.0 - 1e-9)


@given(seed=seeds, share=shares)
@settings(max_examples=100)
def test_the_margins_of_a_row_with_gaps_prove_what_they_say(seed, share):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 7)), int(rng.integers(1, 12))
    mean, variance, offset, weight, columns = random_columns(rng, n, d)
    complete = Form(*form_from_scratch(mean, variance, offset, weight, range(d)))
    own, needed = Form(np.empty((n, n)), np.empty(n)), np.empty(n)
    lost = own_form(np.flatnonzero(rng.random(d) < share), columns, None, complete, own)
    own_margins(needed_margin(complete.quadratic), complete, own, lost, needed)
    assert not np.isnan(needed).any()
    if np.isfinite(needed).all():
        # The bound of the certificate: W - D is positive semidefinite.
        kept = np.diag(np.diag(own.quadratic) - 2.0 * needed)
        assert np.linalg.eigvalsh(own.quadratic - kept)[0] >= -1e-11 * np.abs(complete[0]).max()


@given(seed=seeds)
@settings(max_examples=40)
def test_the_compiled_form_of_complete_rows(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 7)), int(rng.integers(1, 12))
    mean, variance, _, weight, _ = random_columns(rng, n, d)
    form = Form(np.empty((n, n)), np.empty(n))
    complete_form(weight, mean, variance, np.empty(d), form)
    quadratic, constant = form_from_scratch(mean, variance, np.zeros(d), weight, range(d))
    np.testing.assert_allclose(form.quadratic, quadratic, rtol=1e-11)
    np.testing.assert_allclose(form.constant, constant, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@given(seed=seeds, rows_for_a_form=st.sampled_from([1, 3, 1000]))
@settings(max_examples=30)
def test_every_row_has_the_terms_of_the_model(kind, seed, rows_for_a_form):
    rng = np.random.default_rng(seed)
    X = random_data(rng, 12, 6, missing="scattered")
    X[6:, :2] = np.nan  # a pattern that several rows share
    summary = summarize(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ibp.data.observations.ROWS_FOR_A_FORM", rows_for_a_form)
        observations = Observations.from_summary(
            X if kind == "dense" else sparse.csr_array(X),
            summary,
            centre=np.nan_to_num(summary.means),
        )
        factors, offset, tau = random_factors(rng, 3, 6), rng.normal(size=6), 1.7
        forms = SearchForms(
            observations, factors.mean, tau, variance=factors.variance, offset=offset
        )
        forms.make_all()
    rows = np.arange(12)
    products = np.asarray(observations.rows(rows) @ forms.components.T)
    gaps = gaps_of(observations, rows)
    complete = Form(forms.forms.quadratic[0], forms.forms.constant[0])
    number, shared, _ = forms.one_each(rows)
    order = observations.layout.column_order
    for i in rows:
        x = X[i, order] - observations.centre - offset
        linear, quadratic = likelihood_terms(x, factors, tau)
        own = Form(shared.quadratic[number[i]], shared.constant[number[i]])
        found = forms.forms.scale * products[i] - own.constant
        np.testing.assert_allclose(found, linear, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(own.quadratic, quadratic, rtol=1e-9, atol=1e-10)
        if gaps.form_of_row[i] < 0:
            again = Form(np.empty((3, 3)), np.empty(3))
            positions = gaps.position[gaps.start[i] : gaps.start[i + 1]]
            own_form(positions, forms.columns, None, complete, again)
            np.testing.assert_array_equal(again.quadratic, own.quadratic)


def test_a_precision_for_all_columns_is_that_of_each():
    rng = np.random.default_rng(0)
    observations = Observations.from_array(random_data(rng, 10, 5, missing="block"))
    factors = random_factors(rng, 3, 5)
    one = RowForms(observations, factors.mean, 2.5, variance=factors.variance)
    each = RowForms(observations, factors.mean, np.full(5, 2.5), variance=factors.variance)
    for forms in (one, each):
        forms.make_all()
    np.testing.assert_array_equal(one.forms.quadratic, each.forms.quadratic)
    np.testing.assert_array_equal(one.forms.constant, each.forms.constant)
    np.testing.assert_array_equal(one.components, each.components)


def test_a_precision_per_column_weighs_each_column():
    rng = np.random.default_rng(1)
    observations = Observations.from_array(random_data(rng, 10, 5, missing="block"))
    factors, weight = random_factors(rng, 3, 5), rng.uniform(0.1, 30.0, size=5)
    forms = RowForms(observations, factors.mean, weight, variance=factors.variance)
    forms.make_all()
    zeros = np.zeros(5)
    for form, missing in enumerate(observations.shared_patterns.missing):
        seen = np.setdiff1d(np.arange(5), missing)
        expected = form_from_scratch(factors.mean, factors.variance, zeros, weight, seen)
        np.testing.assert_allclose(forms.forms.quadratic[form], expected[0], rtol=1e-9)
        np.testing.assert_allclose(forms.forms.constant[form], expected[1], rtol=1e-9)
    weighted = forms.forms.scale * observations.layout.arrange(forms.components)
    np.testing.assert_allclose(weighted, weight * factors.mean, rtol=1e-12)


def test_a_tiny_noise_is_no_matter_of_single_precision():
    X = make_block_images(60, noise_std=0.3, random_state=0).data.astype(np.float32)
    settings = {"noise_std": 3e-20, "factor_std": 1.0, "learn_hyperparameters": False}
    double, single = (
        MEIBP(4, moves=False, max_iter=4, random_state=0, **settings).fit(data)
        for data in (X.astype(np.float64), X)
    )
    np.testing.assert_array_equal(double.assignments_, single.assignments_)
