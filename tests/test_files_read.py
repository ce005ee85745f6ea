"""Reading every other kind of data file, and files that are not what they should be."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import zipfile
from decimal import Decimal

import anndata
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet
from scipy import io as scipy_io
from scipy import sparse

from ibp import MEIBP
from ibp.files import DataFileError, read_table
from ibp.files import parquet as parquet_module
from ibp.files.checks import as_floats, float_type
from ibp.files.wording import in_bytes, listed
from test_files_delimited import refusal

VALUES = np.random.default_rng(0).normal(size=(6, 4))


@pytest.fixture
def matrix():
    """A sparse matrix with a stored zero and a missing entry."""
    dense = np.where(VALUES > 0.3, VALUES, 0)
    matrix = sparse.csr_array(dense)
    matrix.data[0] = 0
    matrix.data[1] = np.nan
    return matrix


def check_sparse(table, matrix):
    assert isinstance(table.values, sparse.csr_array)
    np.testing.assert_array_equal(table.values.toarray(), matrix.toarray())


def truncated(path, folder):
    """Copies of a file that end too early."""
    content = path.read_bytes()
    for length in (1, 10, len(content) // 2, len(content) - 1):
        copy = folder / f"cut{''.join(path.suffixes)}"
        copy.write_bytes(content[:length])
        yield copy


# Files that are not there, or not known


def test_missing_file(tmp_path):
    (tmp_path / "measurements.csv").write_text("1,2\n")
    sentence = refusal(tmp_path / "mesurements.csv")
    assert 'does not exist (did you mean "measurements.csv"?)' in sentence
    for name in ("zzz.npy", "remarks.csv"):  # an ending is no likeness
        assert "does not exist; check the name" in refusal(tmp_path / name)
    assert f"there is no folder {tmp_path / 'nowhere'}" in refusal(tmp_path / "nowhere" / "a.csv")
    (tmp_path / "link.csv").symlink_to("gone.csv")
    assert refusal(tmp_path / "link.csv").endswith("leads to no file; give the file itself.")


@pytest.mark.parametrize("name", ["data.dat", "data.gz", "data.xyz"])
def test_unknown_endings(name, tmp_path):
    (tmp_path / name).write_text("1,2\n")
    sentence = refusal(tmp_path / name)
    assert f"the unknown ending .{name.split('.')[1]}" in sentence
    for known in (".npy", ".npz", ".csv", ".tsv", ".parquet", ".mtx", ".h5ad", "folders of images"):
        assert known in sentence


@pytest.mark.parametrize(
    ("name", "cure"),
    [
        ("data.mat", "writematrix"),
        ("data.pkl", ".npy"),
        ("data.RDS", "write.csv"),
        ("data.feather", ".parquet"),
        ("data.json", "a line for each row"),
    ],
)
def test_files_of_other_programs(name, cure, tmp_path):
    (tmp_path / name).write_text("1,2\n")
    sentence = refusal(tmp_path / name)
    assert cure in sentence and "unknown" not in sentence


def test_no_ending(tmp_path):
    (tmp_path / "data").write_text("1,2\n")
    assert "no ending" in refusal(tmp_path / "data")


@pytest.mark.parametrize(
    ("name", "advice"),
    [("a.xlsx", "save it as CSV"), ("a.png", "the folder that holds"), ("a.ibp", "model file")],
)
def test_advice_for_other_files(name, advice, tmp_path):
    (tmp_path / name).write_text("something")
    assert advice in refusal(tmp_path / name)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".parquet", ".mtx", ".h5ad", ".csv.gz"])
def test_empty_files_and_nonsense(ending, tmp_path):
    path = tmp_path / f"data{ending}"
    path.write_bytes(b"")
    assert "is empty" in refusal(path)
    path.write_bytes(b"\x93no\0sense\xff" * 50)
    assert "damaged" in refusal(path) or ending == ".csv"


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_permission_denied(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n")
    path.chmod(0)
    assert "may not be read by you" in refusal(path)


def test_permission_denied_to_anyone(tmp_path, monkeypatch):
    path = tmp_path / "data.npy"
    np.save(path, VALUES)

    def deny(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(np.lib.format, "open_memmap", deny)
    assert "may not be read by you" in refusal(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "data.csv")  # which would be waited for
    assert "data.csv is not an ordinary file" in refusal(tmp_path / "data.csv")


def test_missing_package(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    path.write_text("1,2\n3,\n")  # with a gap, which NumPy does not read
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    sentence = refusal(path)
    assert "needs the package pyarrow" in sentence
    assert 'pip install "ibp[cli]"' in sentence


def test_nothing_heavy_is_loaded_before_a_file_is_read():
    code = (
        "import sys, ibp.files\n"
        "heavy = {'numpy', 'scipy', 'pyarrow', 'pandas', 'PIL', 'anndata'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# NumPy's files


def test_npy_is_left_on_disk(tmp_path):
    np.save(tmp_path / "data.npy", VALUES)
    table = read_table(tmp_path / "data.npy")
    assert isinstance(table.values, np.memmap)
    assert not table.values.flags.owndata
    assert not table.values.flags.writeable
    np.testing.assert_array_equal(table.values, VALUES)
    assert (table.row_names, table.column_names, table.source) == (None, None, "data.npy")
    assert table.shape == (6, 4)


def test_stacks_of_images_are_left_on_disk_too(tmp_path):
    images = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    np.save(tmp_path / "data.npy", images)
    table = read_table(tmp_path / "data.npy")
    assert table.image_shape == (3, 4)
    assert isinstance(table.values, np.memmap)
    assert not table.values.flags.owndata
    np.testing.assert_array_equal(table.values, images.reshape(2, 12))


@pytest.mark.parametrize(
    ("dtype", "becomes"),
    [
        ("f4", "f4"), ("f8", "f8"), ("f2", "f4"), (">f8", "f8"), (">f4", "f4"), ("?", "f4"),
        ("u1", "f4"), ("i2", "f4"), ("u2", "f4"), ("i4", "f8"), ("i8", "f8"), ("u8", "f8"),
        ("g", "f8"),
    ],
)  # fmt: skip
def test_types(dtype, becomes, tmp_path):
    values = np.array([[0, 1], [1, 1]], dtype=dtype)
    np.save(tmp_path / "data.npy", values)
    table = read_table(tmp_path / "data.npy")
    assert table.values.dtype == np.dtype(becomes)
    assert table.values.dtype.isnative
    np.testing.assert_array_equal(table.values, values.astype("f8"))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.uint8, np.uint16, np.float16])
def test_small_types_lose_nothing(dtype):
    info = np.finfo(dtype) if np.dtype(dtype).kind == "f" else np.iinfo(dtype)
    for value in (info.min, info.max):
        assert float_type(dtype).type(value) == value


@pytest.mark.parametrize(
    ("array", "what"),
    [
        (np.ones(5), "wrong shape, (5,)"),
        (np.ones((2, 2, 2, 2)), "wrong shape, (2, 2, 2, 2)"),
        (np.array(1.0), "wrong shape, ()"),
        (np.ones((2, 2), dtype=complex), "holds complex numbers"),
        (np.array([["a", "b"]]), "holds text"),
        (np.array([[None, 1]], dtype=object), "holds Python objects, which are never loaded"),
        (np.ones((2, 2), dtype="M8[s]"), "not real numbers"),
        (np.ones((0, 3)), "has no rows (its shape is 0 x 3)"),
        (np.ones((3, 0)), "has no columns (its shape is 3 x 0)"),
        (np.ones((0, 3, 3)), "has no rows"),
        (np.array([[1.0, 2.0], [np.inf, 1.0]]), "an infinity in row 2, column 1;"),
    ],
)
@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_arrays_that_are_no_data(array, what, ending, tmp_path):
    path = tmp_path / f"data{ending}"
    if ending == ".npy":
        np.save(path, array)
    else:
        np.savez(path, array)
    assert what in refusal(path)


def test_an_infinity_far_down(tmp_path):
    values = np.ones((3_000_000, 2), dtype=np.float32)
    values[2_500_000, 1] = -np.inf
    np.save(tmp_path / "data.npy", values)
    assert "an infinity in row 2500001, column 2;" in refusal(tmp_path / "data.npy")


def test_truncated_npy_and_npz(tmp_path):
    np.save(tmp_path / "data.npy", VALUES)
    np.savez(tmp_path / "data.npz", VALUES)
    for name in ("data.npy", "data.npz"):
        for path in truncated(tmp_path / name, tmp_path):
            assert "damaged, cut short" in refusal(path)


def test_damage_inside_an_archive(tmp_path):
    np.savez(tmp_path / "data.npz", VALUES)
    content = bytearray((tmp_path / "data.npz").read_bytes())
    content[200] ^= 0xFF
    (tmp_path / "data.npz").write_bytes(content)
    assert "damaged" in refusal(tmp_path / "data.npz")


def test_an_archive_whose_member_is_no_array(tmp_path):
    np.savez(tmp_path / "data.npz", VALUES)
    with zipfile.ZipFile(tmp_path / "data.npz") as archive:
        content = archive.read("arr_0.npy")
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:  # with checksums that are right
        archive.writestr("arr_0.npy", content.replace(b"'descr'", b"'other'"))
    assert 'has a member "arr_0" that is no array' in refusal(tmp_path / "data.npz")
    with zipfile.ZipFile(tmp_path / "data.npz", "w") as archive:
        archive.writestr("notes.txt", b"not an array at all")
        archive.writestr("more.npy", content)
    assert 'has a member "notes.txt" that is no array' in refusal(
        tmp_path / "data.npz", key="notes.txt"
    )
    sentence = refusal(tmp_path / "data.npz")
    assert '"notes.txt" (no array) and "more" (6 x 4 float64)' in sentence
    assert "such as --key more" in sentence


def test_one_file_named_as_the_other(tmp_path):
    np.save(tmp_path / "data.npy", VALUES)
    (tmp_path / "data.npy").rename(tmp_path / "data.npz")
    assert "not a .npz file" in refusal(tmp_path / "data.npz")
    np.savez(tmp_path / "other.npz", VALUES)
    (tmp_path / "other.npz").rename(tmp_path / "other.npy")
    assert "not a .npy file" in refusal(tmp_path / "other.npy")


def test_npz_with_one_array_and_with_several(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, VALUES)
    np.testing.assert_array_equal(read_table(path).values, VALUES)
    np.savez(path, train=VALUES, test=VALUES[:2].astype("f4"))
    sentence = refusal(path)
    assert 'several arrays, "train" (6 x 4 float64) and "test" (2 x 4 float32)' in sentence
    assert "such as --key train" in sentence
    assert read_table(path, key="test").values.dtype == np.float32
    assert 'no array "tran" (did you mean "train"?); it has "train" (6 x 4' in refusal(
        path, key="tran"
    )
    np.savez(path)
    assert "holds no array" in refusal(path)


def test_npz_with_names(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, values=VALUES[:2], row_names=["r", "ä"], column_names=list("abcd"))
    table = read_table(path, drop=["b"])
    assert table.row_names == ["r", "ä"]
    assert table.column_names == ["a", "c", "d"]
    np.testing.assert_array_equal(table.values, VALUES[:2, [0, 2, 3]])
    np.savez(path, values=VALUES[:2], row_names=["r", "s", "t"])
    assert "3 names for its 2 rows" in refusal(path)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
def test_sparse_npz_stays_sparse(form, matrix, tmp_path):
    sparse.save_npz(tmp_path / "data.npz", matrix.asformat(form))
    check_sparse(read_table(tmp_path / "data.npz"), matrix)


def test_sparse_npz_types(matrix, tmp_path):
    matrix.data[:] = 1
    for dtype, becomes in (("?", "f4"), ("u1", "f4"), ("f4", "f4"), ("i8", "f8"), ("f8", "f8")):
        sparse.save_npz(tmp_path / "data.npz", matrix.astype(dtype))
        assert read_table(tmp_path / "data.npz").values.dtype == np.dtype(becomes)
    sparse.save_npz(tmp_path / "data.npz", matrix.astype("c16"))
    assert "complex" in refusal(tmp_path / "data.npz")


def test_an_infinity_in_a_sparse_matrix(matrix, tmp_path):
    row, column = np.argwhere(matrix.toarray() != 0)[5]
    matrix[row, column] = np.inf
    sparse.save_npz(tmp_path / "data.npz", matrix)
    assert f"an infinity in row {row + 1}, column {column + 1};" in refusal(tmp_path / "data.npz")


def test_damaged_sparse_npz(matrix, tmp_path):
    path = tmp_path / "data.npz"
    parts = {"format": b"csr", "shape": [6, 4], "data": matrix.data, "indptr": matrix.indptr}
    np.savez(path, **parts)
    assert "damaged" in refusal(path)
    for form in (b"csr", b"csc"):
        np.savez(path, **parts | {"format": form}, indices=matrix.indices + 1000)
        assert "damaged" in refusal(path)


@pytest.mark.filterwarnings("ignore")  # a poor fit is good enough
def test_a_model_is_no_data(tmp_path):
    model = MEIBP(n_components=1, max_iter=1).fit(np.abs(VALUES))
    model.save(tmp_path / "model.npz")
    assert "is an ibp model file, not data" in refusal(tmp_path / "model.npz")
    np.savez(tmp_path / "data.npz", header=VALUES)
    np.testing.assert_array_equal(read_table(tmp_path / "data.npz").values, VALUES)


def test_options_without_meaning_are_refused(tmp_path):
    np.save(tmp_path / "data.npy", VALUES)
    for option in ({"header": True}, {"index": "a"}, {"key": "a"}):
        assert f'the option "{next(iter(option))}" does not apply' in refusal(
            tmp_path / "data.npy", **option
        )


def test_columns_of_an_array_are_dropped_by_number(matrix, tmp_path):
    np.save(tmp_path / "data.npy", VALUES)
    sparse.save_npz(tmp_path / "data.npz", matrix)
    np.testing.assert_array_equal(
        read_table(tmp_path / "data.npy", drop=["1", "4"]).values, VALUES[:, 1:3]
    )
    check_sparse(read_table(tmp_path / "data.npz", drop=["1", "4"]), matrix[:, [1, 2]])


# Parquet


def frame(**columns):
    return pd.DataFrame({"a": [1.0, np.nan], "b": [3.0, 4.0], **columns})


def test_parquet(tmp_path):
    path = tmp_path / "data.parquet"
    frame().to_parquet(path)
    table = read_table(path)
    np.testing.assert_array_equal(table.values, [[1, 3], [np.nan, 4]])
    assert table.column_names == ["a", "b"]
    assert table.row_names is None
    assert table.values.flags.c_contiguous


@pytest.mark.parametrize("index", [["u", "v"], pd.Index([7, 9], name="id")])
def test_parquet_index_of_pandas(index, tmp_path):
    path = tmp_path / "data.parquet"
    frame().set_index(pd.Index(index)).to_parquet(path)
    table = read_table(path)
    assert table.row_names == [str(name) for name in index]
    assert table.column_names == ["a", "b"]


def test_parquet_index_of_several_columns(tmp_path):
    data = frame(site=["x", "y"], year=[1, 2]).set_index(["site", "year"])
    data.to_parquet(tmp_path / "data.parquet")
    assert read_table(tmp_path / "data.parquet").row_names == ["x, 1", "y, 2"]


def test_parquet_names_without_pandas(tmp_path):
    path = tmp_path / "data.parquet"
    parquet.write_table(pa.table({"name": ["u", None], "a.b": [1, 2], "a": [True, None]}), path)
    table = read_table(path)
    assert table.row_names == ["u", ""]
    np.testing.assert_array_equal(table.values, [[1, 1], [2, np.nan]])
    assert read_table(path, index=0, drop=["name"]).row_names is None
    assert read_table(path, index="a.b", drop=["name"]).row_names == ["1", "2"]


@pytest.mark.parametrize(
    ("types", "becomes"),
    [
        (["f4", "f4"], "f4"), (["f4", "f8"], "f8"), (["u1", "?"], "f4"), (["i8", "f4"], "f8"),
        (["f2", "i2"], "f4"),
    ],
)  # fmt: skip
def test_parquet_types(types, becomes, tmp_path):
    columns = {str(j): np.array([0, 1], dtype) for j, dtype in enumerate(types)}
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet")
    assert table.values.dtype == np.dtype(becomes)
    assert table.values.tolist() == [[0, 0], [1, 1]]


def test_parquet_of_decimals_and_of_nothing(tmp_path):
    money = pa.array([Decimal("1.25"), None], pa.decimal128(9, 2))
    columns = {"money": money, "nothing": pa.nulls(2), "small": pa.array([1, 2], pa.int8())}
    parquet.write_table(pa.table(columns), tmp_path / "data.parquet")
    values = read_table(tmp_path / "data.parquet").values
    assert values.dtype == np.float64
    np.testing.assert_array_equal(values, [[1.25, np.nan, 1], [np.nan, np.nan, 2]])


def test_parquet_with_gaps_among_integers_and_many_groups(tmp_path):
    path = tmp_path / "data.parquet"
    numbers = [None if i % 7 == 0 else i for i in range(1000)]
    column = pa.array(numbers, pa.int64())
    parquet.write_table(pa.table({f"c{j}": column for j in range(100)}), path, row_group_size=64)
    table = read_table(path)
    expected = np.array([np.nan if n is None else n for n in numbers], dtype=float)
    np.testing.assert_array_equal(table.values, np.tile(expected[:, None], 100))


def test_parquet_with_text(tmp_path):
    path = tmp_path / "data.parquet"
    frame(kind=["x", "y"], day=pd.to_datetime(["2020-01-01"] * 2)).to_parquet(path)
    sentence = refusal(path)
    assert 'has 2 columns without numbers: "kind" (string) and "day" (timestamp' in sentence
    assert "--drop kind --drop day" in sentence
    assert 'a column without numbers: "day"' in refusal(path, drop=["kind"])
    assert read_table(path, drop=["kind", "day"]).shape == (2, 2)


def test_parquet_without_rows_or_with_an_infinity(tmp_path):
    path = tmp_path / "data.parquet"
    frame().iloc[:0].to_parquet(path)
    assert "has no rows" in refusal(path)
    frame(c=[0, -np.inf]).to_parquet(path)
    assert 'an infinity in row 2, column "c"' in refusal(path)


def test_truncated_parquet(tmp_path):
    frame().to_parquet(tmp_path / "data.parquet")
    for path in truncated(tmp_path / "data.parquet", tmp_path):
        assert "damaged, cut short" in refusal(path)


def test_damage_inside_parquet(tmp_path):
    path = tmp_path / "data.parquet"
    column = pa.array(np.arange(1000.0))
    parquet.write_table(pa.table({"a": column}), path, compression="gzip", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[40:400] = bytes(360)  # of a page; all that says where it is stays as it was
    path.write_bytes(content)
    assert "damaged" in refusal(path)


# Matrix Market


@pytest.mark.parametrize("name", ["data.mtx", "data.mtx.gz"])
def test_mtx_stays_sparse(name, matrix, tmp_path):
    content = io.BytesIO()
    matrix.data[1] = 2
    scipy_io.mmwrite(content, matrix)
    content = content.getvalue()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    check_sparse(read_table(tmp_path / name), matrix)


def test_mtx_dense(tmp_path):
    scipy_io.mmwrite(tmp_path / "data.mtx", VALUES, precision=17)
    np.testing.assert_array_equal(read_table(tmp_path / "data.mtx").values, VALUES)


def test_mtx_of_ones(tmp_path):
    header = "%%MatrixMarket matrix coordinate pattern general\n"
    (tmp_path / "data.mtx").write_text(header + "2 3 2\n1 1\n2 3\n")
    assert read_table(tmp_path / "data.mtx").values.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("1,2\n3,4\n", "not a Matrix Market file"),
        ("%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 5\n", "cut short"),
        ("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 9 5\n", "damaged"),
        ("%%MatrixMarket matrix coordinate real general\n2 3 1\n1 1 x\n", "damaged"),
        ("%%MatrixMarket matrix coordinate complex general\n2 3 1\n1 1 5 1\n", "complex"),
    ],
)
def test_bad_mtx(content, what, tmp_path):
    (tmp_path / "data.mtx").write_text(content)
    assert what in refusal(tmp_path / "data.mtx")


# AnnData


@pytest.fixture
def cells(matrix):
    names = pd.DataFrame(index=[f"cell {i}" for i in range(6)])
    genes = pd.DataFrame(index=[f"gene {j}" for j in range(4)])
    dense = VALUES.astype("f4")
    return anndata.AnnData(sparse.csr_matrix(matrix), names, genes, layers={"scaled": dense})


def test_h5ad(cells, matrix, tmp_path):
    path = tmp_path / "data.h5ad"
    cells.write_h5ad(path)
    table = read_table(path)
    check_sparse(table, matrix)
    assert table.row_names == [f"cell {i}" for i in range(6)]
    assert table.column_names == [f"gene {j}" for j in range(4)]
    layer = read_table(path, key="scaled", drop=["gene 1"])
    np.testing.assert_array_equal(layer.values, VALUES.astype("f4")[:, [0, 2, 3]])
    assert layer.values.dtype == np.float32
    assert 'no layer "scald" (did you mean "scaled"?)' in refusal(path, key="scald")


def test_genes_of_one_symbol_are_told_apart_as_anndata_does(cells, tmp_path):
    cells.var.index = ["TP53", "MYC", "TP53", "TP53"]
    cells.write_h5ad(tmp_path / "data.h5ad")
    table = read_table(tmp_path / "data.h5ad")
    assert table.column_names == ["TP53", "MYC", "TP53-1", "TP53-2"]
    assert "2 columns had the name of another" in table.guesses[0]
    assert '"TP53" in column 3, which is "TP53-1" here' in table.guesses[0]


def test_h5ad_without_matrix(cells, tmp_path):
    bare = anndata.AnnData(obs=cells.obs, var=cells.var, layers={"scaled": VALUES})
    bare.write_h5ad(tmp_path / "data.h5ad")
    sentence = refusal(tmp_path / "data.h5ad")
    assert 'no matrix X; its layers are "scaled"' in sentence


def test_truncated_h5ad(cells, tmp_path):
    cells.write_h5ad(tmp_path / "data.h5ad")
    for path in truncated(tmp_path / "data.h5ad", tmp_path):
        assert "damaged, cut short" in refusal(path)


# Images


def save_image(path, shape=(4, 5), value=0, dtype=np.uint8):
    pixels = (np.arange(np.prod(shape)) % 251 + value).astype(dtype).reshape(shape)
    Image.fromarray(pixels).save(path)
    return pixels


def test_a_folder_of_images(tmp_path):
    pixels = {name: save_image(tmp_path / name, value=i) for i, name in enumerate(
        ["a10.png", "a2.PNG", "b.bmp", "c.tif"]
    )}  # fmt: skip
    (tmp_path / "notes.txt").write_text("not an image")
    (tmp_path / ".hidden.png").write_text("not an image")
    (tmp_path / "more").mkdir()
    table = read_table(tmp_path)
    assert table.row_names == ["a2.PNG", "a10.png", "b.bmp", "c.tif"]
    assert table.image_shape == (4, 5)
    assert table.values.dtype == np.float32
    assert table.source == tmp_path.name
    for row, name in zip(table.values, table.row_names, strict=True):
        np.testing.assert_array_equal(row.reshape(4, 5), pixels[name])


def test_colours_become_grey_and_deep_images_stay_deep(tmp_path):
    grey = np.full((4, 5, 3), 77, dtype=np.uint8)
    Image.fromarray(grey).save(tmp_path / "a.png")
    assert (read_table(tmp_path).values == 77).all()
    pixels = save_image(tmp_path / "a.png", value=40_000, dtype=np.uint16)
    np.testing.assert_array_equal(read_table(tmp_path).values[0], pixels.ravel())
    save_image(tmp_path / "b.png")
    sentence = refusal(tmp_path)
    assert "different depths: a.png" in sentence
    assert "b.png" in sentence


def test_images_of_different_sizes(tmp_path):
    save_image(tmp_path / "a.png", (4, 5))
    save_image(tmp_path / "b.png", (4, 5))
    save_image(tmp_path / "c.png", (7, 5))
    assert "a.png is 5 x 4 and c.png is 5 x 7 pixels" in refusal(tmp_path)


@pytest.mark.parametrize("ending", [".png", ".jpg", ".bmp", ".tif", ".gif"])
def test_broken_images(ending, tmp_path):
    save_image(tmp_path / f"a{ending}", (40, 50))
    content = (tmp_path / f"a{ending}").read_bytes()
    for part in (b"", b"nonsense", content[: len(content) // 2]):
        (tmp_path / f"b{ending}").write_bytes(part)
        assert f"b{ending} is not an image" in refusal(tmp_path)


def test_folders_without_images(tmp_path):
    assert "holds no images" in refusal(tmp_path)
    (tmp_path / "faces").mkdir()
    assert "is it its folder faces that you mean?" in refusal(tmp_path)


# Memory


def test_a_matrix_beyond_memory(tmp_path, monkeypatch):
    (tmp_path / "data.csv").write_text("a,b\n1,?\n")
    np.save(tmp_path / "data.npy", np.ones((3, 2), dtype=np.int32))
    frame().to_parquet(tmp_path / "data.parquet")

    def fail(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(np, "empty", fail)
    assert "does not fit into memory: about 3 rows of 2 columns take 48 bytes" in refusal(
        tmp_path / "data.csv"
    )
    assert "file of its size may take 1.61 GB" in refusal(tmp_path / "data.parquet")
    monkeypatch.setattr(parquet_module, "has_room", lambda n_bytes: True)
    assert "does not fit into memory: 2 rows of 2 columns take 32 bytes" in refusal(
        tmp_path / "data.parquet"
    )
    head = "%%MatrixMarket matrix"
    (tmp_path / "data.mtx").write_text(f"{head} array real general\n1 2\n3\n4\n")
    assert "does not fit into memory: 1 row of 2 columns take 16 bytes" in refusal(
        tmp_path / "data.mtx"
    )
    (tmp_path / "data.mtx").write_text(f"{head} coordinate real symmetric\n9 9 2\n1 1 3\n2 1 4\n")
    sentence = refusal(tmp_path / "data.mtx")
    assert "data.mtx does not fit into memory: its 2 entries take 64 bytes" in sentence
    assert "damaged" not in sentence
    monkeypatch.setattr(np.lib.format, "open_memmap", fail)
    sentence = refusal(tmp_path / "data.npy")
    assert "data.npy (152 bytes) does not fit into memory" in sentence
    assert "float32" in sentence


LIMITED = """
import resource, sys
import numpy, scipy.sparse, pyarrow.csv, pyarrow.parquet
from ibp.files import DataFileError, read_table
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
limit = used + int(sys.argv[2]) * 1_000_000
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
try:
    print(read_table(sys.argv[1]).shape)
except DataFileError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are tested on Linux")
def test_too_little_memory_under_a_limit(tmp_path):
    def read(path, megabytes):
        command = [sys.executable, "-c", LIMITED, path, str(megabytes)]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    values = np.ones((30_000, 400))
    np.save(tmp_path / "large.npy", values)
    pd.DataFrame(values).to_parquet(tmp_path / "large.parquet")
    with (tmp_path / "large.csv").open("w") as file:
        file.writelines(["1,0" * 200 + "\n"] * 30_000)
    small = tmp_path / "small.csv"
    small.write_text("a,b\n1,2\n")
    assert "large.csv does not fit into memory: about 30," in read(tmp_path / "large.csv", 80)
    assert "large.parquet cannot be read in this" in read(tmp_path / "large.parquet", 80)
    assert "large.npy (96 MB) does not fit into memory" in read(tmp_path / "large.npy", 80)
    assert read(small, 80) == "(1, 2)"
    assert read(tmp_path / "large.npy", 200) == "(30000, 400)"


def test_errors_are_value_errors():
    assert issubclass(DataFileError, ValueError)


def test_words_for_many_things_and_for_much_memory():
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed("abcdef", last="or", limit=4) == "a, b, c or 3 more"
    assert [in_bytes(n) for n in (12, 6.4e9, 2.5e12, 1e16)] == [
        "12 bytes",
        "6.4 GB",
        "2.5 TB",
        "1e+04 TB",
    ]


def test_numbers_that_memory_has_no_room_to_convert():
    class TooMany:
        """As many integers as a file on disk may have."""

        dtype, shape, size = np.dtype(np.int64), (10**9, 400), 400 * 10**9

        def astype(self, dtype, copy):
            raise MemoryError

    with pytest.raises(DataFileError, match=r"1,000,000,000 rows of 400 columns take 3.2 TB"):
        as_floats(TooMany())


def test_colours_are_told_and_large_images_are_not_damaged(tmp_path, monkeypatch):
    grey = np.zeros((4, 5, 3), np.uint8)
    Image.fromarray(grey).save(tmp_path / "a.png")
    assert read_table(tmp_path).guesses == ()  # in three channels that are all the same
    coloured = grey.copy()
    coloured[1, 2] = 200, 10, 10
    Image.fromarray(coloured).save(tmp_path / "b.png")
    assert "1 image is in colour, and read in grey" in read_table(tmp_path).guesses[0]
    for limit in (15, 6):  # of which Pillow warns, and refuses more than twice as many
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        sentence = refusal(tmp_path)
        assert f"is an image of more than {limit} pixels" in sentence and "damaged" not in sentence


def test_an_archive_beyond_memory_is_not_unpacked(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "data.npz", X=np.zeros((100, 50)))
    monkeypatch.setattr("ibp.files.arrays.has_room", lambda n_bytes: n_bytes < 40_000)
    monkeypatch.setattr("ibp.files.arrays._array", None)  # would unpack it
    with pytest.raises(DataFileError, match=r"would unpack to 40 kB"):
        read_table(tmp_path / "data.npz")
