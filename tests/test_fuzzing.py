"""Hostile files: whatever is in them, a command ends in a result or in one sentence, with exit 2.

More than 200 cases: models, text, NumPy's files and Matrix Market, made wrong in all sorts of ways.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import io as scipy_io
from scipy import sparse

import ibp
from ibp.cli.app import run

CASES = 50  # of each kind, and more of models
FLOATS = st.floats(allow_nan=True, allow_infinity=True, width=32)
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | FLOATS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
COUNTS = re.compile("count|n_components|similarity|packed|weights_")
DICTIONARIES = ("scalars", "parameters", "evidence_parts", "notes")
CELLS = st.one_of(
    st.integers(-99, 99).map(str),
    FLOATS.map(str),
    st.sampled_from(
        ["", "NA", "-", "$5", "5%", '"1,000"', "TRUE", "x", '"', "1e999", "\ufeff", "0"]
    ),
    st.text(max_size=4),
)


@pytest.fixture(scope="module")
def folder():
    """A folder with a small model and data that suit it."""
    rng = np.random.default_rng(0)
    X = (rng.random((30, 2)) < 0.5) @ rng.random((2, 3)) + 0.1 * rng.random((30, 3))
    with tempfile.TemporaryDirectory() as name:
        np.save(Path(name) / "data.npy", X)
        for codes in ("binary", "weighted"):
            model = ibp.MEIBP(2, codes=codes, max_iter=3, tol=0, random_state=0).fit(X)
            model.notes_ = {"image_shape": [1, 3], "data": "data.npy", "seconds": 0.5}
            model.save(Path(name) / f"{codes}.ibp")
        chain = ibp.AcceleratedGibbs(2, max_iter=6, thin=1, random_state=0).fit(X)
        chain.save(Path(name) / "samples.ibp")
        ibp.FiniteVIBP(2, max_iter=2, tol=0, random_state=0).fit(X).save(Path(name) / "soft.ibp")
        yield Path(name)


def check(folder, *arguments):
    """A command's end: a result, or one sentence and exit 2; nothing else, and no traceback."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([str(argument) for argument in arguments])
    complaints = [line for line in err.getvalue().splitlines() if line.startswith("error: ")]
    assert code in (0, 2), err.getvalue()
    assert len(complaints) == (1 if code == 2 else 0), err.getvalue()
    assert "Traceback" not in err.getvalue() and "object has no attribute" not in err.getvalue()
    assert "invalid value" not in err.getvalue()  # a warning of NumPy's that nobody understands
    # Neither half a file nor one that is hidden.
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    if code == 0 and "--json" in arguments:
        assert json.loads(out.getvalue().splitlines()[-1])["event"] == "result"
    return code


def check_model(path, *, page=True):
    """What the commands that take a model make of it."""
    folder = path.parent
    code = check(folder, "info", path)
    if code == 2:
        return  # all commands load it alike
    targets = {"transform": folder / "codes.csv", "report": folder / "page.html"}
    for command in ("transform", "report") if page else ("transform",):
        target = targets[command]
        target.unlink(missing_ok=True)
        ended = check(folder, command, path, folder / "data.npy", "-o", target)
        assert target.exists() == (ended == 0)


def check_data(path, content):
    """What ``info`` says of a data file; as people and as machines are told."""
    path.write_bytes(content)
    check(path.parent, "info", path, "--json")
    path.unlink()


def tampered(content, draw):
    """The bytes of an archive with one thing in it changed, or two, checksums and all."""
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        arrays = dict(archive)
    header = json.loads(arrays["header"].tobytes())
    for _ in range(draw(st.integers(1, 2))):
        names = sorted(set(arrays) - {"header"})
        what = draw(st.sampled_from([*("array", "count") * 2, "header", "notes", "lost"]))
        if what == "array":
            name = draw(st.sampled_from(names))
            arrays[name] = changed(arrays[name], draw)
        elif what == "count":  # numbers that say something of others
            name = draw(st.sampled_from([name for name in names if COUNTS.search(name)]))
            wrong = np.array(draw(st.sampled_from([9999, -1, 0, 1, 2**40])))
            arrays[name] = np.full_like(arrays[name], wrong.astype(arrays[name].dtype))
        elif what == "header":
            part = draw(st.sampled_from(["scalars", "parameters", "evidence_parts", "header"]))
            chosen = header if part == "header" else header[part]
            if isinstance(chosen, dict) and chosen:
                chosen[draw(st.sampled_from(sorted(chosen)))] = draw(JUNK)
            if not all(isinstance(header.get(part), dict) for part in DICTIONARIES):
                break
        elif what == "notes":
            known = ["image_shape", "data", "seconds", "names", "missing", "root_mean_square"]
            header["notes"][draw(st.sampled_from(known))] = draw(JUNK)
        else:
            arrays.pop(draw(st.sampled_from(names)))
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    return packed(arrays)


def packed(arrays):
    """The bytes of an archive."""
    written = io.BytesIO()
    np.savez(written, **arrays)
    return written.getvalue()


def changed(array, draw):
    """An array that is not what it was."""
    way = draw(st.sampled_from(["shape", "type", "value", "value"]))
    if way == "shape":
        return array[..., None] if draw(st.booleans()) else array.ravel()[:-1]
    if way == "type" and array.dtype.kind != "U":
        return array.astype(draw(st.sampled_from(["f4", "i2", "U3", "c16", "?"])))
    if array.size and array.dtype.kind == "f":
        array = array.copy()
        wrong = draw(st.sampled_from([np.nan, np.inf, -1.0, 0.0, 1e308, 1e-320, 7.0]))
        array.flat[draw(st.integers(0, array.size - 1))] = wrong
    return array


@settings(max_examples=60)
@given(st.data())
def test_models(folder, data):
    kind = data.draw(st.sampled_from(["binary", "weighted", "samples", "soft"]))
    content = (folder / f"{kind}.ibp").read_bytes()
    if data.draw(st.integers(0, 4)) == 0:  # torn, or with bytes overwritten
        place = data.draw(st.integers(0, len(content) - 1))
        rest = content[place + 4 :] if data.draw(st.booleans()) else b""
        content = content[:place] + data.draw(st.binary(max_size=4)) + rest
    else:
        content = tampered(content, data.draw)
    path = folder / "hostile.ibp"
    path.write_bytes(content)
    check_model(path, page=data.draw(st.integers(0, 3)) == 0)


@pytest.mark.parametrize("kind", ["binary", "weighted", "samples", "soft"])
def test_models_with_numbers_out_of_range(folder, kind):
    """One entry of each array in turn, and each number of the header."""
    with np.load(folder / f"{kind}.ibp", allow_pickle=False) as archive:
        original = dict(archive)
    header = json.loads(original["header"].tobytes())
    path = folder / "hostile.ibp"
    floats = [name for name, array in original.items() if array.dtype.kind == "f" and array.size]
    for name, wrong in itertools.product(floats, (1e308, 1e-320)):
        array = original[name].copy()
        array.flat[-1] = wrong
        path.write_bytes(packed(original | {name: array}))
        check_model(path, page=name in ("components_", "intercept_", "noise_std_"))
    for part, wrongs in (("scalars", (1e308, 1e-320, 10**400)), ("parameters", (10**400,))):
        numbers = [name for name, value in header[part].items() if type(value) in (int, float)]
        for name, wrong in itertools.product(numbers, wrongs):
            changed_header = header | {part: header[part] | {name: wrong}}
            encoded = np.frombuffer(json.dumps(changed_header).encode(), dtype=np.uint8)
            path.write_bytes(packed(original | {"header": encoded}))
            check_model(path, page=name == "noise_std_")


@settings(max_examples=CASES)
@given(st.data())
def test_text(folder, data):
    delimiter = data.draw(st.sampled_from([",", ";", "\t", " "]))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=1, max_size=5), min_size=1, max_size=7))
    text = data.draw(st.sampled_from(["\n", "\r\n", "\r"])).join(map(delimiter.join, rows))
    encoding = data.draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-16", "latin-1"]))
    check_data(folder / "hostile.csv", text.encode(encoding, errors="replace"))


@settings(max_examples=CASES)
@given(st.data())
def test_arrays(folder, data):
    shape = data.draw(st.lists(st.integers(0, 4), max_size=4))
    dtype = data.draw(st.sampled_from(["f8", "f4", "i8", "u1", "?", "c8", "U2", "M8[s]", "V3"]))
    array = np.zeros(shape, dtype)
    if array.size and array.dtype.kind == "f":
        array.flat[0] = data.draw(FLOATS)
    content = io.BytesIO()
    kind = data.draw(st.sampled_from(["npy", "npz", "other members", "sparse"]))
    if kind == "npy":
        np.save(content, array)
    elif kind == "npz":
        names = data.draw(st.lists(st.text("ab", min_size=1, max_size=2), max_size=3, unique=True))
        np.savez(content, **dict.fromkeys(names, array))
    elif kind == "other members":
        member = io.BytesIO()
        np.save(member, array)
        names = ["format", "shape", "data", "indices", "indptr", "header", "row_names", "x"]
        with zipfile.ZipFile(content, "w") as archive:
            for name in data.draw(
                st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True)
            ):
                end = data.draw(st.sampled_from([".npy", ".npy", "", ".txt"]))
                held = member.getvalue() if data.draw(st.booleans()) else data.draw(st.binary())
                archive.writestr(name + end, held)
    else:
        matrix = sparse.random_array((4, 3), density=0.5, rng=np.random.default_rng(0)).tocsr()
        part = data.draw(st.sampled_from(["indices", "indptr", "data"]))
        place = data.draw(st.integers(0, getattr(matrix, part).size - 1))
        getattr(matrix, part)[place] = data.draw(st.integers(-3, 99))
        sparse.save_npz(content, matrix)
    written = bytearray(content.getvalue())
    if data.draw(st.integers(0, 2)) == 0:
        written[data.draw(st.integers(0, len(written) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    check_data(folder / f"hostile.{'npy' if kind == 'npy' else 'npz'}", bytes(written))


@settings(max_examples=CASES)
@given(st.data())
def test_matrix_market(folder, data):
    content = io.BytesIO()
    scipy_io.mmwrite(content, sparse.eye_array(3).tocoo())
    lines = content.getvalue().decode().splitlines()
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(lines) - 1))
        numbers = st.lists(st.integers(-2, 9).map(str) | CELLS, max_size=4).map(" ".join)
        lines[place] = data.draw(numbers | st.text(max_size=20) | st.just("%%MatrixMarket matrix"))
    check_data(folder / "hostile.mtx", "\n".join(lines).encode(errors="replace"))
