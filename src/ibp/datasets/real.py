"""The real data of the paper's figure 4, or the nearest that is public, from a folder.

Nothing is downloaded and none of it comes with the library. Each loader says which file it wants,
and holds what it finds to the shape and the checksum of the data that the results were made with.
"""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ibp.errors import DataFileError, InvalidValueError


class Faces(NamedTuple):
    """Images of faces, a row each, and whose they are."""

    data: npt.NDArray[np.uint8]
    subject: npt.NDArray[np.int16]
    image_shape: tuple[int, int]


class Spectra(NamedTuple):
    """Magnitudes of a short-time Fourier transform, a row for each frame."""

    data: npt.NDArray[np.float32]
    frequencies: npt.NDArray[np.float32]


class Tags(NamedTuple):
    """Which image has which tag, zeros and ones, and the names of the tags."""

    data: sparse.csr_matrix
    names: npt.NDArray[np.str_]


FACES = {
    (48, 42): (
        "yaleb_cropped_48x42.npz",
        "2a9e3e557a0a6cad67f81dd0c5a94e65851bce70d99f13eaa8fc1393e3d48b18",
    ),
    (192, 168): (
        "yaleb_cropped_192x168.npz",
        "9b3afe0b89d41871ec24bdedd35055f29c6d9aeaac6179325c800f28860292b4",
    ),
}
N_FACES = 2414
SUBJECT_DIGEST = "f0f951566e8fb22124beb9d7c2477df4408ded4e19f633c451001372f507c423"
PIANO = "piano_16000x161_dft1024.npz"
PIANO_SHAPE = (16000, 161)
PIANO_DIGEST = "34313e96ab19b95e6dbbb98ca82da86ea31dd6374f5a365b1e732eb032ddb36d"
FREQUENCIES_DIGEST = "b524e71febfba3dca4963db66cd90cadf4128248f5dc38be67aaf90996d06bac"
TAGS, TAG_NAMES = "mirflickr25k_tags_csr.npz", "mirflickr25k_tags_meta.npz"
TAGS_SHAPE = (20015, 1386)
TAGS_DIGEST = "32df0e2b291960825cbd1ea454de9593b7fd118bce37c5487748c5069e7633b9"
NAMES_DIGEST = "c61a378f5cbebe7a205f96a589c4f0de37546fa141b41d74ef234e89aedcf193"
# Kinds of types, in words.
ABSTRACT: dict[Any, str] = {
    np.integer: "integer",
    np.floating: "floating-point",
    np.str_: "text",
}
# What reading a file that is broken, or another one, may raise.
UNREADABLE = (ValueError, OSError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)


def load_yale_faces(folder: str | PathLike[str], image_shape: tuple[int, int] = (48, 42)) -> Faces:
    """The cropped Extended Yale B faces: 2,414 images of 38 subjects under varied light.

    Parameters
    ----------
    folder : path-like
        Where ``yaleb_cropped_48x42.npz`` or ``yaleb_cropped_192x168.npz`` is: arrays ``X`` (2414
        rows of grey values 0 to 255, an image each) and ``subject``, ordered by subject, azimuth
        and elevation of the light, without the ambient images.
    image_shape : tuple of int, default=(48, 42)
        Height and width: (192, 168) as released, or (48, 42), the rounded means of 4 x 4 pixels.

    Returns
    -------
    Faces
        ``data``, the ``subject`` of each row, ``image_shape``.
    """
    if image_shape not in FACES:
        sizes = " or ".join(map(str, FACES))
        raise InvalidValueError(f"image_shape must be {sizes}; it is {image_shape}.")
    name, digest = FACES[image_shape]
    height, width = image_shape
    wanted = (
        f"put {name} there, with the {N_FACES} cropped images of Extended Yale B (Lee et al. 2005) "
        f"of {height} x {width} pixels as rows of X, and their subject"
    )
    path = Path(folder) / name
    found = _arrays(path, ("X", "subject"), wanted)
    data, subject = found["X"], found["subject"]
    _check_shape(path, "X", data, (N_FACES, height * width), np.uint8)
    _check_shape(path, "subject", subject, (N_FACES,), np.integer)
    _check_digest(path, "X", digest, data)
    _check_digest(path, "subject", SUBJECT_DIGEST, subject.astype("<i2"))
    return Faces(data, subject.astype(np.int16), image_shape)


def load_piano(folder: str | PathLike[str]) -> Spectra:
    """Spectra of piano recordings: 16,000 frames of 161 frequencies from 0 to 1250 Hz.

    Parameters
    ----------
    folder : path-like
        Where ``piano_16000x161_dft1024.npz`` is: arrays ``X`` (magnitudes of Hann-windowed frames
        of 1024 samples at 8 kHz, 90 ms apart, divided by their root mean square) and ``freqs_hz``.

    Returns
    -------
    Spectra
        ``data`` and the ``frequencies`` of its columns.
    """
    path = Path(folder) / PIANO
    wanted = (
        f"put {PIANO} there, with 16000 spectra of piano recordings (161 magnitudes each) as rows "
        "of X, and freqs_hz"
    )
    found = _arrays(path, ("X", "freqs_hz"), wanted)
    data, frequencies = found["X"], found["freqs_hz"]
    _check_shape(path, "X", data, PIANO_SHAPE, np.float32)
    _check_shape(path, "freqs_hz", frequencies, PIANO_SHAPE[1:], np.floating)
    _check_digest(path, "X", PIANO_DIGEST, data)
    _check_digest(path, "freqs_hz", FREQUENCIES_DIGEST, frequencies.astype("<f4"))
    return Spectra(data, frequencies)


def load_flickr_tags(folder: str | PathLike[str]) -> Tags:
    """Tags of MIRFlickr-25k: 20,015 images, 1,386 tags, a third of a percent of them ones.

    Parameters
    ----------
    folder : path-like
        Where ``mirflickr25k_tags_csr.npz`` is, a sparse matrix of scipy, and
        ``mirflickr25k_tags_meta.npz`` with the names of its columns, ``tags``.

    Returns
    -------
    Tags
        ``data``, sparse, and the ``names`` of its columns.
    """
    path = Path(folder) / TAGS
    wanted = (
        f"put {TAGS} and {TAG_NAMES} there, with the image-tag indicators of MIRFlickr-25k "
        "(Huiskes and Lew 2008), 20015 x 1386, and their tags"
    )
    with _opened(path, wanted):
        data = sparse.csr_matrix(sparse.load_npz(path))
    data.sort_indices()
    _check_shape(path, "the matrix", data, TAGS_SHAPE, np.uint8)
    parts = (data.indptr.astype("<i8"), data.indices.astype("<i8"), data.data.astype(np.uint8))
    _check_digest(path, "the matrix", TAGS_DIGEST, *parts)
    path = Path(folder) / TAG_NAMES
    names = _arrays(path, ("tags",), wanted)["tags"]
    _check_shape(path, "tags", names, TAGS_SHAPE[1:], np.str_)
    joined = "\n".join(names.tolist()).encode()
    _check_digest(path, "tags", NAMES_DIGEST, np.frombuffer(joined, dtype=np.uint8))
    return Tags(data, names)


@contextmanager
def _opened(path: Path, wanted: str) -> Iterator[Any]:
    """An .npz file; whatever is wrong with it becomes a sentence."""
    if not path.exists():
        raise DataFileError("is not there", wanted, file=path)
    try:
        file = np.load(path, allow_pickle=False)
        if not isinstance(file, np.lib.npyio.NpzFile):
            raise ValueError("it holds a single array, as .npy files do")
        with file:
            yield file
    except UNREADABLE as error:
        raise DataFileError(f"cannot be read: {error}", wanted, file=path) from error


def _arrays(path: Path, names: tuple[str, ...], wanted: str) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an .npz file."""
    with _opened(path, wanted) as file:
        return {name: file[name] for name in names}


def _check_shape(path: Path, name: str, data: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Refuse an array of another shape or type."""
    if data.shape == shape and np.issubdtype(data.dtype, dtype):
        return
    found = " x ".join(map(str, data.shape)) + " entries" if data.shape else "a single entry"
    kind = np.dtype(dtype).name if dtype not in ABSTRACT else ABSTRACT[dtype]
    raise DataFileError(
        f"holds {found} of type {data.dtype} as {name}",
        f"it should be {' x '.join(map(str, shape))} of type {kind}",
        file=path,
    )


def _check_digest(path: Path, name: str, digest: str, *parts: npt.NDArray[Any]) -> None:
    """Refuse others than the results were made with."""
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(part).data)
    if found.hexdigest() != digest:
        raise DataFileError(
            f"holds something else as {name}: its SHA-256 begins with {found.hexdigest()[:12]}",
            f"that of the data of the results with {digest[:12]}",
            file=path,
        )
