"""The declared order of the layers: a module imports from its own layer or a lower one only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

import ibp

ROOT = Path(ibp.__file__).resolve().parent
NOTES = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"

# The lowest layer first. A name stands for a module or a package below `ibp` with all it holds;
# the longest name that fits a module counts.
LAYERS = (
    (
        "compiled",
        "blas",
        "random_state",
        "parallel",
        "workers",
        "errors",
        "atomic_files",
        "archives",
        "clock",
    ),
    ("submodular",),
    ("data",),
    ("model",),
    ("kernels",),
    ("starts",),
    ("methods",),
    ("stopping", "checkpoints", "runs", "loop"),
    (
        "evaluate",
        "estimators",
        "persistence",
        "registry",
        "validation",
        "agreement",
        "comparison",
        "comparison_file",
        "traces",
        "datasets",
    ),
    # The last two are the names that users import, and `python -m ibp`.
    ("files", "plots", "report", "reproduce", "cli", "__init__", "__main__"),
)


# When an import happens: with that of its module, when a function is called, or for types only.
When = Literal["at once", "later", "never"]


class Import(NamedTuple):
    """One module that another imports."""

    importer: str
    imported: str
    line: int
    when: When


@cache
def modules() -> dict[str, Path]:
    """Every module of the library, named from below `ibp`; a package is its `__init__`."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and parts[1:] else parts)] = path
    return found


def for_typing_only(node: ast.AST) -> bool:
    """Whether a statement is ``if TYPE_CHECKING:``."""
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def statements(tree: ast.AST, when: When = "at once") -> Iterator[tuple[ast.stmt, When]]:
    """The imports of a module, and when they happen."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, when
        inner = when
        if for_typing_only(node):
            inner = "never"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and when == "at once":
            inner = "later"
        yield from statements(node, inner)


def targets(node: ast.stmt) -> Iterator[str]:
    """The modules of the library that a statement imports, named from below `ibp`."""
    known = modules()
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        assert isinstance(node, ast.ImportFrom) and node.level == 0, "imports are absolute"
        # `from ibp.model import factors` imports a module, `... import Factors` a name of one.
        names = [
            inner if inner.removeprefix("ibp.") in known else node.module
            for alias in node.names
            for inner in [f"{node.module}.{alias.name}"]
            if inner != "ibp.__version__"  # it is there before any module is
        ]
    for name in names:
        if name == "ibp":
            yield "__init__"
        elif name.startswith("ibp."):
            assert name.removeprefix("ibp.") in known, f"there is no {name}"
            yield name.removeprefix("ibp.")


def with_packages(imported: str, importer: str) -> Iterator[str]:
    """A module and the packages that Python imports before it, but for the importer's own."""
    parts = imported.split(".")
    for stop in range(1, len(parts)):
        package = ".".join(parts[:stop])
        if not importer.startswith(f"{package}."):
            yield package
    yield imported


@cache
def imports() -> tuple[Import, ...]:
    """All that modules of the library import from one another."""
    return tuple(
        Import(importer, imported, node.lineno, when)
        for importer, path in modules().items()
        for node, when in statements(ast.parse(path.read_text(encoding="utf-8")))
        for target in targets(node)
        for imported in with_packages(target, importer)
        if imported != importer
    )


def layer_of(module: str) -> int:
    """The number of a module's layer."""
    fitting = {
        name: number
        for number, names in enumerate(LAYERS)
        for name in names
        if module == name or module.startswith(f"{name}.")
    }
    assert fitting, f"ibp.{module} has no layer"
    return fitting[max(fitting, key=len)]


def test_every_module_has_a_layer_and_every_layer_modules():
    layers = {layer_of(module) for module in modules()}
    assert layers == set(range(len(LAYERS)))


def test_contributors_are_shown_the_layers():
    shown = [", ".join(name for name in names if "__" not in name) for names in LAYERS]
    assert "\n".join(["```text", *shown, "```"]) in NOTES.read_text(encoding="utf-8")


def test_modules_import_from_their_own_layer_or_lower_ones():
    wrong = [
        f"ibp.{importer}:{line} imports ibp.{imported}"
        for importer, imported, line, _ in imports()
        if layer_of(importer) < layer_of(imported)
    ]
    assert not wrong, "\n".join(wrong)


def reachable(module: str) -> set[str]:
    """All that a module imports, at whatever time, and all that these import."""
    found: set[str] = set()
    waiting = [module]
    while waiting:
        importer = waiting.pop()
        new = {
            imported for own, imported, _, when in imports() if own == importer and when != "never"
        } - found
        found |= new
        waiting += new
    return found


def test_late_imports_that_close_a_circle_have_their_reason_beside_them():
    for importer, imported, line, when in imports():
        if when == "later" and importer in reachable(imported):
            lines = modules()[importer].read_text(encoding="utf-8").splitlines()
            beside = "#" in lines[line - 1] or lines[line - 2].lstrip().startswith("#")
            assert beside, f"ibp.{importer}:{line}"


def test_no_modules_import_each_other_at_once_in_a_circle():
    waiting: dict[str, set[str]] = {module: set() for module in modules()}
    for importer, imported, _, when in imports():
        if when == "at once":
            waiting[importer].add(imported)
    while ready := {module for module, needed in waiting.items() if not needed}:
        waiting = {
            module: needed - ready for module, needed in waiting.items() if module not in ready
        }
    assert not waiting, f"in a circle, or above one: {sorted(waiting)}"
