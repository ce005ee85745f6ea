"""The method that the documentation adds, added while tests run."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ibp
from ibp.registry import CARDS, METHODS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "adding_a_method.md"
BLOCK = re.compile(r"^```python\n(?P<code># (?P<file>src/ibp/\S+)\n.*?)^```$", re.M | re.S)
MODULE = re.compile(r"# src/ibp/(?P<package>\w+)/(?P<name>\w+\.py)\n")


def files_of_the_page() -> dict[str, str]:
    """The blocks that say in which file they stand, by its name."""
    return {found["file"]: found["code"] for found in BLOCK.finditer(PAGE.read_text("utf-8"))}


def write_module(code: str, folder: Path) -> bool:
    """Write a block that is a file of a package of ours where Python finds it, if it is one."""
    found = MODULE.match(code)
    if found is None:
        return False
    place = folder / found["package"]
    place.mkdir(exist_ok=True)
    (place / found["name"]).write_text(code, encoding="utf-8")
    paths = importlib.import_module(f"ibp.{found['package']}").__path__
    if str(place) not in paths:
        paths.append(str(place))
    importlib.invalidate_caches()
    return True


def add(folder: Path) -> None:
    """Add the method, by what the page shows and nothing else."""
    for code in files_of_the_page().values():
        if not write_module(code, folder):
            exec(code, {})


@contextmanager
def methods_forgotten() -> Iterator[None]:
    """Forget in the end what was added."""
    cards, methods = dict(CARDS), dict(METHODS)
    packages = [importlib.import_module(f"ibp.{name}") for name in ("methods", "estimators")]
    paths = [list(package.__path__) for package in packages]
    try:
        yield
    finally:
        for name in set(CARDS) - set(cards):
            vars(ibp).pop(name, None)
        for known, before in ((CARDS, cards), (METHODS, methods)):
            known.clear()
            known.update(before)
        for package, before in zip(packages, paths, strict=True):
            for place in map(Path, package.__path__[len(before) :]):
                for path in place.glob("*.py"):
                    sys.modules.pop(f"{package.__name__}.{path.stem}", None)
                    vars(package).pop(path.stem, None)
            package.__path__[:] = before
