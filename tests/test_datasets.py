"""Data that are made up, with the truth behind them."""

import numpy as np
import pytest

from ibp.datasets import make_binary_factors, make_block_images


@pytest.mark.parametrize("make", [make_block_images, make_binary_factors])
def test_data_are_sums_of_factors_and_noise(make):
    exact = make(50, noise_std=0.0, random_state=0)
    np.testing.assert_allclose(exact.data, exact.assignments @ exact.factors, atol=1e-12)
    noisy = make(50, noise_std=0.5, random_state=0)
    assert 0.4 < np.std(noisy.data - noisy.assignments @ noisy.factors) < 0.6
    np.testing.assert_array_equal(noisy.data, make(50, noise_std=0.5, random_state=0).data)


@pytest.mark.parametrize("noise_std", [-0.1, np.nan])
def test_noise_is_not_negative(noise_std):
    with pytest.raises(ValueError, match="noise_std must not be negative; it is"):
        make_block_images(5, noise_std=noise_std)
