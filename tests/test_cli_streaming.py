"""Files that commands leave on disk: when, with which result, and what is said of bad ones."""

from __future__ import annotations

import numpy as np
import pytest

import ibp
from ibp.files import memory
from terminal import check_refusal, in_this_process

zarr = pytest.importorskip("zarr")
h5py = pytest.importorskip("h5py")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

NOTE = "is read block by block, and not loaded into memory"
FILES = ("data.parquet", "parts", "data.zarr", "data.h5", "whole.npy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the same data in every format, but for their types."""
    path = tmp_path_factory.mktemp("streamed")
    X = ibp.datasets.make_block_images(150, noise_std=0.2, random_state=0).data.astype(np.float32)
    names = [f"p{j}" for j in range(36)]
    table = pa.table([*X.T.copy()], names=names)
    parquet.write_table(table, path / "data.parquet", row_group_size=40)
    (path / "parts").mkdir()
    for i in range(3):
        parquet.write_table(table.slice(50 * i, 50), path / "parts" / f"{i}.parquet")
    zarr.create_array(path / "data.zarr", shape=X.shape, chunks=(40, 20), dtype="f4")[:] = X
    with h5py.File(path / "data.h5", "w") as file:
        file["X"] = X
    np.save(path / "whole.npy", (100 * X).astype(np.int16))
    return path


@pytest.fixture
def call(capsys, monkeypatch, folder):
    """Call the program as its entry point does, in the folder of the data."""
    monkeypatch.chdir(folder)
    return in_this_process(capsys)


def fit(call, file, output, *more):
    finished = call("fit", file, "-o", output, "--max-sweeps", 2, "--no-moves", "--force", *more)
    assert finished.returncode == 0, finished.stderr
    return finished, ibp.load(output)


@pytest.mark.parametrize("file", FILES)
def test_a_file_on_disk_gives_the_model_of_one_in_memory(call, file, tmp_path):
    _, streamed = fit(call, file, tmp_path / "streamed.ibp", "--stream")
    _, loaded = fit(call, file, tmp_path / "loaded.ibp", "--load")
    assert streamed.evidence_ == loaded.evidence_
    assert np.array_equal(streamed.assignments_, loaded.assignments_)
    assert np.array_equal(streamed.components_, loaded.components_)
    names = [
        getattr(model, "feature_names_in_", np.array([])).tolist() for model in (streamed, loaded)
    ]
    assert names[0] == names[1]


def test_what_would_fill_memory_is_left_on_disk(call, tmp_path, monkeypatch):
    finished, _ = fit(call, "data.zarr", tmp_path / "a.ibp")
    assert NOTE not in finished.stderr
    monkeypatch.setattr(memory, "available_memory", lambda: 30_000)
    for file in ("data.zarr", "data.parquet", "whole.npy"):
        assert NOTE in fit(call, file, tmp_path / "a.ibp")[0].stderr
    assert NOTE not in fit(call, "data.zarr", tmp_path / "a.ibp", "--load")[0].stderr


def test_rows_on_disk_are_placed_and_reported_as_those_in_memory(call, tmp_path):
    _, model = fit(
        call, "data.parquet", tmp_path / "m.ibp", "--stream", "--report", tmp_path / "r.html"
    )
    assert (tmp_path / "r.html").stat().st_size > 10_000
    model.save(tmp_path / "bare.ibp", assignments=False)
    for name in ("m", "bare"):
        for how in ("--stream", "--load"):
            target = tmp_path / f"{name}{how}.npy"
            finished = call("transform", tmp_path / f"{name}.ibp", "parts", "-o", target, how)
            assert finished.returncode == 0, finished.stderr
        assert np.array_equal(
            *(np.load(tmp_path / f"{name}{how}.npy") for how in ("--stream", "--load"))
        )


def test_other_commands_take_what_is_on_disk_or_load_it(call, tmp_path, monkeypatch):
    fit(call, "data.parquet", tmp_path / "m.ibp", "--load")
    shown = call("info", "data.zarr").stdout
    monkeypatch.setattr(memory, "available_memory", lambda: 30_000)
    streamed = call("info", "data.zarr")
    assert NOTE in streamed.stderr and streamed.stdout == shown
    reported = call("report", tmp_path / "m.ibp", "parts", "-o", tmp_path / "page.html")
    assert reported.returncode == 0 and NOTE in reported.stderr
    filled = ("-o", tmp_path / "z.npy", "--impute", tmp_path / "filled.npy")
    finished = call("transform", tmp_path / "m.ibp", "data.parquet", *filled)
    assert finished.returncode == 0 and NOTE not in finished.stderr
    check_refusal(
        call("transform", tmp_path / "m.ibp", "data.parquet", *filled, "--stream", "--force"),
        "Leave out --stream",
    )


def test_columns_are_matched_by_name_on_disk_too(call, folder, tmp_path):
    _, model = fit(call, "data.parquet", tmp_path / "m.ibp", "--load")
    table = parquet.read_table("data.parquet")
    turned = table.select(table.column_names[::-1]).append_column("more", pa.array(["x"] * 150))
    parquet.write_table(turned, tmp_path / "turned.parquet")
    target = tmp_path / "z.npy"
    finished = call(
        "transform", tmp_path / "m.ibp", tmp_path / "turned.parquet", "-o", target, "--stream"
    )
    assert finished.returncode == 0, finished.stderr
    assert np.array_equal(np.load(target), model.assignments_)


def test_columns_of_a_mapped_array_stay_in_their_order(call, tmp_path):
    names = [f"p{j}" for j in range(36)]
    for file, lines in (("names", names), ("turned", names[::-1])):
        (tmp_path / file).write_text("\n".join(lines))
    fit(call, "whole.npy", tmp_path / "m.ibp", "--names", tmp_path / "names")
    placed = ("transform", tmp_path / "m.ibp", "whole.npy", "--names", tmp_path / "turned")
    target = ("-o", tmp_path / "z.npy")
    refused = call(*placed, "--stream", *target)
    assert refused.returncode == 2
    assert "whole.npy is a mapped array of integers" in refused.stderr.splitlines()[-1]
    assert call(*placed, "--load", *target).returncode == 0


def test_columns_of_one_name_are_refused_on_disk_too(call, tmp_path):
    names = ["twice", "twice", *(f"p{j}" for j in range(34))]
    (tmp_path / "names").write_text("\n".join(names))
    for how in ("--load", "--stream"):
        refused = call("fit", "data.zarr", "--names", tmp_path / "names", how)
        check_refusal(refused, 'several columns of one name: "twice" (columns 1 and 2)')


def test_what_cannot_be_left_on_disk_is_said(call, folder, tmp_path):
    (tmp_path / "a.csv").write_text("1,2\n3,4\n5,6\n")
    check_refusal(
        call("fit", tmp_path / "a.csv", "--stream"), "a.csv cannot be read a block of rows"
    )
    check_refusal(call("fit", "data.zarr", "--stream", "--transpose"), "Leave out --stream")
    check_refusal(
        call("fit", "data.zarr", "--stream", "--held-out", 0.1, "-o", tmp_path / "h.ibp"),
        "data.zarr is read block by block",
        "--load",
    )


def test_a_bad_file_on_disk_is_named_with_place_and_chunk(call, folder, tmp_path):
    array = zarr.create_array(tmp_path / "bad.zarr", shape=(90, 4), chunks=(30, 4), dtype="f4")
    array[:] = np.random.default_rng(0).normal(size=(90, 4))
    array[70, 1] = -np.inf
    target = tmp_path / "m.ibp"
    check_refusal(
        call("fit", tmp_path / "bad.zarr", "--stream", "-o", target),
        "bad.zarr has an infinity in row 71, column 2 (chunks 2.*)",
    )
    (tmp_path / "bad.zarr" / "c" / "2" / "0").unlink()
    for how in ("--stream", "--load"):
        refused = call("fit", tmp_path / "bad.zarr", how, "-o", tmp_path / "no.ibp")
        check_refusal(refused, "bad.zarr lacks the chunk 2.0 (rows 61 to 90, columns 1 to 4)")
        fit(call, tmp_path / "bad.zarr", target, how, "--missing-chunks", "fill")
    check_refusal(call("fit", "data.zarr", "--missing-chunks", "so"), '"refuse" or "fill"')
