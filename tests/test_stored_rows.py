"""Rows that stay in their file: the same fits, few passes, little memory, errors that say where."""

from __future__ import annotations

import gc
import os
import pickle
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import ibp
from ibp.data import as_source, summarize
from ibp.data.stored import ReadAhead, StoredRows
from ibp.data.stored.base import even_bounds
from ibp.errors import DataFileError, InputError, InvalidTypeError, InvalidValueError
from ibp.files import read_table
from ibp.files.streamed import open_table
from problems import unmoved

zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")
anndata = pytest.importorskip("anndata")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
arrow_dataset = pytest.importorskip("pyarrow.dataset")

N, D, K = 700, 6, 3
NAMES = [f"c{j}" for j in range(D)]


def planted(n=N, d=D, dtype=np.float64, missing=False, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, K)) < 0.4) @ rng.uniform(10, 30, (K, d)) + 3.0 * rng.normal(size=(n, d))
    if dtype == np.bool_:
        return X > 20.0
    X = X.round(1).astype(dtype)
    if missing:
        X[rng.random(X.shape) < 0.03] = np.nan
    return X


def arrow_table(X):
    return pa.table([pa.array(column, from_pandas=True) for column in X.T.copy()], names=NAMES)


def write_zarr(folder, X):
    path = folder / "data.zarr"
    zarr.create_array(path, shape=X.shape, chunks=(100, 4), dtype=X.dtype)[:] = X
    return path


def write_sharded(folder, X):
    path = folder / "data.zarr"
    array = zarr.create_array(
        path, shape=X.shape, chunks=(50, 3), shards=(200, 6), dtype=X.dtype, fill_value=7
    )
    array[:] = X
    return path


def write_old_zarr(folder, X):
    path = folder / "data.zarr"
    zarr.create_array(path, shape=X.shape, chunks=(90, 6), dtype=X.dtype, zarr_format=2)[:] = X
    return path


def write_hdf5(folder, X):
    path = folder / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("deep/X", data=X, chunks=(64, 4), compression="gzip")
        file["labels"] = np.arange(5)
    return path


def write_plain_hdf5(folder, X):
    path = folder / "data.hdf5"
    with h5py.File(path, "w") as file:
        file["X"] = X
    return path


def write_parquet(folder, X):
    path = folder / "data.parquet"
    parquet.write_table(arrow_table(X), path, row_group_size=130)
    return path


def write_parts(folder, X):
    path = folder / "parts"
    path.mkdir()
    for i, rows in enumerate(np.array_split(np.arange(len(X)), 11)):
        parquet.write_table(arrow_table(X[rows]), path / f"part.{i}.parquet")
    (path / "_SUCCESS").write_text("")
    return path


def write_annotated(folder, X):
    path = folder / "data.h5ad"
    anndata.AnnData(X).write_h5ad(path)
    return path


def write_mapped(folder, X):
    path = folder / "data.npy"
    np.save(path, X)
    return path


DENSE = {
    "npy": write_mapped,
    "zarr": write_zarr,
    "zarr with shards": write_sharded,
    "zarr, version 2": write_old_zarr,
    "hdf5": write_hdf5,
    "hdf5 without chunks": write_plain_hdf5,
    "parquet": write_parquet,
    "folder of parquet": write_parts,
}


def write_sparse_annotated(folder, X):
    path = folder / "data.h5ad"
    anndata.AnnData(sparse.csr_matrix(X)).write_h5ad(path)
    return path


def write_sparse_zarr(folder, X):
    path = folder / "data.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the version that it writes
        anndata.AnnData(sparse.csr_matrix(X)).write_zarr(path)
    return path


SPARSE = {"h5ad": write_sparse_annotated, "zarr": write_sparse_zarr}


def small_slabs(source):
    """The same rows, read in many slabs, of which few are kept."""
    if not isinstance(source, ReadAhead):
        return source
    small = ReadAhead(source.stored, slab_bytes=2000)
    small._most_kept = 3
    return small


def answers(X, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ibp.MEIBP(5, random_state=1, max_iter=3, tol=0, n_jobs=2, **settings).fit(X)
        return {
            "evidence": model.evidence_,
            "Z": model.assignments_,
            "A": model.components_,
            "codes": model.transform(X),
            "score": model.score(X),
            "noise": model.noise_std_,
        }


def same(one, other):
    for name in one:
        assert_array_equal(one[name], other[name], err_msg=name)


def dense(block):
    return block.toarray() if sparse.issparse(block) else np.asarray(block)


# The same rows, and the same fits


@pytest.mark.parametrize("kind", DENSE)
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int16, np.int64, np.bool_])
def test_rows_of_a_file_are_those_of_the_table(kind, dtype, tmp_path):
    X = planted(dtype=dtype, missing=np.dtype(dtype).kind == "f")
    path = DENSE[kind](tmp_path, X)
    table = read_table(path).values
    source = small_slabs(ibp.open_rows(path))
    assert source.shape == X.shape
    assert source.dtype == table.dtype
    assert_array_equal(np.asarray(table), X.astype(table.dtype))
    rng = np.random.default_rng(0)
    for rows in (
        slice(0, 0),
        slice(3, 9),
        slice(90, 460),
        slice(0, N),
        slice(5, 600, 7),
        rng.permutation(N)[:300],
        np.array([699, 0, 0, -1, 350]),
        np.array([], dtype=np.int64),
    ):
        block = source.rows(rows)
        assert_array_equal(block, X.astype(source.dtype)[rows])
        assert block.dtype == source.dtype
        assert not block.flags.writeable


@pytest.mark.parametrize("kind", DENSE)
def test_a_file_is_fitted_as_the_array_is(kind, tmp_path):
    X = planted(dtype=np.float32, missing=True)
    source = small_slabs(ibp.open_rows(DENSE[kind](tmp_path, X)))
    same(answers(X), answers(source))


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_other_types_are_fitted_as_the_table_is(dtype, tmp_path):
    path = write_parquet(tmp_path, planted(dtype=dtype))
    same(answers(read_table(path).values), answers(small_slabs(ibp.open_rows(path))))


def test_a_start_from_some_rows_is_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.SAMPLE_ROWS", 200)
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.ROWS_PER_FEATURE", 1)
    monkeypatch.setattr("ibp.data.units.ROWS_LOOKED_AT", 100)
    X = planted(missing=True)
    same(answers(X), answers(small_slabs(ibp.open_rows(write_parquet(tmp_path, X)))))


@pytest.mark.parametrize("kind", SPARSE)
@pytest.mark.parametrize("missing", [False, True])
def test_a_sparse_file_is_fitted_as_the_matrix_is(kind, missing, tmp_path):
    X = planted(missing=missing)
    X[X < 15.0] = 0.0
    path = SPARSE[kind](tmp_path, X)
    stored = small_slabs(ibp.open_rows(path))
    loaded = read_table(path).values
    assert sparse.issparse(loaded) and stored.stored.sparse
    for rows in (slice(0, 0), slice(100, 300), np.array([600, 3, 3])):
        assert_array_equal(dense(stored.rows(rows)), X[rows])
    same(answers(sparse.csr_array(X)), answers(stored))


def test_opened_arrays_are_fitted_as_they_are(tmp_path):
    X = planted(dtype=np.float32, missing=True)
    expected = answers(X)
    same(expected, answers(zarr.open(write_zarr(tmp_path, X), mode="r")))
    with h5py.File(write_hdf5(tmp_path, X), "r") as file:
        same(expected, answers(file["deep/X"]))
    same(expected, answers(arrow_dataset.dataset(write_parquet(tmp_path, X))))
    path = write_annotated(tmp_path, X)
    backed = anndata.read_h5ad(path, backed="r")
    same(expected, answers(backed))
    with pytest.raises(InvalidTypeError, match="view of a backed AnnData"):
        ibp.MEIBP().fit(backed[:100])
    backed.file.close()


def test_integers_given_as_an_opened_array_become_double_as_in_memory(tmp_path):
    X = planted(dtype=np.int16)
    same(answers(X), answers(zarr.open(write_zarr(tmp_path, X), mode="r")))


def test_names_of_columns_go_with_the_file(tmp_path):
    source = ibp.open_rows(write_parquet(tmp_path, planted()))
    model = unmoved(3, random_state=0, max_iter=1, tol=0).fit(source)
    assert model.feature_names_in_.tolist() == NAMES
    model.transform(source)  # without a warning of names
    fewer = ibp.open_rows(tmp_path / "data.parquet", drop=["c2", "1"])
    assert fewer.column_names == ["c1", "c3", "c4", "c5"]
    with pytest.raises(InvalidValueError, match='lacks "c0"'):
        model.transform(fewer)


def test_columns_are_left_out_and_files_chosen_by_key(tmp_path):
    X = planted()
    path = write_zarr(tmp_path, X)
    assert_array_equal(ibp.open_rows(path, drop=["2"]).rows(slice(0, 9)), np.delete(X[:9], 1, 1))
    (tmp_path / "names.txt").write_text("a\nb\nc\nd\ne\nf\n")
    table = open_table(path, names=tmp_path / "names.txt", drop=["b", "6"])
    assert table.column_names == ["a", "c", "d", "e"]
    assert table.column_numbers == [1, 3, 4, 5]
    assert_array_equal(table.values.rows(slice(0, 9)), X[:9, [0, 2, 3, 4]])
    array = zarr.open(path, mode="r")
    assert_array_equal(ibp.open_rows(array, drop=["1"]).rows(slice(0, 9)), X[:9, 1:])
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["first"], file["second"] = X, X[:, :2]
    with pytest.raises(DataFileError, match=r'several matrices, "first" \(700 x 6\)'):
        ibp.open_rows(tmp_path / "two.h5")
    assert ibp.open_rows(tmp_path / "two.h5", key="second").shape == (N, 2)
    with pytest.raises(DataFileError, match='no array "third"'):
        ibp.open_rows(tmp_path / "two.h5", key="third")


def test_other_methods_take_files_too(tmp_path):
    X = planted(120)
    source = ibp.open_rows(write_parquet(tmp_path, X))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one, other = (
            ibp.FiniteVIBP(3, max_iter=3, random_state=0).fit(data) for data in (X, source)
        )
    assert one.evidence_ == other.evidence_


# Passes over the file


class CountedRows(StoredRows):
    """Rows in memory, of which every reading is counted."""

    name = "counted"

    def __init__(self, values, chunk=100):
        self._values = values
        self.shape, self.dtype = values.shape, values.dtype
        self._chunk = chunk
        self.n_read = 0

    def chunk_bounds(self):
        return even_bounds(self.shape[0], self._chunk)

    def read(self, start, stop):
        self.n_read += stop - start
        return self._values[start:stop]

    def passes(self):
        passes, self.n_read = self.n_read / self.shape[0], 0
        return passes


@pytest.fixture
def counted(monkeypatch):
    """Rows that do not fit what is kept in memory, and a start from some of them."""
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.SAMPLE_ROWS", 500)
    monkeypatch.setattr("ibp.methods.meibp.automatic_start.ROWS_PER_FEATURE", 1)
    monkeypatch.setattr("ibp.data.units.ROWS_LOOKED_AT", 300)
    stored = CountedRows(planted(6000))
    source = ReadAhead(stored, slab_bytes=1)
    source._most_kept = 12  # slabs are smaller than pieces here, so one thread reads at a time
    return stored, source


@pytest.mark.parametrize("noise", ["shared", "per_column"])
def test_summary_units_and_start_take_three_passes_and_a_sweep_one(counted, noise):
    stored, source = counted
    heard = []
    settings = {"noise": noise, "max_iter": 4, "tol": 0, "random_state": 0, "n_jobs": 1}
    model = unmoved(K, callbacks=lambda progress: heard.append(stored.passes()), **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(source)
    # Summary and units, the rows of the start's sample, their placing and sums, and a sweep.
    assert heard[0] == 4.0
    assert heard[1:] and set(heard[1:]) <= {1.0, 2.0}  # 2: at rest, rows get their full budget
    assert 1.0 in heard[1:] or heard[1:] == [2.0]


def test_a_sweep_that_changes_rows_reads_each_once(counted):
    stored, source = counted
    rng = np.random.default_rng(0)
    Z = (rng.random((6000, K)) < 0.5).astype(np.uint8)
    heard = []
    model = ibp.MEIBP(
        K,
        init={"Z": Z},
        moves=False,
        max_iter=5,
        tol=0,
        random_state=0,
        n_jobs=1,
        callbacks=lambda progress: heard.append((progress.n_changed, stored.passes())),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(source)
    assert heard[0][0] > 0 and len(heard) > 2
    assert [passes for changed, passes in heard[1:] if changed] == [1.0] * sum(
        changed > 0 for changed, _ in heard[1:]
    )


def test_summary_is_one_pass_and_units_none(counted):
    stored, source = counted
    estimator = ibp.MEIBP(n_jobs=1)
    with estimator._executor() as executor:
        observations = estimator._observe_training_data(source, executor)
    assert stored.passes() == 1.0
    expected = estimator._observe_training_data(stored._values, executor)
    assert_array_equal(observations.resolution, expected.resolution)


def test_few_slabs_are_in_memory_and_the_next_is_read_meanwhile():
    stored = CountedRows(planted(2000))
    source = ReadAhead(stored, slab_bytes=1)
    source._most_kept = 3
    source.rows(slice(0, 10))
    deadline = time.monotonic() + 10
    while stored.n_read < 200 and time.monotonic() < deadline:
        time.sleep(0.001)
    assert stored.n_read == 200  # the slab that was asked for and one more
    source.rows(slice(100, 110))
    source.rows(slice(0, 2000))
    assert len(source._kept) == 3
    source.rows(slice(1990, 2000))
    assert stored.n_read == 2000


def test_slabs_are_of_whole_chunks_and_of_one_size_whatever_these_are(tmp_path):
    X = planted(5000, dtype=np.float32)
    source = ReadAhead(ibp.open_rows(write_zarr(tmp_path, X)).stored, slab_bytes=6 * 4 * 1000)
    assert np.diff(source._bounds).tolist() == [1000] * 5
    matrix = sparse.random(3000, 20, density=0.2, format="csr", random_state=0)
    path = write_sparse_annotated(tmp_path, matrix)
    sizes = np.diff(ReadAhead(ibp.open_rows(path).stored, slab_bytes=60_000)._bounds)
    assert sizes.size > 2 and sizes.max() <= 1.6 * sizes[:-1].min()


def test_a_large_row_group_is_read_in_parts_and_from_its_beginning_when_need_be(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("ibp.data.stored.parquet.LARGE_GROUP", 4000)
    monkeypatch.setattr("ibp.data.stored.parquet.PART_BYTES", 1000)
    X = planted(missing=True)
    path = tmp_path / "one.parquet"
    parquet.write_table(arrow_table(X), path, row_group_size=300)
    stored = ibp.open_rows(path).stored
    assert np.diff(stored.chunk_bounds()).max() == 20
    for start, stop in ((0, 20), (20, 60), (60, 61), (10, 400), (650, 700), (0, 700)):
        assert_array_equal(stored.read(start, stop), X[start:stop])


# What is said of bad files


def said(work):
    with pytest.raises(InputError) as caught:
        work()
    return str(caught.value)


def fitted(data):
    return ibp.MEIBP(2, max_iter=1, random_state=0).fit(data)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("zarr", r"row 571, column 3 (chunks 5.*)"),
        ("hdf5", r"row 571, column 3 (chunk 8 of /deep/X)"),
        ("hdf5 without chunks", "row 571, column 3"),
        ("parquet", 'row 571, column "c2" (row group 4)'),
        ("folder of parquet", 'row 571, column "c2" (row group 0 of part.8.parquet)'),
    ],
)
def test_an_infinity_is_named_with_file_chunk_and_column(kind, place, tmp_path):
    X = planted()
    X[570, 2] = np.inf
    path = DENSE[kind](tmp_path, X)
    message = said(lambda: fitted(ibp.open_rows(path)))
    assert message.startswith(f"{path.name} has an infinity in {place}")


def test_columns_without_numbers_are_named(tmp_path):
    table = arrow_table(planted()).append_column("who", pa.array(["x"] * N))
    parquet.write_table(table, tmp_path / "text.parquet")
    message = said(lambda: ibp.open_rows(tmp_path / "text.parquet"))
    assert message.startswith('text.parquet has a column without numbers: "who" (string)')
    dataset = arrow_dataset.dataset(tmp_path / "text.parquet")
    message = said(lambda: fitted(dataset))
    assert message.startswith('text.parquet has a column without numbers: "who" (string)')
    assert ibp.open_rows(tmp_path / "text.parquet", drop=["who"]).shape == (N, D)


def test_files_of_a_folder_must_have_the_same_columns(tmp_path):
    path = write_parts(tmp_path, planted())
    parquet.write_table(arrow_table(planted(9)).drop_columns(["c3"]), path / "part.3.parquet")
    message = said(lambda: ibp.open_rows(path))
    assert message.startswith('part.3.parquet lacks the column "c3", which part.0.parquet has')


def test_a_missing_chunk_of_zarr_is_named_whenever_it_is_lost(tmp_path):
    X = planted()
    path = write_zarr(tmp_path, X)
    source = small_slabs(ibp.open_rows(path))
    summarize(source)
    (path / "c" / "3" / "1").unlink()
    for data in (source, ibp.open_rows(path), zarr.open(path, mode="r")):
        message = said(lambda data=data: fitted(data))
        assert message.startswith("data.zarr lacks the chunk 3.1 (rows 301 to 400, columns 5 to 6)")
    filled = ibp.open_rows(path, missing_chunks="fill").rows(slice(300, 400))
    assert_array_equal(filled[:, 4:], 0.0)
    assert_array_equal(filled[:, :4], X[300:400, :4])
    with pytest.raises(InvalidTypeError, match="missing_chunks"):
        ibp.open_rows(path, missing_chunks="ignore")


def test_a_missing_chunk_is_found_in_memory_and_in_sparse_matrices(tmp_path):
    array = zarr.create_array(
        zarr.storage.MemoryStore(), shape=(N, D), chunks=(100, 6), dtype="f8", name="deep/X"
    )
    array[:600] = planted()[:600]
    assert "lacks the chunk 6.0 (rows 601 to 700" in said(lambda: fitted(array))
    X = planted()
    X[X < 15.0] = 0.0
    path = write_sparse_zarr(tmp_path, X)
    (path / "X" / "data" / "0").unlink()
    assert said(lambda: fitted(ibp.open_rows(path))).startswith("data.zarr lacks the chunk 0 (ent")


def test_a_chunk_of_hdf5_that_was_never_written_is_named(tmp_path):
    path = tmp_path / "holes.h5"
    with h5py.File(path, "w") as file:
        dataset = file.create_dataset("X", (N, D), "f4", chunks=(100, 6))
        dataset[:200] = dataset[300:] = 1.0
    message = said(lambda: ibp.open_rows(path))
    assert message.startswith("holes.h5 lacks the chunk 2.0 (rows 201 to 300, columns 1 to 6)")
    assert ibp.open_rows(path, missing_chunks="fill").shape == (N, D)


@pytest.mark.parametrize("kind", ["npy", "hdf5", "parquet", "folder of parquet"])
def test_a_file_that_is_cut_short_is_named(kind, tmp_path):
    path = DENSE[kind](tmp_path, planted())
    file = path / "part.4.parquet" if path.is_dir() else path
    os.truncate(file, file.stat().st_size // 2)
    message = said(lambda: fitted(ibp.open_rows(path)))
    assert file.name in message
    assert "damaged" in message or "cut short" in message


def test_a_chunk_that_is_cut_short_is_named_with_its_rows(tmp_path):
    path = write_zarr(tmp_path, planted())
    chunk = path / "c" / "4" / "0"
    os.truncate(chunk, chunk.stat().st_size // 2)
    message = said(lambda: fitted(small_slabs(ibp.open_rows(path))))
    assert message.startswith("data.zarr cannot be read in rows 401 to 500 (chunks 4.*): ")


def test_broken_pages_of_parquet_are_named_with_their_rows(tmp_path):
    path = write_parquet(tmp_path, planted())
    content = bytearray(path.read_bytes())
    place = parquet.ParquetFile(path).metadata.row_group(2).column(1).data_page_offset
    content[place : place + 40] = b"\xff" * 40
    path.write_bytes(content)
    message = said(lambda: fitted(small_slabs(ibp.open_rows(path))))
    assert message.startswith("data.parquet cannot be read in rows 261 to 390 (row group 2): ")


def test_sparse_matrices_that_are_not_consistent_are_named_with_their_rows(tmp_path):
    X = planted()
    path = write_sparse_annotated(tmp_path, X)
    with h5py.File(path, "r+") as file:
        file["X/indices"][file["X/indptr"][333]] = 77
    message = said(lambda: fitted(ibp.open_rows(path)))
    assert "row 334, with an entry in column 78 of 6" in message
    gc.collect()  # the error refers to where it comes from, and so to the open file
    with h5py.File(path, "r+") as file:
        file["X/indptr"][5] = 10**6
    assert "where its rows begin and end" in said(lambda: ibp.open_rows(path))
    gc.collect()
    anndata.AnnData(sparse.csc_matrix(X)).write_h5ad(path)
    assert "by columns (CSC)" in said(lambda: ibp.open_rows(path))


class GrowingRows:
    """A source to which rows are added while it is read."""

    def __init__(self, values, after):
        self._values, self._left = values, after
        self.dtype = values.dtype

    @property
    def shape(self):
        return (self._values.shape[0] + (self._left <= 0), self._values.shape[1])

    def rows(self, rows):
        self._left -= 1
        return self._values[rows]


@pytest.mark.parametrize("after", [2, 8])
def test_a_source_that_changes_its_shape_is_refused(after):
    message = said(lambda: fitted(GrowingRows(planted(), after)))
    assert "had the shape (700, 6) at first and has the shape (701, 6) now" in message


def test_a_dataset_that_changes_its_shape_is_refused(tmp_path):
    with h5py.File(tmp_path / "grows.h5", "w") as file:
        dataset = file.create_dataset("X", data=planted(), maxshape=(None, D), chunks=(100, D))
        source = ReadAhead(ibp.open_rows(dataset).stored, slab_bytes=1)
        source.rows(slice(0, 10))
        dataset.resize((650, D))
        message = said(lambda: fitted(source))
    assert "had 700 rows of 6 columns at first and has 650 rows of 6 columns now" in message


def test_a_file_of_a_folder_that_is_replaced_by_a_longer_one_is_refused(tmp_path):
    path = write_parts(tmp_path, planted())
    source = small_slabs(ibp.open_rows(path))
    summarize(source)
    parquet.write_table(arrow_table(planted(80)), path / "part.7.parquet")
    message = said(lambda: fitted(source))
    assert message.startswith("part.7.parquet had 63 rows of 6 columns at first and has 80 rows")


def test_one_file_of_a_folder_is_open_at_a_time(tmp_path):
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("nowhere to count open files")
    path = write_parts(tmp_path, planted())
    before = len(list(descriptors.iterdir()))
    source = small_slabs(ibp.open_rows(path))
    summarize(source)
    assert len(list(descriptors.iterdir())) <= before + 1


def test_nothing_hangs_when_rows_cannot_be_read(tmp_path):
    class BrokenRows(CountedRows):
        def read(self, start, stop):
            if start >= 300:
                raise OSError("the disk is gone")
            return super().read(start, stop)

    before = threading.active_count()
    sources = [ReadAhead(BrokenRows(planted()), slab_bytes=1)]
    for _ in range(2):  # the second time, too
        message = said(lambda: fitted(sources[0]))
        assert message.startswith("counted cannot be read in rows 301 to 400: the disk is gone")
    sources.clear()
    gc.collect()
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_what_is_no_file_of_rows_is_refused(tmp_path):
    assert "not ndarray" in said(lambda: ibp.open_rows(np.ones((2, 2))))
    (tmp_path / "a.csv").write_text("1,2\n3,4\n")
    assert "cannot be read a block of rows at a time" in said(
        lambda: ibp.open_rows(tmp_path / "a.csv")
    )
    assert "does not exist" in said(lambda: ibp.open_rows(tmp_path / "no.zarr"))
    (tmp_path / "empty.zarr").mkdir()
    assert "is damaged" in said(lambda: ibp.open_rows(tmp_path / "empty.zarr"))
    zarr.create_array(tmp_path / "deep.zarr", shape=(2, 3, 4), dtype="f8")[:] = 1.0
    assert "wrong shape, (2, 3, 4)" in said(lambda: ibp.open_rows(tmp_path / "deep.zarr"))
    np.save(tmp_path / "text.npy", np.array([["a", "b"]]))
    assert "not real numbers" in said(lambda: ibp.open_rows(tmp_path / "text.npy"))
    arrow_dataset.write_dataset(arrow_table(planted(9)), tmp_path / "feather", format="feather")
    feather = arrow_dataset.dataset(tmp_path / "feather", format="feather")
    assert "not one of Parquet files" in said(lambda: fitted(feather))


def test_pages_of_a_mapped_file_are_touched_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr("ibp.data.paging.SMALLEST", 0)
    monkeypatch.setattr("ibp.data.paging.WINDOW", 1 << 14)
    touched = []

    def touch(pages):
        touched.append(pages.size)

    monkeypatch.setattr("ibp.data.paging.touch", touch)
    X = planted(20_000)
    source = as_source(np.load(write_mapped(tmp_path, X), mmap_mode="r"))
    for _ in range(2):
        for start in range(0, 20_000, 256):
            rows = slice(start, min(start + 256, 20_000))
            assert_array_equal(source.rows(rows), X[rows])
            while source._pages._touching is not None and not source._pages._touching.done():
                time.sleep(0)
    # What is touched follows the rows that are asked for first, in both passes.
    assert sum(touched) == pytest.approx(2 * X.nbytes, rel=0.05)


def test_mapped_rows_can_be_sent_elsewhere_and_others_say_that_they_cannot(tmp_path, monkeypatch):
    monkeypatch.setattr("ibp.data.paging.SMALLEST", 0)
    X = planted()
    source = as_source(np.load(write_mapped(tmp_path, X), mmap_mode="r"))
    source.rows(slice(0, 9))
    assert_array_equal(pickle.loads(pickle.dumps(source)).rows(slice(0, N)), X)
    with pytest.raises(TypeError, match="data.zarr cannot be copied"):
        pickle.dumps(ibp.open_rows(write_zarr(tmp_path, X)))


def test_where_memory_is_short_a_file_is_streamed(tmp_path, monkeypatch):
    from ibp.files import memory

    path = write_zarr(tmp_path, planted())
    values = ibp.open_rows(path)
    assert memory.available_memory() > 0
    assert not memory.is_too_large(values)
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * N * D * 8 - 2)
    assert memory.is_too_large(values)
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    assert not memory.is_too_large(values)


def test_limits_of_a_group_of_processes_count(tmp_path, monkeypatch):
    from ibp.files import memory

    limit, used = tmp_path / "max", tmp_path / "current"
    limit.write_text("5000\n")
    used.write_text("1200\n")
    monkeypatch.setattr(memory, "GROUP_LIMITS", ((str(limit), str(used)),))
    assert memory.available_memory() == 3800
    limit.write_text("max\n")
    assert memory.available_memory() > 5000


def test_names_of_files_are_in_the_order_of_their_numbers(tmp_path):
    from ibp.files.parquet import files_of

    names = ["a-10.parquet", "a-9.parquet", "a-09b.parquet", "b.parquet", "_metadata.parquet"]
    for name in [*names, "sub-2/a.parquet", "sub-10/a.parquet", ".hidden/a.parquet"]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in files_of(tmp_path)]
    assert found == [
        "a-9.parquet",
        "a-09b.parquet",
        "a-10.parquet",
        "b.parquet",
        "sub-2/a.parquet",
        "sub-10/a.parquet",
    ]
    assert files_of(Path("x.parquet")) == [Path("x.parquet")]
