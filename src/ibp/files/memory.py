"""How much memory there is, and which data are better left on disk."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from ibp.data.stored import ReadAhead

# Data that take more than this part of the memory that is free are read block by block.
PART_OF_MEMORY = 0.5
# Where Linux says what a group of processes may have, and what it has.
GROUP_LIMITS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_memory() -> int | None:
    """Bytes that could be had now without another program giving up any; None if unknown."""
    known = [_of_the_machine(), *(_of_the_group(*files) for files in GROUP_LIMITS)]
    return min((size for size in known if size is not None), default=None)


def _of_the_machine() -> int | None:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError):
        pass
    try:  # of all there is a half, where no more is known
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    except (AttributeError, ValueError, OSError):
        return None


def _of_the_group(limit: str, used: str) -> int | None:
    try:
        return max(int(Path(limit).read_text()) - int(Path(used).read_text()), 0)
    except (OSError, ValueError):
        return None


def is_too_large(values: Any) -> bool:
    """Whether a mapped array or the rows of a source would take more memory than is good."""
    available = available_memory()
    if isinstance(values, ReadAhead):
        needed = int(values.stored.bytes_of_rows()[-1])
    else:
        needed = values.shape[0] * values.shape[1] * values.dtype.itemsize
    return available is not None and needed > PART_OF_MEMORY * available
