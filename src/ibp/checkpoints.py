"""Checkpoint files: where a fit is between two sweeps, for another process to go on from there.

The file is one zip archive of plain arrays and a JSON header, as model files are; nothing in it is
ever executed, and it is written all or nothing. Beside the position there is what it is a position
of: the settings that change the answer, and what tells the data from others. A fit with others is
refused.
"""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from importlib import metadata
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ibp.archives import members_of, unpacked_size
from ibp.atomic_files import atomic, remove_leftovers
from ibp.data import Fingerprint
from ibp.errors import CheckpointError, CheckpointWarning, counted
from ibp.methods.state import Arrays

FORMAT = "ibp-checkpoint"
VERSION = 1
# Settings that name a difference only once a restart has ended: those that end it.
OF_ENDED_RESTARTS = ("max_iter",)
MISSING = object()
# What there are checkpoints of, and what the header of each has to have, of which type.
FIT, COMPARISON = "fit", "comparison"
COMMON: dict[str, Any] = {"settings": dict, "data": dict, "finished": bool, "seconds": float}
HEADERS: dict[str, dict[str, Any]] = {
    FIT: COMMON
    | {"restart": int, "n_sweeps": int, "generators": list, "best_restart": int, "runs": dict},
    COMPARISON: COMMON | {"result": dict},
}
ANEW = "Give what was given then, or name another file as the checkpoint to begin anew"


@dataclass(frozen=True)
class Identity:
    """What is worked on: plain settings by name, those that change the answer, and the data."""

    settings: Mapping[str, Any]
    data: Fingerprint

    def check(self, header: Mapping[str, Any], arrays: Arrays, path: Path) -> None:
        """Refuse a checkpoint of something else, and say how it differs."""
        before, now = header["settings"], as_json(self.settings)
        names = [*dict.fromkeys([*before, *now])]
        if header.get("restart", 1) == 1:
            names = [name for name in names if name not in OF_ENDED_RESTARTS]
        other = [name for name in names if before.get(name, MISSING) != now.get(name, MISSING)]
        if "estimator" in other:  # others go with it
            other = ["estimator"]
        if other:
            told = (f"{name} was {_told(before, name)} and is {_told(now, name)}" for name in other)
            problem = f"is a checkpoint of a {header['of']} with other settings: {'; '.join(told)}"
            raise CheckpointError(problem, ANEW, file=path)
        shape = (int(header["data"]["shape"][0]), int(header["data"]["shape"][1]))
        kind, digest = str(header["data"]["kind"]), str(header["data"]["digest"])
        sums = (arrays["data.means"], arrays["data.squares"])
        difference = self.data.difference(Fingerprint(shape, kind, digest, *sums))
        if difference:
            problem = f"is a checkpoint of a {header['of']} with other data: they had {difference}"
            raise CheckpointError(problem, ANEW, file=path)

    def written(self) -> tuple[dict[str, Any], Arrays]:
        """The part of a checkpoint's header and arrays that tells what it is of."""
        data = {"shape": self.data.shape, "kind": self.data.kind, "digest": self.data.digest}
        sums = {"data.means": self.data.means, "data.squares": self.data.squares}
        return {"settings": self.settings, "data": data}, sums


@dataclass(frozen=True)
class SavedRun:
    """A run as it is written down: the name of its state's class, and all else as arrays."""

    state_class: str
    ending: str
    state: Arrays
    history: Arrays


@dataclass(frozen=True)
class Position:
    """Where a fit is between two sweeps.

    Attributes
    ----------
    restart : int
        The number of the restart that is going on, from 1.
    n_sweeps : int
        How many sweeps it has made.
    seconds : float
        What the fit has taken so far.
    generators : list of dict
        The states of the generators of all restarts.
    current : SavedRun or None
        The restart that is going on; None if it has not begun.
    best : SavedRun or None
        The best of those that have ended.
    best_restart : int
        Its number, from 1; 0 if there is none.
    observed : dict of arrays
        What observers know of restarts that have ended.
    """

    restart: int
    n_sweeps: int
    seconds: float
    generators: list[dict[str, Any]]
    current: SavedRun | None = None
    best: SavedRun | None = None
    best_restart: int = 0
    observed: Arrays = field(default_factory=dict)

    def told(self) -> str:
        """How far that is, in words."""
        return _told_position(vars(self))


class CheckpointFile:
    """The checkpoint of one fit: what is to be written, and when.

    Parameters
    ----------
    path : path-like
        The file.
    every : float
        Seconds from one checkpoint to the next, at least.
    identity : Identity
        What the fit is of.
    resume : bool
        Whether to go on from the file, if it is there. If not, and it is a checkpoint of a fit that
        has not ended, or no checkpoint at all, it is not replaced but refused.
    warn : callable
        Is given a warning if a checkpoint cannot be written and the fit goes on.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        every: float,
        identity: Identity,
        *,
        resume: bool,
        warn: Callable[[Warning], object],
    ) -> None:
        self.path, self.every, self.identity, self.warn = Path(path), every, identity, warn
        self.position: Position | None = None  # the last that is known, at first to go on from
        self._is_written = self._is_finished = False
        self._written_at: float | None = None  # by the clock; None before the first time
        if os.path.lexists(self.path):
            header, arrays = read(self.path, FIT)
            if resume:
                with self.being_read():
                    identity.check(header, arrays, self.path)
                    self.position = _position(header, arrays)
                self._is_written, self._is_finished = True, header["finished"]
                self._written_at = time.monotonic()
            elif not header["finished"]:
                raise CheckpointError(
                    f"is there already, and holds {_told_position(header)} of a fit that has not "
                    "ended",
                    "Set resume=True to go on from there; to begin anew remove it, or name another "
                    "file",
                    file=self.path,
                )
        remove_leftovers(self.path)

    def being_read(self) -> AbstractContextManager[None]:
        """Within this, whatever goes wrong is the file's fault."""
        return being_read(self.path, FIT)

    @property
    def is_due(self) -> bool:
        """Whether it is time to write.

        The first time is at once: what stands in the way should be known before the work is done.
        """
        return self._written_at is None or time.monotonic() - self._written_at >= self.every

    def keep(self, position: Position) -> None:
        """Remember where the fit is, and write it down if that is due."""
        self.position, self._is_written, self._is_finished = position, False, False
        if self._written_at is None:
            self._write()
        elif self.is_due:
            self.flush()

    def finish(self) -> None:
        """Remember that the fit has ended by itself at the last position."""
        self._is_written, self._is_finished = self._is_finished and self._is_written, True

    def flush(self) -> None:
        """Write down what is not written yet; if that is not possible, say so and go on."""
        if self._is_written or self._written_at is None:  # or it never could be
            return
        try:
            self._write()
        except OSError as error:
            self._written_at = time.monotonic()  # it is tried again, but not after every sweep
            self.warn(not_written(self.path, error))

    def _write(self) -> None:
        if self.position is None:
            return
        header, arrays = _written(self.position)
        header["finished"] = self._is_finished
        write(self.path, FIT, self.identity, header, arrays)
        self._written_at, self._is_written = time.monotonic(), True


def as_json(values: Any) -> Any:
    """Plain values as they are after they were written and read."""
    return json.loads(json.dumps(values))


def write(path: Path, of: str, identity: Identity, header: dict[str, Any], arrays: Arrays) -> None:
    """Write a checkpoint, all or nothing."""
    common = {"format": FORMAT, "version": VERSION, "ibp": metadata.version("ibp"), "of": of}
    settings, sums = identity.written()
    encoded = json.dumps(common | settings | header).encode("utf-8")
    members = arrays | sums | {"header": np.frombuffer(encoded, dtype=np.uint8)}
    assert not any(array.dtype.hasobject for array in members.values())  # nothing to pickle
    with atomic(path, force=True) as file:
        np.savez(file, **members)  # type: ignore[arg-type]


def read(path: Path, of: str) -> tuple[dict[str, Any], Arrays]:
    """Read a checkpoint's header and arrays, or say why not in a sentence."""
    with being_read(path, of):
        with path.open("rb") as file:
            _check_members(file)
            file.seek(0)
            with np.load(file, allow_pickle=False) as members:
                arrays = {name: members[name] for name in members.files}
        header = json.loads(arrays.pop("header").tobytes().decode("utf-8"))
        if header["format"] != FORMAT or header["of"] != of:
            raise ValueError("it is something else")
        version, library = header["version"], header["ibp"]
        for name, kind in HEADERS[of].items():
            if not isinstance(header[name], kind):
                raise TypeError(f"{name} is {header[name]!r}")
    own = metadata.version("ibp")
    if (version, library) != (VERSION, own):
        raise CheckpointError(
            f"was written by ibp {library} (format {version}), and this is ibp {own} "
            f"(format {VERSION}), which may not go on in the same way",
            "Let that version finish, or remove the file to begin anew",
            file=path,
        )
    return header, arrays


def kind_of(path: Path) -> str | None:
    """What a file is a checkpoint of, by its header alone; None if it is none."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open("header.npy") as member:
            header = json.loads(np.lib.format.read_array(member, allow_pickle=False).tobytes())
        return str(header["of"]) if header["format"] == FORMAT else None
    except Exception:  # as with `read`: what is damaged or no archive is none
        return None


@contextmanager
def being_read(path: Path, of: str) -> Iterator[None]:
    """Say of whatever goes wrong that the file is not what it should be: damage has many faces."""
    try:
        yield
    except (CheckpointError, FileNotFoundError, IsADirectoryError, PermissionError):
        raise
    except Exception as error:
        raise CheckpointError(
            f"is not a checkpoint of a {of}, or it is damaged",
            "Name another file, or remove it to begin anew",
            file=path,
        ) from error


def not_written(path: Path, error: OSError) -> CheckpointWarning:
    """The warning for a checkpoint that could not be written."""
    return CheckpointWarning(
        f"could not be written ({error.strerror or error}), and is as it was before: the last "
        "whole checkpoint",
        "What is under way is not affected",
        file=path,
    )


def _told_position(position: Mapping[str, Any]) -> str:
    sweeps = counted(position["n_sweeps"], "sweep")
    return sweeps if position["restart"] == 1 else f"{sweeps} of restart {position['restart']}"


def _told(settings: Mapping[str, Any], name: str) -> str:
    return repr(settings[name]) if name in settings else "not there"


def _check_members(file: BinaryIO) -> None:
    """Refuse, before anything is unpacked, what is damaged or larger than its file."""
    size = os.fstat(file.fileno()).st_size
    if unpacked_size(file) > size:  # we do not compress
        raise ValueError("it would unpack to more than it is")
    file.seek(0)
    if any(member is None or member.dtype.hasobject for member in members_of(file).values()):
        raise ValueError("it has members that are no arrays of numbers or words")
    file.seek(0)
    with zipfile.ZipFile(file) as archive:
        if archive.testzip() is not None:  # reads everything, against its checksums
            raise ValueError("a checksum is wrong")


def _written(position: Position) -> tuple[dict[str, Any], Arrays]:
    """A position as a header and arrays."""
    runs = {"best": position.best, "current": position.current}
    known = {name: run for name, run in runs.items() if run is not None}
    header = {
        "restart": position.restart,
        "n_sweeps": position.n_sweeps,
        "seconds": float(position.seconds),
        "generators": position.generators,
        "best_restart": position.best_restart,
        "runs": {
            name: {"state_class": run.state_class, "ending": run.ending}
            for name, run in known.items()
        },
    }
    arrays = arrays_named("observed", position.observed)
    for name, run in known.items():
        arrays |= arrays_named(f"{name}.state", run.state) | arrays_named(
            f"{name}.history", run.history
        )
    return header, arrays


def _position(header: dict[str, Any], arrays: Arrays) -> Position:
    """What `_written` was made of."""
    runs = {
        name: SavedRun(
            known["state_class"],
            known["ending"],
            arrays_under(f"{name}.state", arrays),
            arrays_under(f"{name}.history", arrays),
        )
        for name, known in header["runs"].items()
    }
    return Position(
        header["restart"],
        header["n_sweeps"],
        header["seconds"],
        header["generators"],
        runs.get("current"),
        runs.get("best"),
        header["best_restart"],
        arrays_under("observed", arrays),
    )


def arrays_named(name: str, arrays: Arrays) -> Arrays:
    """Arrays with a name put before each of theirs."""
    return {f"{name}.{part}": array for part, array in arrays.items()}


def arrays_under(name: str, arrays: Arrays) -> Arrays:
    """The arrays whose names begin with one, by the rest of theirs."""
    return {
        part.removeprefix(f"{name}."): array
        for part, array in arrays.items()
        if part.startswith(f"{name}.")
    }


def generator_state(generator: np.random.Generator) -> dict[str, Any]:
    """All of a generator, in plain values."""
    plain: dict[str, Any] = _plain_state(generator.bit_generator.state)
    return plain


def restore_generator(generator: np.random.Generator, state: dict[str, Any]) -> None:
    """Let a generator go on as another of its kind would have."""
    generator.bit_generator.state = _own_state(state)


def _plain_state(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain_state(part) for name, part in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "values": value.tolist()}
    return int(value) if isinstance(value, np.integer) else value


def _own_state(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if value.keys() == {"dtype", "values"}:
        return np.array(value["values"], dtype=value["dtype"])
    return {name: _own_state(part) for name, part in value.items()}
