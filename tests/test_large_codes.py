"""Codes of all rows that lie in a file past a limit, and copies of them that are packed."""

from __future__ import annotations

import mmap
import os
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import ibp
from ibp.methods import large_codes
from ibp.methods.large_codes import PackedCodes, copied, joined, new_codes, with_columns
from problems import random_data

LIMITS = {"in memory": 1 << 30, "in a file": 10}


def lies_in_a_file(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array.obj if isinstance(array, memoryview) else array, mmap.mmap)


@pytest.fixture(params=LIMITS)
def limit(request, monkeypatch):
    """Either side of the limit, and parts of two rows."""
    monkeypatch.setattr(large_codes, "LARGEST_IN_MEMORY", LIMITS[request.param])
    monkeypatch.setattr(large_codes, "BYTES_AT_ONCE", 24)
    return request.param


def test_matrices_are_the_same_on_either_side_of_the_limit(limit):
    rng = np.random.default_rng(0)
    Z = (rng.random((7, 11)) < 0.5).astype(np.uint8)
    more = (rng.random((7, 3)) < 0.5).astype(np.uint8)
    keep = rng.random(11) < 0.5
    made = [new_codes(7, 11), copied(Z), joined(Z, more), with_columns(Z, keep)]
    expected = [np.zeros((7, 11)), Z, np.hstack([Z, more]), Z[:, keep]]
    for one, other in zip(made, expected, strict=True):
        assert_array_equal(one, other)
        assert one.flags.c_contiguous and one.flags.writeable and one.dtype == np.uint8
        assert lies_in_a_file(one) == (limit == "in a file")
    made[1][:] = 0
    assert Z.any()
    assert with_columns(Z, np.zeros(11, dtype=bool)).shape == (7, 0)


def test_packed_codes_tell_what_has_changed(limit):
    rng = np.random.default_rng(1)
    Z = (rng.random((50, 11)) < 0.5).astype(np.uint8)
    packed = PackedCodes(Z)
    assert packed._bits.shape == (50, 2)
    assert packed.rows_that_differ(Z) == 0
    Z[[3, 20, 49], [0, 10, 8]] ^= 1
    Z[3, 7] ^= 1
    assert packed.rows_that_differ(Z) == 3
    assert packed.rows_that_differ(Z[:, :10]) == 50


def test_without_room_on_disk_codes_are_in_memory(monkeypatch):
    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(large_codes, "LARGEST_IN_MEMORY", 10)
    monkeypatch.setattr(os, "posix_fallocate", full)
    assert not lies_in_a_file(new_codes(5, 5))


@pytest.mark.parametrize("codes", ["binary", "weighted"])
def test_a_fit_with_codes_in_a_file_is_the_same(codes, monkeypatch, tmp_path):
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.SAMPLE_ROWS", 100)
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.ROWS_PER_FEATURE", 1)
    X = random_data(np.random.default_rng(2), 300, 12, 4)
    fits = []
    for limit in LIMITS.values():
        monkeypatch.setattr(large_codes, "LARGEST_IN_MEMORY", limit)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fits.append(ibp.MEIBP(codes=codes, random_state=0, max_iter=12).fit(X))
    one, other = fits
    assert one.evidence_ == other.evidence_
    assert_array_equal(one.assignments_, other.assignments_)
    if codes == "binary":
        assert lies_in_a_file(other.assignments_) and not lies_in_a_file(one.assignments_)
    other.save(tmp_path / "model.ibp")
    assert_array_equal(ibp.load(tmp_path / "model.ibp").assignments_, one.assignments_)
