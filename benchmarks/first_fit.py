"""What a machine's first fit waits for.

A default fit of 300 digits in a process of its own, with an empty cache of compiled code and again
with the cache that it left: the difference is compilation. Median of several.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

import common

FIT = """
import time
from sklearn.datasets import load_digits
import ibp
X = load_digits().data[:300] / 16.0
started = time.perf_counter()
ibp.MEIBP(random_state=0).fit(X)
print(time.perf_counter() - started)
"""


def seconds(cache: str) -> float:
    """How long a fit takes with a folder of compiled code."""
    command = [sys.executable, "-W", "ignore", "-c", FIT]
    environment = os.environ | {"NUMBA_CACHE_DIR": cache}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    parser = common.parser("first_fit", __doc__)
    arguments = parser.parse_args()
    first, later = [], []
    for _ in range(1 if arguments.quick else 3):
        with tempfile.TemporaryDirectory() as cache:
            first.append(seconds(cache))
            later.append(seconds(cache))
    medians = statistics.median(first), statistics.median(later)
    print(f"first fit {medians[0]:.1f} s, later {medians[1]:.2f} s")
    common.save("first_fit", arguments, first=first, later=later)


if __name__ == "__main__":
    main()
