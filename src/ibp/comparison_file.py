"""The checkpoint of a comparison: the fits that are done."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ibp.atomic_files import remove_leftovers
from ibp.checkpoints import COMPARISON, Identity, being_read, not_written, read, write
from ibp.data import Fingerprint, as_source, summarize
from ibp.errors import CheckpointError, counted
from ibp.validation import level_of_user

if TYPE_CHECKING:
    from ibp.comparison import Comparison


class ComparisonFile:
    """Keeps what a comparison has found.

    Parameters
    ----------
    path : path-like or None
        The file; None keeps nothing.
    settings : dict
        What the comparison depends on, in plain values.
    X : ndarray of shape (n_samples, n_features)
        Its data.
    """

    def __init__(
        self,
        path: str | PathLike[str] | None,
        settings: Mapping[str, Any],
        X: npt.NDArray[np.floating],
    ) -> None:
        self.path = None if path is None else Path(path)
        self.seconds_before = 0.0
        self.started = time.perf_counter()  # less these
        if self.path is not None:
            source = as_source(X)
            self.identity = Identity(settings, Fingerprint.of(source, summarize(source)))

    def begin(self, empty: Comparison, *, resume: bool) -> Comparison:
        """The comparison to go on from, or the empty one, which is written down.

        A comparison that has not ended is not replaced.
        """
        if self.path is None:
            return empty
        if os.path.lexists(self.path):
            header, arrays = read(self.path, COMPARISON)
            if resume:
                with being_read(self.path, COMPARISON):
                    self.identity.check(header, arrays, self.path)
                    self.seconds_before = header["seconds"]
                    self.started -= self.seconds_before
                    return type(empty).from_dict(header["result"])
            if not header["finished"]:
                done = counted(len(header["result"].get("fits", ())), "fit")
                raise CheckpointError(
                    f"is there already, and holds {done} of a comparison that has not ended",
                    "Set resume=True to go on from there; to begin anew remove it, or name another "
                    "file",
                    file=self.path,
                )
        remove_leftovers(self.path)
        self._write(self.path, empty, finished=False)
        return empty

    def keep(self, comparison: Comparison, *, finished: bool = False) -> None:
        """Write down what there is by now; if that is not possible, say so and go on."""
        if self.path is None:
            return
        try:
            self._write(self.path, comparison, finished=finished)
        except OSError as error:
            warnings.warn(not_written(self.path, error), stacklevel=level_of_user())

    def _write(self, path: Path, comparison: Comparison, *, finished: bool) -> None:
        header = {
            "finished": finished,
            "seconds": time.perf_counter() - self.started,
            "result": comparison.to_dict(),
        }
        write(path, COMPARISON, self.identity, header, {})
