"""A method is its file, its estimator and its card, and nothing else knows it by name."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

import added_method
import ibp
from ibp.registry import CARDS, COMPARED, COMPARED_BY_COMMAND, DEFAULT_METHOD, METHODS, card_of

TESTS = Path(__file__).resolve().parent
SOURCE = TESTS.parent / "src" / "ibp"
# Where methods have names.
AT_HOME = ("methods", "estimators", "registry.py")
# Each figure of the paper is about methods that it names; what runs the figures is about none.
ABOUT_THE_PAPER = (
    *("figure_1", "figure_2", "figure_3_small", "figure_3_large", "table_1", "learning_k"),
    *("figure_4_piano", "figure_4_flickr", "figure_4_yale"),
    *("synthetic", "real_data", "pictures"),
)
# A name that stands elsewhere, and why.
ALLOWED = {
    ("plots/checks.py", "MEIBP"): "an example in the sentence about what is no model",
}


@pytest.fixture
def added(methods_forgotten, tmp_path):
    """The method of the documentation's page."""
    added_method.add(tmp_path)
    return CARDS["HardMAP"]


@pytest.fixture
def data():
    X, *_ = ibp.datasets.make_block_images(60, noise_std=0.1, random_state=0)
    return X.clip(min=0)


def run_with_the_method(folder, code, *arguments):
    """Run a program of its own in which the method has been added."""
    start = (
        f"from pathlib import Path\nimport added_method\nadded_method.add(Path({str(folder)!r}))\n"
    )
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    finished = subprocess.run(
        [sys.executable, "-c", start + code, *map(str, arguments)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_a_method_is_three_things():
    assert list(added_method.files_of_the_page()) == [
        "src/ibp/methods/hard_map.py",
        "src/ibp/estimators/hard_map.py",
        "src/ibp/registry.py",
    ]


def test_the_library_knows_it(added, data, tmp_path):
    assert ibp.HardMAP is added.estimator
    assert "hard-map" in METHODS and "HardMAP" in repr(METHODS["hard-map"])
    model = ibp.fit(data, method="hard-map", n_components=4, random_state=0)
    assert type(model) is ibp.HardMAP
    model.save(tmp_path / "model.ibp")
    loaded = ibp.load(tmp_path / "model.ibp")
    assert type(loaded) is ibp.HardMAP
    np.testing.assert_array_equal(loaded.transform(data), model.transform(data))
    page = ibp.report.write_report(loaded, data, tmp_path / "page.html").read_text("utf-8")
    assert "Hard MAP finds the most probable features and patterns." in page
    assert "For this method it is the probability of the data and the features together" in page
    assert "ibp fit DATA --method hard-map --components 4 --restarts 5" in page
    compared = ibp.comparison.compare(data, ["hard-map"], n_components=4, time_limit=5.0)
    assert [place.label for place in compared.ranking()] == ["hard-map"]
    axes = ibp.plots.evidence(model, ax=Figure().subplots())
    assert axes.get_ylabel() == added.objective


def test_the_command_line_knows_it(data, tmp_path):
    np.save(tmp_path / "data.npy", data)
    command = "import sys\nfrom ibp.cli.app import run\nsys.exit(run(sys.argv[1:]))"
    printed = run_with_the_method(
        tmp_path, command, "fit", "data.npy", "--method", "hard-map", "-k", "4"
    )
    assert "features" in printed and (tmp_path / "data.ibp").exists()
    assert "HardMAP" in run_with_the_method(tmp_path, command, "info", "data.ibp")
    assert "hard-map" in run_with_the_method(tmp_path, command, "fit", "--help")


def test_the_contract_holds_it(tmp_path):
    contract = [str(TESTS / "test_contract.py"), "-k", "hard-map or HardMAP"]
    options = ["-vv", "-p", "no:cacheprovider", "-p", "no:xdist"]
    code = f"import sys, pytest\nsys.exit(pytest.main({contract + options}))"
    passed = re.findall(r"::(test_\w+)\S* PASSED", run_with_the_method(tmp_path, code))
    assert {"test_scikit_learns_own_checks", "test_save_and_load"} <= set(passed)
    assert {"test_every_label_fits", "test_unusual_data"} <= set(passed)


def test_it_is_forgotten_again():
    assert "HardMAP" not in CARDS and "hard-map" not in METHODS and not hasattr(ibp, "HardMAP")


def named_in(path, names):
    """Names of methods in a file's code; docstrings and examples of commands are no code."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = set()
    for node in ast.walk(tree):
        first = getattr(node, "body", None)
        if isinstance(first, list) and first and isinstance(first[0], ast.Expr):
            prose.add(first[0].value)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "EXAMPLES":
            prose.update(ast.walk(node))
    for node in set(ast.walk(tree)) - prose:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from names & {word.strip(".") for word in re.split(r"[^\w.+-]+", node.value)}
        elif isinstance(node, ast.Name | ast.alias | ast.Attribute):
            used = {getattr(node, part, None) for part in ("id", "name", "attr")}
            yield from names & used


def test_no_code_elsewhere_names_a_method():
    names = set(CARDS) | set(METHODS)
    found = {
        (str(path.relative_to(SOURCE)), name)
        for path in SOURCE.rglob("*.py")
        if path.relative_to(SOURCE).parts[0] not in AT_HOME
        if not (path.parent.name == "reproduce" and path.stem in ABOUT_THE_PAPER)
        for name in named_in(path, names)
    }
    assert found == set(ALLOWED)


def test_cards_are_true():
    for card in CARDS.values():
        model = card.estimator()
        assert card_of(model) is card
        assert hasattr(model, "burn_in") == hasattr(type(model), "trace_") == card.samples
        assert hasattr(model, "confidence") == (card.codes != "real")
        for label in card.labels:
            assert type(METHODS[label](3)) is card.estimator
    with pytest.raises(AttributeError):
        card.title = "another"


def test_every_field_of_a_card_is_read():
    readers = [path for path in SOURCE.rglob("*.py") if path != SOURCE / "registry.py"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in readers)
    for field in CARDS["MEIBP"]._fields:
        if field != "module":  # by the card itself, to load the class
            assert re.search(rf"(card|card_of\([\w.]+\))\.{field}\b", text), field


def test_extending_a_class_keeps_its_card():
    class Mine(ibp.BNMF):
        pass

    assert card_of(Mine()) is CARDS["BNMF"] and Mine().real_codes
    with pytest.raises(TypeError, match="object has no card"):
        card_of(object())


def test_defaults_are_labels():
    assert {DEFAULT_METHOD, *COMPARED, *COMPARED_BY_COMMAND.split(",")} <= set(METHODS)
