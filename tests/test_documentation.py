"""What README, documentation and docstrings show is what happens."""

from __future__ import annotations

import doctest
import importlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import ibp
from added_method import write_module
from ibp.registry import CARDS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
SOURCE = ROOT / "src"
MADE = ("_build", "generated", "gallery")  # by Sphinx, from what is tested here
PAGES = [
    ROOT / "README.md",
    *sorted(p for p in DOCS.rglob("*.md") if not set(MADE) & set(p.relative_to(DOCS).parts)),
]
# What contributors read.
NOTES = [ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md"]

# Commands that a page may show although they cannot run in a test, and why.
NOT_RUN = {
    "make demo": "installs into .venv",
    "make test": "runs these tests",
    "pip install .": "installs",
    'pip install ".[plot,cli]"': "installs",
    'pip install ".[plot,cli,anndata,hdf5,zarr,arviz,dask]"': "installs",
    "ibp demo": "opens nothing, but takes its time: tested with the command line",
    "ibp --install-completion": "changes the user's shell",
}
BLOCK = re.compile(
    r"^(?P<fence>`{3,})(?P<tag>\S*)[^\n]*\n(?P<body>.*?)^(?P=fence)\s*$", re.M | re.S
)
EXIT_CODE = re.compile(r"#\s*exit code (\d+)\s*$")
COMMENT = re.compile(r"\s+#\s.*$")
NUMBER = re.compile(r"[-+]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?%?")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page: its language, its text and the line it starts on."""

    tag: str
    text: str
    line: int


def blocks_of(page: Path) -> list[Block]:
    """The page's blocks in order; directives of Sphinx are not code."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(found["tag"], found["body"], text.count("\n", 0, found.start("body")))
        for found in BLOCK.finditer(text)
        if not found["tag"].startswith("{")
    ]


def commands_of(block: Block) -> list[str]:
    """Its command lines, continued ones joined; in a ``console`` block those after a prompt."""
    lines = block.text.replace("\\\n", " ").splitlines()
    if block.tag == "console":
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    return [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]


def run_command(line: str, folder: Path) -> str:
    """Run a line of `ibp` in a folder as a shell would, and return what it prints."""
    expected = EXIT_CODE.search(line)
    code = int(expected[1]) if expected else 0
    finished = subprocess.run(
        ["bash", "-c", f'set -o pipefail; ibp() {{ "$PYTHON" -m ibp "$@"; }}; {line}'],
        cwd=folder,
        env=os.environ | {"PYTHON": sys.executable, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert finished.returncode == code, f"{line}\n{finished.stdout}{finished.stderr}"
    assert "Traceback" not in finished.stderr
    return finished.stdout if code == 0 else finished.stdout + finished.stderr


def alike(shown: str, printed: str) -> bool:
    """Whether a word of the output is the one shown; ``...`` is anything.

    Small whole numbers must be the same, others may differ by a fifth, as they do between machines.
    """
    if shown == "..." or shown == printed:
        return True
    if NUMBER.sub("0", shown) != NUMBER.sub("0", printed):
        return False
    pairs = zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True)
    return all(close(*pair) for pair in pairs)


def close(shown: str, printed: str) -> bool:
    a, b = (float(number.replace(",", "").rstrip("%")) for number in (shown, printed))
    exact = re.fullmatch(r"[-+]?\d", shown) is not None
    return a == b if exact else abs(a - b) <= 0.02 + 0.2 * abs(a)


def check_output(shown: str, printed: str) -> None:
    """The lines shown are the lines printed; a line ``...`` stands for any number of them."""
    remaining = [line.split() for line in printed.splitlines() if line.strip()]
    skipping = False
    for line in (line.split() for line in shown.splitlines() if line.strip()):
        if line == ["..."]:
            skipping = True
            continue
        while skipping and remaining and not same_line(line, remaining[0]):
            remaining.pop(0)
        assert remaining, f"{' '.join(line)!r} is not in the output:\n{printed}"
        assert same_line(line, remaining[0]), f"shown:\n{shown}\nprinted:\n{printed}"
        remaining.pop(0)
        skipping = False
    assert skipping or not remaining, f"not shown: {remaining}\nprinted:\n{printed}"


def same_line(shown: list[str], printed: list[str]) -> bool:
    return len(shown) == len(printed) and all(map(alike, shown, printed))


@pytest.mark.usefixtures("methods_forgotten")
# A limit of features that is told so that an example is short may be in the way of one more.
@pytest.mark.filterwarnings("ignore:n_components=:UserWarning")
@pytest.mark.filterwarnings("ignore:X has columns whose spreads")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(page, tmp_path, monkeypatch, capsys):
    """Python in one namespace and commands in one folder, in the order of the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for block in blocks_of(page):
        if block.tag == "python" and write_module(block.text, tmp_path):
            printed = None
        elif block.tag == "python":
            code = "\n" * block.line + block.text  # so that a traceback names the page's line
            exec(compile(code, str(page), "exec"), namespace)
            printed = capsys.readouterr().out
        elif block.tag in ("sh", "console"):
            lines = [line for line in commands_of(block) if COMMENT.sub("", line) not in NOT_RUN]
            for line in lines:
                assert line.startswith("ibp "), f"{line!r} is neither run nor in NOT_RUN"
            printed = "".join(run_command(line, tmp_path) for line in lines)
        elif block.tag == "text":
            if printed is not None:
                check_output(block.text, printed)
            printed = None
        else:
            raise AssertionError(f"line {block.line}: {block.tag!r} is no language of ours")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_hides_from_the_tests(page):
    """Blocks that are indented, or fenced in another way, would be shown and not run."""
    text = page.read_text(encoding="utf-8")
    assert not re.search(r"^[\s>*-]*(`{3}|~{3})", BLOCK.sub("", text), re.M)
    assert not re.search(r"\{(code|code-block|code-cell|doctest|literalinclude)\}", text)


def test_the_exceptions_are_needed():
    shown = {COMMENT.sub("", c) for page in PAGES for b in blocks_of(page) for c in commands_of(b)}
    assert set(NOT_RUN) <= shown


def test_the_readme_is_short():
    blocks = [block for block in blocks_of(ROOT / "README.md") if block.tag == "python"]
    assert blocks
    assert all(len(block.text.strip().splitlines()) <= 11 for block in blocks)


def test_output_is_compared():
    check_output("K = 52, 90%\n...\nend", "K = 50, 88%\nmore\nand more\nend\n")
    for shown, printed in [
        ("K = 52", "K = 30"),
        ("K = 5", "K = 4"),
        ("K = 52", "L = 52"),
        ("a", "a\nb"),
        ("a\nb", "a"),
    ]:
        with pytest.raises(AssertionError):
            check_output(shown, printed)


def test_links_to_files_lead_somewhere():
    """Outside the documentation, whose links Sphinx follows."""
    for page in ROOT.glob("*.md"):
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s#]+)", text):
            assert "://" in target or (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", [*PAGES, *NOTES], ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_pages_name_are_there(page):
    """Named from the root, from a folder in it, or from the package."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    folders = [page.parent, ROOT, ROOT / "tests", SOURCE, SOURCE / "ibp"]
    for name in re.findall(r"`([\w/]+(?:\.py|/))`", text):
        assert any((folder / name).exists() for folder in folders), name


def modules_with_examples() -> list[str]:
    """Every module whose docstrings have examples."""
    return sorted(
        ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        for path in (SOURCE / "ibp").rglob("*.py")
        if ">>>" in path.read_text(encoding="utf-8")
    )


@pytest.mark.parametrize("name", modules_with_examples())
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.ELLIPSIS)
    assert result.attempted > 0
    assert result.failed == 0


def reference() -> list[str]:
    """The full names that the API reference lists."""
    names, module = [], ""
    for line in (DOCS / "api" / "index.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule:: "):
            module = line.split()[-1]
        elif re.fullmatch(r"   [A-Za-z_][\w.]*", line):
            names.append(f"{module}.{line.strip()}")
        elif line.startswith(".. py:data:: "):
            names.append(line.split()[-1])
    return names


def resolve(name: str) -> object:
    """The object of a full name."""
    found: object = ibp
    path = "ibp"
    for part in name.split(".")[1:]:
        path = f"{path}.{part}"
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(path)
    return found


@pytest.mark.parametrize("name", reference())
def test_the_reference_lists_what_exists(name):
    assert (getattr(resolve(name), "__doc__", "") or "").strip()


def test_the_reference_is_complete():
    listed = reference()
    objects = {id(resolve(name)) for name in listed}
    assert len(objects) == len(listed)
    for name in ibp.__all__:
        found = getattr(ibp, name)
        public = [(name, found)] if callable(found) else _public_members(found)
        missing = [name for name, member in public if id(member) not in objects]
        assert not missing, missing


def _public_members(module: object) -> list[tuple[str, object]]:
    """Functions and classes that a module says are public."""
    members = [(name, getattr(module, name)) for name in getattr(module, "__all__", [])]
    return [(name, member) for name, member in members if callable(member)]


# What people meet first has an example each.
FIRST_MET = ["ibp.fit", "ibp.load", *(f"ibp.{name}" for name in CARDS)]


@pytest.mark.parametrize("name", FIRST_MET)
def test_what_people_meet_first_has_an_example(name):
    assert ">>>" in (resolve(name).__doc__ or "")
