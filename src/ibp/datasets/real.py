"""The real data of the paper's figure 4, or the nearest that is public, from a folder.

Nothing is downloaded and none of it comes with the library. Each loader says which file it wants,
and holds what it finds to the shape and the checksum of the data that the results were made with.
"""

from __future__ import annotations

import hashlib
import zipfile
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
PIANO = "piano_16000x161_dft1024.npz"
PIANO_SHAPE = (16000, 161)
PIANO_DIGEST = "34313e96ab19b95e6dbbb98ca82da86ea31dd6374f5a365b1e732eb032ddb36d"
TAGS, TAG_NAMES = "mirflickr25k_tags_csr.npz", "mirflickr25k_tags_meta.npz"
TAGS_SHAPE = (20015, 1386)
TAGS_DIGEST = "32df0e2b291960825cbd1ea454de9593b7fd118bce37c5487748c5069e7633b9"


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
    found = _arrays(Path(folder) / name, ("X", "subject"), wanted)
    data = found["X"]
    _check(Path(folder) / name, data, (N_FACES, height * width), np.uint8, digest, data)
    return Faces(data, found["subject"].astype(np.int16), image_shape)


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
    _check(path, found["X"], PIANO_SHAPE, np.float32, PIANO_DIGEST, found["X"])
    return Spectra(found["X"], found["freqs_hz"])


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
    if not path.exists():
        raise DataFileError("is not there", wanted, file=path)
    try:
        data = sparse.csr_matrix(sparse.load_npz(path))
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataFileError(f"cannot be read: {error}", wanted, file=path) from error
    data.sort_indices()
    parts = (data.indptr.astype("<i8"), data.indices.astype("<i8"), data.data.astype(np.uint8))
    _check(path, data, TAGS_SHAPE, np.uint8, TAGS_DIGEST, *parts)
    return Tags(data, _arrays(Path(folder) / TAG_NAMES, ("tags",), wanted)["tags"])


def _arrays(path: Path, names: tuple[str, ...], wanted: str) -> dict[str, npt.NDArray[Any]]:
    """Arrays of an .npz file."""
    if not path.exists():
        raise DataFileError("is not there", wanted, file=path)
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in names}
    except (ValueError, OSError, KeyError, zipfile.BadZipFile) as error:
        raise DataFileError(f"cannot be read: {error}", wanted, file=path) from error


def _check(
    path: Path,
    data: Any,
    shape: tuple[int, int],
    dtype: type[np.generic],
    digest: str,
    *parts: npt.NDArray[Any],
) -> None:
    """Refuse data of another shape or type, and others than the results were made with."""
    if data.shape != shape or data.dtype != dtype:
        raise DataFileError(
            f"holds {data.shape[0]} x {data.shape[-1]} entries of type {data.dtype}",
            f"it should be {shape[0]} x {shape[1]} of type {np.dtype(dtype)}",
            file=path,
        )
    found = hashlib.sha256()
    for part in parts:
        found.update(np.ascontiguousarray(part).data)
    if found.hexdigest() != digest:
        raise DataFileError(
            f"holds other numbers: their SHA-256 begins with {found.hexdigest()[:12]}",
            f"that of the data of the results with {digest[:12]}",
            file=path,
        )
