"""Writing a file all or nothing. This needs the standard library only."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO

# So many characters of a file's name are in that of the unfinished one; names have a longest.
MOST_OF_NAME = 40
# What is said, beside an error, of the file that was to be replaced.
UNCHANGED = "the file that was there before is unchanged"


@contextlib.contextmanager
def atomic(path: str | PathLike[str], *, force: bool = False) -> Iterator[BinaryIO]:
    """Open a new file for writing, which takes its name only when all has been written.

    The bytes go to a hidden file beside the target. If the block fails or is interrupted, that file
    is removed, and the target is what it was. Of a link, the file that it points to is written.
    A target that exists, even since the block began, raises FileExistsError without ``force``, and
    also with it if it is not an ordinary file. An error for which a file that is there was left as
    it was says so in a note.
    """
    target = Path(os.path.realpath(path))
    there = os.path.lexists(target)
    if there and not (force and target.is_file()):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    temporary = target.with_name(f"{_beginning(target)}{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if force:
            with contextlib.suppress(FileNotFoundError):
                temporary.chmod(target.stat().st_mode & 0o777)
            temporary.replace(target)
        else:
            _take_free_name(temporary, target)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename = str(path)  # the name that people know
        if there:
            error.add_note(UNCHANGED)
        raise
    finally:
        temporary.unlink(missing_ok=True)


def remove_leftovers(path: str | PathLike[str]) -> None:
    """Remove what processes that were killed while they wrote this file have left beside it."""
    target = Path(os.path.realpath(path))
    unfinished = re.compile(rf"{re.escape(_beginning(target))}[0-9a-f]{{12}}\.tmp")
    with contextlib.suppress(OSError):
        for entry in target.parent.iterdir():
            if unfinished.fullmatch(entry.name):
                entry.unlink(missing_ok=True)


def _beginning(target: Path) -> str:
    """How the names of its unfinished files begin, and those of no other file."""
    return f".ibp-{target.name[:MOST_OF_NAME]}-{zlib.crc32(os.fsencode(target.name)):08x}-"


def _take_free_name(temporary: Path, target: Path) -> None:
    """Give a finished file its name, or raise FileExistsError if another has it by now."""
    try:
        os.link(temporary, target)  # unlike a rename, never replaces
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        target.touch(exist_ok=False)  # the name is ours from here on, so a rename takes no one's
        try:
            temporary.replace(target)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
