"""Archives of arrays, NumPy's ``.npz``, looked at before anything in them is unpacked."""

from __future__ import annotations

import math
import zipfile
from typing import Any, BinaryIO, NamedTuple

import numpy as np

READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
ENDING = ".npy"


class Member(NamedTuple):
    """An array of an archive, as its beginning describes it."""

    shape: tuple[int, ...]
    dtype: Any


def members_of(file: BinaryIO) -> dict[str, Member | None]:
    """The members of an archive by name, of which only the beginnings are read.

    None stands for what is no array, and for one that claims more entries than it holds.
    """
    with zipfile.ZipFile(file) as archive:
        return {
            entry.filename.removesuffix(ENDING): _described(archive, entry)
            for entry in archive.infolist()
        }


def unpacked_size(file: BinaryIO) -> int:
    """The bytes that all members of an archive have when they are unpacked."""
    with zipfile.ZipFile(file) as archive:
        return sum(entry.file_size for entry in archive.infolist())


def _described(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Member | None:
    if not entry.filename.endswith(ENDING):
        return None
    try:
        with archive.open(entry) as member:
            read_header = READERS[np.lib.format.read_magic(member)]
            shape, _, dtype = read_header(member)
            held = entry.file_size - member.tell()
    except (ValueError, KeyError, RuntimeError, NotImplementedError):  # locked, or packed oddly
        return None
    claimed = math.prod(shape) * dtype.itemsize
    return Member(shape, dtype) if dtype.hasobject or claimed <= held else None
