import mpmath as mp
import numpy as np
import pytest
from scipy import stats

import naive
from ibp.kernels.truncated_normal import standard_entropy, standard_moments_of
from ibp.model import truncated_normal as tn

RATIOS = np.concatenate(
    [
        -np.logspace(6, -3, 60),
        np.linspace(-25, 12, 149),
        [-2.5, np.nextafter(-2.5, -3), -20.0, np.nextafter(-20.0, -21), 0.0, 9.0],
        np.logspace(-3, 6, 40),
    ]
)


def exact(ratio):
    """Mean, second moment, variance and entropy of TN(ratio, 1) in 60 digits."""
    with mp.workdps(60):
        x = mp.mpf(float(ratio))
        if x < -40:  # the cumulative distribution underflows even there; its expansion does not
            y, rest = -x, -x
            for level in range(300, 2, -1):
                rest = y + level / rest
            g = 1 / (y + 2 / rest)
            return g, 2 * g / rest, 2 * g / rest - g * g, (1 + y * g) / 2 - mp.log(y + g)
        hazard = mp.npdf(x) / mp.ncdf(x)
        g = x + hazard
        entropy = mp.log(2 * mp.pi * mp.e) / 2 + mp.log(mp.ncdf(x)) - x * hazard / 2
        return g, 1 + x * g, 1 - hazard * g, entropy


@pytest.fixture(scope="module")
def references():
    return np.array([[float(v) for v in exact(x)] for x in RATIOS])


def test_moments_keep_their_digits_from_minus_to_plus_a_million(references):
    moments = tn.standard_moments(RATIOS)
    np.testing.assert_allclose(moments.mean, references[:, 0], rtol=2e-14)
    np.testing.assert_allclose(moments.second_moment, references[:, 1], rtol=5e-14)
    np.testing.assert_allclose(moments.variance, references[:, 2], rtol=2e-13)


def test_entropy_keeps_its_digits(references):
    np.testing.assert_allclose(tn.entropy(RATIOS, 1.0), references[:, 3], rtol=1e-12, atol=1e-14)


def test_kernels_agree_with_the_exact_values(references):
    mean, variance = np.empty_like(RATIOS), np.empty_like(RATIOS)
    standard_moments_of(RATIOS, mean, variance)
    np.testing.assert_allclose(mean, references[:, 0], rtol=2e-14)
    np.testing.assert_allclose(variance, references[:, 2], rtol=2e-13)
    entropy = [standard_entropy(x, m) for x, m in zip(RATIOS, mean, strict=True)]
    np.testing.assert_allclose(entropy, references[:, 3], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("end", [-20.0, 9.0])
def test_no_ratio_is_looked_up_outside_of_the_table(end):
    """Compiled code does not check bounds; the same function in plain Python does."""
    around = end + np.arange(-4, 5) * np.spacing(abs(end))
    ratios = np.array([*around, end - 0.125, end + 0.125, -1e100, -1e3, -9.0, 0.0, 1e3, 1e100])
    plain, compiled = np.empty((2, ratios.size)), np.empty((2, ratios.size))
    getattr(standard_moments_of, "py_func", standard_moments_of)(ratios, *plain)
    standard_moments_of(ratios, *compiled)
    np.testing.assert_allclose(plain, compiled, rtol=1e-14)
    near = np.abs(ratios) < 1e6
    moments = tn.standard_moments(ratios[near])
    np.testing.assert_allclose(plain[0, near], moments.mean, rtol=2e-14)
    np.testing.assert_allclose(plain[1, near], moments.variance, rtol=2e-13)


@pytest.mark.parametrize(("location", "scale"), [(0.0, 1.0), (1.5, 0.5), (-3.0, 2.0), (-8.0, 0.7)])
def test_location_and_scale_by_integration(location, scale):
    moments = tn.moments(location, scale)
    mean, second = naive.moments(location, scale)
    assert moments.mean == pytest.approx(mean, rel=1e-8)
    assert moments.second_moment == pytest.approx(second, rel=1e-8)
    assert moments.variance == pytest.approx(second - mean**2, rel=1e-6)
    assert tn.entropy(location, scale) == pytest.approx(naive.entropy(location, scale), abs=1e-7)


def test_the_prior_is_the_half_normal():
    sigma = 0.7
    moments = tn.moments(0.0, sigma)
    assert moments.mean == pytest.approx(sigma * np.sqrt(2 / np.pi))
    assert moments.second_moment == pytest.approx(sigma**2)
    assert tn.entropy(0.0, sigma) == pytest.approx(0.5 * np.log(np.pi * np.e * sigma**2 / 2))


@pytest.mark.parametrize("ratio", [-1e6, -300.0, -10.5, -9.5, -1.0, 0.0, 3.0, 1e3, 1e6])
def test_draws_have_the_right_distribution(ratio):
    scale = 0.3
    uniforms = (np.arange(20_000) + 0.5) / 20_000
    draws = tn.sample(ratio * scale, scale, uniforms)
    moments = tn.moments(ratio * scale, scale)
    assert (draws >= 0).all()
    assert (np.diff(draws) >= 0).all()
    assert draws.mean() == pytest.approx(float(moments.mean), rel=1e-3)
    assert draws.std() == pytest.approx(float(np.sqrt(moments.variance)), rel=1e-2)
    if abs(ratio) < 20:
        exact_quantiles = stats.truncnorm(-ratio, np.inf, ratio * scale, scale).ppf(uniforms[::100])
        np.testing.assert_allclose(draws[::100], exact_quantiles, rtol=1e-6, atol=1e-9)


def test_draws_at_the_edges_are_finite():
    draws = tn.sample(np.array([-1e6, 0.0, 1e6]), 1.0, np.array([[0.0], [np.nextafter(1.0, 0)]]))
    assert np.isfinite(draws).all()
