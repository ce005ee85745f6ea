"""Kernels are plain Python, too: a debugger and coverage reach them, and bounds are checked."""

import os
import subprocess
import sys

import numpy as np

import tiny_fits


def test_fits_without_compiled_code_have_the_same_answers(tmp_path):
    plain = tmp_path / "plain.npz"
    # Warnings of numbers are errors there; in compiled code they would go unseen.
    with subprocess.Popen(
        [sys.executable, "-W", "error::RuntimeWarning", tiny_fits.__file__, plain],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    ) as process:
        compiled = tiny_fits.answers()
    assert process.returncode == 0
    with np.load(plain) as answers:
        assert answers.keys() == compiled.keys()
        for name, expected in compiled.items():
            if expected.dtype.kind == "f":
                np.testing.assert_allclose(
                    answers[name], expected, rtol=1e-9, atol=1e-9, err_msg=name
                )
            else:
                np.testing.assert_array_equal(answers[name], expected, err_msg=name)
