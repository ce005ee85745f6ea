"""Data that are made up, with the truth behind them, and data that are read from a folder."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from ibp.datasets import (
    load_flickr_tags,
    load_piano,
    load_yale_faces,
    make_binary_factors,
    make_block_images,
    real,
)
from ibp.errors import DataFileError


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


# ---------------------------------------------------------------- real data


@pytest.fixture
def small_piano(tmp_path, monkeypatch):
    """A file as the piano's is, but small."""
    X = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.savez(tmp_path / real.PIANO, X=X, freqs_hz=np.arange(3, dtype=np.float32))
    monkeypatch.setattr(real, "PIANO_SHAPE", (4, 3))
    monkeypatch.setattr(real, "PIANO_DIGEST", hashlib.sha256(X.tobytes()).hexdigest())
    frequencies = np.arange(3, dtype=np.float32).tobytes()
    monkeypatch.setattr(real, "FREQUENCIES_DIGEST", hashlib.sha256(frequencies).hexdigest())
    return tmp_path


def test_real_data_are_held_to_shape_and_checksum(small_piano, monkeypatch):
    assert load_piano(small_piano).data.shape == (4, 3)
    monkeypatch.setattr(real, "PIANO_DIGEST", "0" * 64)
    with pytest.raises(DataFileError, match="holds something else as X: its SHA-256 begins with"):
        load_piano(small_piano)
    monkeypatch.setattr(real, "PIANO_SHAPE", (16000, 161))
    with pytest.raises(DataFileError, match="holds 4 x 3 entries .*it should be 16000 x 161 of"):
        load_piano(small_piano)


@pytest.mark.parametrize(
    ("load", "name"),
    [
        (load_piano, real.PIANO),
        (load_flickr_tags, real.TAGS),
        (load_yale_faces, "yaleb_cropped_48x42.npz"),
    ],
)
def test_what_is_absent_or_broken_is_asked_for(load, name, tmp_path):
    with pytest.raises(DataFileError, match=f"{name} is not there; put {name}"):
        load(tmp_path)
    for content in (b"nothing", b""):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataFileError, match="cannot be read"):
            load(tmp_path)
    with (tmp_path / name).open("wb") as file:
        np.save(file, np.zeros(2))
    with pytest.raises(DataFileError, match="cannot be read: it holds a single array"):
        load(tmp_path)


def test_a_single_number_is_no_data(tmp_path):
    np.savez(tmp_path / real.PIANO, X=1.0, freqs_hz=1.0)
    with pytest.raises(DataFileError, match="holds a single entry of type float64 as X"):
        load_piano(tmp_path)


def test_subjects_are_held_to_length_and_checksum(tmp_path, monkeypatch):
    name = "small.npz"
    X, digest = np.zeros((4, 6), dtype=np.uint8), hashlib.sha256(bytes(24)).hexdigest()
    monkeypatch.setattr(real, "FACES", {(3, 2): (name, digest)})
    monkeypatch.setattr(real, "N_FACES", 4)
    np.savez(tmp_path / name, X=X, subject=np.arange(3))
    with pytest.raises(DataFileError, match="holds 3 entries .*as subject; it should be 4 of type"):
        load_yale_faces(tmp_path, (3, 2))
    np.savez(tmp_path / name, X=X, subject=np.arange(4))
    with pytest.raises(DataFileError, match="holds something else as subject"):
        load_yale_faces(tmp_path, (3, 2))


def test_faces_come_in_two_sizes(tmp_path):
    with pytest.raises(ValueError, match=r"image_shape must be \(48, 42\) or \(192, 168\)"):
        load_yale_faces(tmp_path, (8, 8))


def test_tags_are_read_from_two_files(tmp_path, monkeypatch):
    tags = sparse.csr_matrix(np.eye(3, 2, dtype=np.uint8))
    sparse.save_npz(tmp_path / real.TAGS, tags)
    np.savez(tmp_path / real.TAG_NAMES, tags=np.array(["sky", "sea"]))
    monkeypatch.setattr(real, "TAGS_SHAPE", (3, 2))
    parts = (tags.indptr.astype("<i8"), tags.indices.astype("<i8"), tags.data)
    digest = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    monkeypatch.setattr(real, "TAGS_DIGEST", digest)
    with pytest.raises(DataFileError, match="holds something else as tags"):
        load_flickr_tags(tmp_path)
    monkeypatch.setattr(real, "NAMES_DIGEST", hashlib.sha256(b"sky\nsea").hexdigest())
    found = load_flickr_tags(tmp_path)
    assert found.names.tolist() == ["sky", "sea"]
    np.testing.assert_array_equal(found.data.toarray(), tags.toarray())


def test_the_real_data_are_those_of_the_results():
    folder = Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / real.PIANO).exists():
        pytest.skip("the real data are not available here")
    assert load_piano(folder).data.shape == (16000, 161)
    assert load_flickr_tags(folder).data.nnz == 92808
    assert np.unique(load_yale_faces(folder).subject).size == 38
