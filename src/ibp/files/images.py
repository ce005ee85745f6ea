"""A folder of images of one size: one row per image, one column per pixel."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ibp.errors import DataFileError, counted
from ibp.files.checks import new_matrix
from ibp.files.options import Options
from ibp.files.table import Table

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".webp"}


def read(path: Path, options: Options) -> Table:
    """Read all images of a folder in grey, in the order of their names.

    Grey values are kept as they are, 0 to 255 in most files, as float32.
    """
    options.refuse("header", "index", "key", "decimal")
    files = _images_in(path)
    first, coloured = _grey(files[0])
    values = new_matrix(len(files), first.size, np.float32)
    n_coloured = int(coloured)
    for row, file in enumerate(files):
        image = first
        if row:
            image, coloured = _grey(file)
            n_coloured += coloured
        if image.shape != first.shape:
            raise DataFileError(
                f"has images of different sizes: {files[0].name} is {_size(first)} and "
                f"{file.name} is {_size(image)} pixels",
                "bring all to one size",
            )
        if image.dtype != first.dtype:
            raise DataFileError(
                f"has images of different depths: {files[0].name} has {first.dtype} and "
                f"{file.name} {image.dtype} pixels",
                "save all in one format",
            )
        values[row] = image.ravel()
    names = [file.name for file in files]
    told: tuple[str, ...] = ()
    if n_coloured:
        which = f"{counted(n_coloured, 'image')} {'is' if n_coloured == 1 else 'are'}"
        told = (
            f"{which} in colour, and read in grey; for their channels, save an array with a "
            "row for each image and a column for each pixel and channel as .npy.",
        )
    return Table(values, names, image_shape=first.shape, guesses=told)


def _images_in(path: Path) -> list[Path]:
    """The images of a folder by name, numbers in names by their size."""
    entries = [entry for entry in path.iterdir() if not entry.name.startswith(".")]
    files = [entry for entry in entries if entry.suffix.lower() in ENDINGS and entry.is_file()]
    if files:
        return sorted(files, key=_natural_order)
    folders = sorted(entry.name for entry in entries if entry.is_dir())
    cure = f"is it its folder {folders[0]} that you mean?" if folders else "give one that does"
    raise DataFileError("is a folder that holds no images", cure, file=path)


def _natural_order(file: Path) -> Any:
    """Names in the order in which people count: 2 before 10."""
    parts = re.split(r"(\d+)", file.name.lower())
    return [int(part) if part.isdecimal() else part for part in parts], file.name


def _grey(file: Path) -> tuple[Any, bool]:
    """The grey values of an image, and whether it was in colour."""
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(file) as image:
                upright = ImageOps.exif_transpose(image)
                # Deep images would be cut off at 255.
                deep = upright.mode.startswith(("I", "F"))
                grey = np.asarray(upright if deep else upright.convert("L"))
                return grey, not deep and _has_colour(upright)
    except PermissionError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise DataFileError(
            f"is an image of more than {Image.MAX_IMAGE_PIXELS or 0:,} pixels, too large for a row",
            "make it smaller or remove it",
            file=f"{file.parent.name}/{file.name}",
        ) from error
    except (OSError, SyntaxError, ValueError) as error:
        raise DataFileError(
            "is not an image that can be read, or it is damaged",
            "save it again or remove it",
            file=f"{file.parent.name}/{file.name}",
        ) from error


def _has_colour(image: Any) -> bool:
    """Whether the channels of an image differ anywhere."""
    if image.mode in ("1", "L", "LA"):
        return False
    red, green, blue = (np.asarray(part) for part in image.convert("RGB").split())
    return bool((red != green).any() or (green != blue).any())


def _size(image: Any) -> str:
    """Width and height, as people give them."""
    return f"{image.shape[1]} x {image.shape[0]}"
