"""A folder of images of one size: one row per image, one column per pixel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from ibp.errors import DataFileError
from ibp.files.checks import new_matrix
from ibp.files.options import Options
from ibp.files.table import Table

ENDINGS = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".webp"}


def read(path: Path, options: Options) -> Table:
    """Read all images of a folder in grey, in the order of their names.

    Grey values are kept as they are, 0 to 255 in most files, as float32.
    """
    options.refuse("header", "index", "key")
    files = _images_in(path)
    first = _grey(files[0])
    values = new_matrix(len(files), first.size, np.float32)
    for row, file in enumerate(files):
        image = _grey(file) if row else first
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
    return Table(values, names, image_shape=first.shape)


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


def _grey(file: Path) -> Any:
    """The grey values of an image."""
    from PIL import Image, ImageOps

    try:
        with Image.open(file) as image:
            upright = ImageOps.exif_transpose(image)
            # Deep images would be cut off at 255.
            deep = upright.mode.startswith(("I", "F"))
            return np.asarray(upright if deep else upright.convert("L"))
    except PermissionError:
        raise
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataFileError(
            "is not an image that can be read, or it is damaged",
            "save it again or remove it",
            file=f"{file.parent.name}/{file.name}",
        ) from error


def _size(image: Any) -> str:
    """Width and height, as people give them."""
    return f"{image.shape[1]} x {image.shape[0]}"
