"""Writing results: what is read is what was written, and nothing is lost or left when it fails."""

from __future__ import annotations

import errno
import os
import stat
import sys

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from ibp.files import (
    DataFileError,
    Table,
    atomic,
    check_target,
    read_table,
    write_codes,
    write_table,
)
from ibp.files import write as write_module

ROWS = ["plain", "com,ma", 'quo"te', "two\nlines", "=cmd|' /C calc'!A0", "Zoë 雪", " x "]
FEATURES = ["<b>", "a,b", 'say "so"']
CODES = (np.random.default_rng(0).random((7, 3)) < 0.5).astype(np.uint8)
PROBABILITIES = np.random.default_rng(1).random((7, 3))
CODE_ENDINGS = [".csv", ".tsv", ".parquet", ".npz", ".npy"]


def only(folder, *names):
    """Whether a folder holds these files and no other, hidden ones included."""
    return sorted(entry.name for entry in folder.iterdir()) == sorted(names)


# Round trips


@pytest.mark.parametrize("ending", CODE_ENDINGS)
@pytest.mark.parametrize("codes", [CODES, PROBABILITIES, PROBABILITIES.astype("f4")])
def test_codes_come_back(ending, codes, tmp_path):
    path = tmp_path / f"codes{ending}"
    write_codes(path, codes, row_names=ROWS, feature_names=FEATURES)
    table = read_table(path)
    np.testing.assert_array_equal(table.values.astype(codes.dtype), codes)
    if ending != ".npy":
        assert table.row_names == ROWS
        assert table.column_names == FEATURES
    assert only(tmp_path, path.name)


@pytest.mark.parametrize("ending", CODE_ENDINGS)
def test_codes_without_names(ending, tmp_path):
    path = tmp_path / f"codes{ending}"
    write_codes(path, CODES)
    table = read_table(path)
    np.testing.assert_array_equal(table.values, CODES)
    assert table.row_names is None
    if ending != ".npy":
        assert table.column_names == ["feature 0", "feature 1", "feature 2"]


def test_codes_are_whole_numbers_in_text(tmp_path):
    path = tmp_path / "codes.csv"
    write_codes(path, np.array([[1, 0]], dtype=np.uint8), row_names=["r"])
    assert path.read_text() == '"","feature 0","feature 1"\n"r",1,0\n'
    write_codes(path, np.array([[0.1, 1.0]]), force=True)
    assert path.read_text() == '"feature 0","feature 1"\n0.1,1\n'


@pytest.mark.parametrize("ending", [".npz", ".npy"])
def test_codes_keep_their_type(ending, tmp_path):
    path = tmp_path / f"codes{ending}"
    write_codes(path, CODES)
    content = np.load(path)
    if ending == ".npz":
        with content:
            content = content["codes"]
    assert content.dtype == np.uint8
    np.testing.assert_array_equal(content, CODES)


def test_pandas_reads_codes(tmp_path):
    expected = pd.DataFrame(CODES, index=ROWS, columns=FEATURES)
    write_codes(tmp_path / "codes.csv", CODES, row_names=ROWS, feature_names=FEATURES)
    text = pd.read_csv(tmp_path / "codes.csv", index_col=0)
    pd.testing.assert_frame_equal(text, expected, check_dtype=False)
    write_codes(tmp_path / "codes.parquet", CODES, row_names=ROWS, feature_names=FEATURES)
    frame = pd.read_parquet(tmp_path / "codes.parquet")
    pd.testing.assert_frame_equal(frame, expected, check_names=False)


def test_no_features(tmp_path):
    for ending in CODE_ENDINGS:
        write_codes(tmp_path / f"codes{ending}", np.zeros((7, 0), dtype=np.uint8), row_names=ROWS)
        assert (tmp_path / f"codes{ending}").stat().st_size > 0


def test_a_feature_named_as_the_column_of_names(tmp_path):
    path = tmp_path / "codes.parquet"
    write_codes(path, CODES, row_names=ROWS, feature_names=["row", "row_", "b"])
    assert read_table(path).column_names == ["row", "row_", "b"]
    assert read_table(path).row_names == ROWS


@pytest.mark.parametrize("ending", [*CODE_ENDINGS, ".mtx"])
@pytest.mark.parametrize("n_columns", [1, 3])
def test_tables_come_back(ending, n_columns, tmp_path):
    values = (
        np.random.default_rng(0).normal(size=(7, n_columns))
        * 10.0 ** np.arange(-30, 40, 10)[:, None]
    )
    if ending != ".mtx":
        values[[0, 3], 0] = np.nan
    path = tmp_path / f"data{ending}"
    columns = FEATURES[:n_columns]
    write_table(path, Table(values, ROWS, columns))
    table = read_table(path)
    np.testing.assert_array_equal(table.values, values)
    named = ending not in (".npy", ".mtx")
    assert table.row_names == (ROWS if named else None)
    assert table.column_names == (columns if named else None)
    write_table(path, Table(values), force=True)
    table = read_table(path)
    np.testing.assert_array_equal(table.values, values)
    assert table.row_names is None


@pytest.mark.parametrize("ending", [".npy", ".npz"])
def test_images_come_back(ending, tmp_path):
    values = np.random.default_rng(0).random((3, 6)).astype("f4")
    write_table(tmp_path / f"data{ending}", Table(values, image_shape=(2, 3)))
    table = read_table(tmp_path / f"data{ending}")
    assert table.image_shape == (2, 3)
    assert table.values.dtype == np.float32
    np.testing.assert_array_equal(table.values, values)


@pytest.mark.parametrize("ending", [*CODE_ENDINGS, ".mtx"])
def test_sparse_tables_come_back(ending, tmp_path):
    dense = np.where(PROBABILITIES > 0.7, PROBABILITIES, 0)
    path = tmp_path / f"data{ending}"
    write_table(path, Table(sparse.csr_array(dense), column_names=FEATURES))
    values = read_table(path).values
    if ending in (".npz", ".mtx"):
        assert isinstance(values, sparse.csr_array)
        values = values.toarray()
    np.testing.assert_array_equal(values, dense)


# Targets


def refused(function, *arguments, **options):
    with pytest.raises(DataFileError) as caught:
        function(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_targets(tmp_path):
    assert check_target(tmp_path / "a.csv", endings=[".csv"]) == tmp_path / "a.csv"
    check_target(tmp_path / "A.CSV", endings=[".csv"])
    check_target(tmp_path / "whatever")
    assert only(tmp_path)
    sentence = refused(check_target, tmp_path / "a.doc", endings=[".csv", ".npz"])
    assert sentence.endswith("its name must end in .csv or .npz.")
    (tmp_path / "results").mkdir()
    sentence = refused(check_target, tmp_path / "result" / "a.csv")
    assert f'no folder {tmp_path / "result"} (did you mean "results"?)' in sentence
    assert "is a folder" in refused(check_target, tmp_path / "results", force=True)
    (tmp_path / "a.csv").write_text("old")
    assert "exists already" in refused(check_target, tmp_path / "a.csv")
    check_target(tmp_path / "a.csv", force=True)
    assert (tmp_path / "a.csv").read_text() == "old"


def test_devices_are_not_replaced(tmp_path):
    assert "not an ordinary file" in refused(check_target, os.devnull, force=True)
    with pytest.raises(FileExistsError), atomic(os.devnull, force=True):
        pass
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.csv")
        assert "not an ordinary file" in refused(
            write_codes, tmp_path / "pipe.csv", CODES, force=True
        )


def test_a_folder_that_may_not_be_written_to(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "may not write to the folder" in refused(check_target, tmp_path / "a.csv")


@pytest.mark.parametrize("ending", CODE_ENDINGS)
def test_files_are_replaced_only_by_force(ending, tmp_path):
    path = tmp_path / f"codes{ending}"
    path.write_text("precious")
    assert "exists already and is left as it is" in refused(write_codes, path, CODES)
    assert path.read_text() == "precious"
    write_codes(path, CODES, force=True)
    np.testing.assert_array_equal(read_table(path).values, CODES)
    assert only(tmp_path, path.name)


def test_unknown_endings(tmp_path):
    for function, content in ((write_codes, CODES), (write_table, Table(CODES))):
        assert "must end in .csv, .tsv, .csv.gz, .tsv.gz, .parquet" in refused(
            function, tmp_path / "a.dat", content
        )
    assert "must end in" in refused(write_codes, tmp_path / "a.mtx", CODES)
    assert only(tmp_path)


# All or nothing


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt(), MemoryError()])
def test_failure_leaves_nothing(force, error, tmp_path):
    path = tmp_path / "result"
    with pytest.raises(type(error)), atomic(path, force=force) as file:
        file.write(b"half")
        assert not path.exists()
        raise error
    assert only(tmp_path)


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_failure_leaves_the_old_file(error, tmp_path):
    path = tmp_path / "result"
    path.write_text("old")
    with pytest.raises(type(error)), atomic(path, force=True) as file:
        file.write(b"half")
        raise error
    assert path.read_text() == "old"
    assert only(tmp_path, "result")


@pytest.mark.parametrize("ending", CODE_ENDINGS)
def test_a_failing_writer_leaves_nothing(ending, tmp_path, monkeypatch):
    writer = write_module.WRITERS[ending]

    def fail(file, *arguments):
        writer(file, *arguments)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setitem(write_module.WRITERS, ending, fail)
    path = tmp_path / f"codes{ending}"
    sentence = refused(write_codes, path, CODES)
    assert sentence == f"{path} cannot be written: {os.strerror(errno.ENOSPC)}."
    assert only(tmp_path)


def test_failure_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError) as caught, atomic(tmp_path / "result") as file:
        file.write(b"all")
    assert caught.value.filename == str(tmp_path / "result")


@pytest.mark.parametrize("name", ["fsync", "link"])
def test_failure_of_the_system_leaves_nothing(name, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, name, interrupt)
    with pytest.raises(KeyboardInterrupt), atomic(tmp_path / "result") as file:
        file.write(b"all")
    assert only(tmp_path)


@pytest.fixture(params=["links", "no links"])
def links(request, monkeypatch):
    """File systems with and without hard links."""
    if request.param == "no links":

        def refuse(*arguments):
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)


@pytest.mark.usefixtures("links")
def test_a_new_file(tmp_path):
    with atomic(tmp_path / "result") as file:
        file.write(b"new")
        assert not (tmp_path / "result").exists()
    assert (tmp_path / "result").read_bytes() == b"new"
    assert only(tmp_path, "result")


@pytest.mark.usefixtures("links")
def test_a_file_that_appears_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "result"
    with pytest.raises(FileExistsError), atomic(path) as file:
        file.write(b"ours")
        path.write_text("theirs")
    assert path.read_text() == "theirs"
    assert only(tmp_path, "result")


@pytest.mark.usefixtures("links")
def test_codes_do_not_replace_a_file_that_appears_meanwhile(tmp_path, monkeypatch):
    path = tmp_path / "codes.npy"

    def write(file, table, label):
        path.write_text("theirs")

    monkeypatch.setitem(write_module.WRITERS, ".npy", write)
    assert "exists already" in refused(write_codes, path, CODES)
    assert path.read_text() == "theirs"
    assert only(tmp_path, "codes.npy")


def test_a_name_that_was_claimed_is_given_back(tmp_path, monkeypatch):
    def refuse(self, target):
        raise OSError("refused")

    monkeypatch.setattr(os, "link", refuse)
    monkeypatch.setattr(type(tmp_path), "replace", refuse)
    with pytest.raises(OSError, match="refused"), atomic(tmp_path / "result") as file:
        file.write(b"new")
    assert only(tmp_path)


def test_links_stay_links(tmp_path):
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "result", tmp_path / "link"
    link.symlink_to(target)
    with atomic(link) as file:  # points to nothing yet
        file.write(b"first")
    assert link.is_symlink()
    assert target.read_bytes() == b"first"
    with pytest.raises(FileExistsError), atomic(link):
        pass
    with atomic(link, force=True) as file:
        file.write(b"second")
    assert link.is_symlink()
    assert target.read_bytes() == b"second"
    assert only(tmp_path / "real", "result")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
def test_permissions(tmp_path):
    path = tmp_path / "result"
    umask = os.umask(0o027)
    try:
        with atomic(path):
            pass
        assert stat.S_IMODE(path.stat().st_mode) == 0o640
        path.chmod(0o600)
        with atomic(path, force=True):
            pass
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    finally:
        os.umask(umask)


def test_long_names(tmp_path):
    name = "x" * 255
    with atomic(tmp_path / name) as file:
        file.write(b"new")
    assert only(tmp_path, name)


def test_missing_folder(tmp_path):
    with pytest.raises(FileNotFoundError), atomic(tmp_path / "nowhere" / "result"):
        pass
    assert only(tmp_path)


def test_a_format_whose_package_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(DataFileError, match=r"codes.parquet needs the package pyarrow.*ibp\[cli\]"):
        write_codes(tmp_path / "codes.parquet", CODES)
    assert only(tmp_path)
