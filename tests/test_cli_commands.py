"""Each command, called in this process: options, results, files, and every kind of bad input."""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console
from scipy import sparse
from typer.testing import CliRunner

import ibp
from ibp.cli import compare, options
from ibp.cli.app import app
from ibp.cli.data import match_columns
from ibp.cli.fitting import save_model
from ibp.cli.pictures import print_pictures, shrink
from ibp.cli.problems import session
from ibp.cli.progress import LineReporter, Sweep
from ibp.cli.screen import TerminalReporter, sparkline
from ibp.cli.summary import summarize_fit
from ibp.cli.words import duration, number, printable
from ibp.comparison import ComparedFit, Comparison, places
from ibp.errors import InputError, counted
from ibp.files.table import Table
from ibp.report import wording, write_report
from ibp.report.content import gather
from terminal import check_refusal, events_of, in_this_process
from test_report import fit_weighted, make_weighted

COMMANDS = ("fit", "transform", "report", "compare", "info", "simulate", "demo")


@pytest.fixture
def call(capsys, monkeypatch, folder):
    """Call the program as its entry point does, in the folder of the data."""
    monkeypatch.chdir(folder)
    return in_this_process(capsys)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data and a model."""
    path = tmp_path_factory.mktemp("commands")
    X = ibp.datasets.make_block_images(120, noise_std=0.2, random_state=0).data
    names = [f"p{j}" for j in range(36)]
    write_csv(path / "data.csv", X, names)
    X[::7, 3] = np.nan
    write_csv(path / "holes.csv", X, names)
    np.save(path / "data.npy", X)
    model = ibp.MEIBP(random_state=0).fit(X)
    model.feature_names_in_ = np.array(names, dtype=object)
    model.notes_ = {"data": "data.csv"}
    model.save(path / "model.ibp")
    return path


def write_csv(path, X, names):
    cells = [["" if np.isnan(x) else f"{x:.5f}" for x in row] for row in X]
    path.write_text("\n".join(",".join(row) for row in [names, *cells]) + "\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_examples(command):
    printed = CliRunner().invoke(app, [command, "--help"], terminal_width=100).stdout
    assert "Examples" in printed
    assert 2 <= printed.partition("Examples")[2].count(f"ibp {command}") <= 4


def test_no_command_is_a_question_for_help(call):
    finished = call()
    assert finished.returncode == 0
    assert all(command in finished.stdout for command in COMMANDS)
    assert call("--version").stdout == f"ibp {ibp.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["fit"], "Missing argument 'DATA'"),
        (["fit", "data.csv", "--nonsense"], "--nonsense"),
        (["fits"], "'fits'"),
        (["fit", "data.csv", "--time-limit", "soon"], "'soon' is not a time; write 90s, 5m or 1h."),
        (["fit", "data.csv", "--image-shape", "8"], "28x28"),
        (["fit", "data.csv", "--held-out", "1"], "between 0 and 1"),
        (["fit", "data.csv", "--method", "mibp"], "there is no method 'mibp'"),
        (["compare", "data.csv", "--methods", "meibp,x"], "there is no method 'x'"),
        (["compare", "data.csv", "--methods", " , "], "name at least one method of meibp-default"),
        (["fit", "data.csv", "--codes", "real"], "no codes 'real'; choose from binary, weighted"),
        (["fit", "data.csv", "--set", "alpha"], "NAME=VALUE"),
        (["fit", "data.csv", "--seed", "4294967296"], "4294967295"),
        (["compare", "data.csv", "--minutes", "inf"], "--minutes"),
        (["fit", "data.csv", "--set", "alpha=1", "--set", "alpha=2"], "alpha is set twice"),
    ],
)
def test_arguments_that_make_no_sense(call, arguments, words):
    check_refusal(call(*arguments), words, "Try: ibp")
    *_, last = events_of(call(*arguments, "--json").stdout)
    assert last["event"] == "error" and words in last["message"]


def test_help_and_completion_know_the_labels():
    labels = "meibp-default meibp meibp-weighted f-vibp i-vibp aibp t-aibp ugibbs t-ugibbs bs-ibp"
    assert options.method_labels() == [*labels.split(), "inmf", "bnmf", "meibp+aibp"]
    for command in ("fit", "compare"):
        printed = CliRunner().invoke(app, [command, "--help"], terminal_width=100).stdout
        words = printed.replace("\N{BOX DRAWINGS LIGHT VERTICAL}", " ").split()
        assert ", ".join(options.method_labels()) in " ".join(words)
    found = ["meibp-default", "meibp", "meibp-weighted", "meibp+aibp"]
    assert options.complete_method("meibp") == found
    assert options.complete_codes("w") == ["weighted"]
    assert options.complete_methods("meibp,aibp,i") == ["meibp,aibp,i-vibp", "meibp,aibp,inmf"]
    assert "meibp,aibp" not in options.complete_methods("aibp,a")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5 h", 5400), (".5min", 30)]
)
def test_times(text, seconds):
    assert options.parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a=1", 1),
        ("a=1e-3", 1e-3),
        ("a=true", True),
        ("a=None", None),
        ("a=spectral", "spectral"),
        (f"a={100_000 * '-'}1", 100_000 * "-" + "1"),
    ],
)
def test_settings(text, value):
    assert options.parse_setting(text) == ("a", value)


def test_results_go_beside_the_data(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("data.csv.gz", "a.b.npy"):
        (tmp_path / name).touch()
    made = [options.beside(tmp_path / name, ".ibp").name for name in ("data.csv.gz", "a.b.npy")]
    assert made == ["data.ibp", "a.b.ibp"]
    assert options.beside(tmp_path / "images", ".ibp") == tmp_path / "images.ibp"
    assert options.beside(tmp_path / "images" / "..", ".ibp").name == f"{tmp_path.name}.ibp"
    assert options.beside(Path("/"), ".ibp") == Path("/data.ibp")


def test_fit_for_machines(call, folder):
    finished = call(
        "fit", "holes.csv", "-o", "machine.ibp", "--json", "--restarts", 3, "--held-out", 0.2
    )
    assert finished.returncode == 0 and finished.stderr == ""
    events = events_of(finished.stdout)
    sweeps = [event for event in events if event["event"] == "sweep"]
    assert all((event["move"] is None) == (event["move_gain"] is None) for event in sweeps)
    result = events[-1]
    model = ibp.load(folder / "machine.ibp")
    assert {event["restart"] for event in sweeps} == {1, 2, 3}
    assert result["event"] == "result" and result["model"] == "machine.ibp"
    assert result["features"] == model.n_components_ == 4
    assert result["sweeps"] == model.n_iter_ and result["evidence"] == model.evidence_
    restarts = result["restarts"]
    assert restarts["came_back"] == 4 and restarts["similarity"] > 0.95
    spread = max(restarts["evidence"]) - min(restarts["evidence"])
    assert restarts["evidence_spread"] == pytest.approx(spread)
    assert result["limit"] is None
    assert result["held_out"] == model.notes_["held_out"]
    assert 0.4 < result["variance_explained"] < 1  # a third of the columns are nothing but noise
    assert model.notes_["model_file"] == result["model"]
    assert set(model.notes_) == {
        "data_file",
        "model_file",
        "reading",
        "weights_gain",
        "data",
        "method",
        "versions",
        "fitted_at",
        "seconds",
        "held_out",
    }
    assert model.notes_["data"] == "holes.csv"
    # The score of the last sweep of all is that of the fit, if it was the one that was kept.
    assert sweeps[0]["held_out"] is not None
    rows = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    used = model.assignments_.sum(axis=0)
    assert [f["share"] for f in result["most_used"]] == sorted(used / len(rows), reverse=True)


def test_the_terminal_counts_what_came_back_as_the_page_does(folder, tmp_path):
    model = ibp.load(folder / "model.ibp")
    k = model.n_components_
    # In most of the other restarts, one time in all of them and one time in one only.
    model.restart_similarity_ = np.ones((4, k))
    model.restart_similarity_[1:, 0] = [1.0, 1.0, 0.1]
    model.restart_similarity_[1:, 1] = [1.0, 0.1, 0.1]
    model.restart_kept_, model.restart_n_components_ = 0, np.array([k, k, k + 1, k])
    model.restart_evidence_ = model.evidence_ - np.array([0.0, 0.0, 20.0, 0.0])
    model.baseline_evidence_ = float(model.evidence_ - 200.0)
    X = np.load(folder / "data.npy")
    model.n_components, model.limit_gain_ = k, 42.0
    summary = summarize_fit(model, Table(X, None, None, None, "data"), X, None, None, 1.0)
    facts = gather(model, X).facts()
    assert summary.restarts.n_came_back == facts.returned == k - 1
    console = Console(record=True, width=500)
    summary.show_facts(console)
    printed = " ".join(console.export_text().split())
    said = wording.came_back(k - 1, k, 4)
    assert said == f"only {k - 1} of {k} came back in most of the 3 other restarts"
    assert f"agreement {said}; similarity" in printed
    write_report(model, X, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert said.capitalize() in page
    assert f"<strong>{k - 1} of {k}</strong><span>came back in most of the 3 other" in page
    assert f"Of {k} features, {k - 1} came back in most of the 3 other restarts" in page
    assert f"4, with {k} to {k + 1} features and evidence up to 20 nats apart (10.0 % of" in printed
    assert "one more would still gain 42 nats of evidence: raise --components, or leave" in printed
    values = summary.values()
    assert values["restarts"]["spread_of_gain"] == pytest.approx(0.1)
    assert values["limit"] == {"features": k, "gain": 42.0}


def test_a_column_that_names_the_rows_is_noted(call, folder):
    (folder / "prices.csv").write_text("price,b,c\n$5,1,2\n$6,3,4\n$7,5,1\n")
    noted = call("info", "prices.csv").stderr
    assert 'note: prices.csv: The column "price" holds text' in noted
    assert "note" not in call("info", "prices.csv", "--index", "price").stderr


def test_variance_explained_and_columns(call, folder):
    result = events_of(call("fit", "data.csv", "-o", "v.ibp", "--json").stdout)[-1]
    model = ibp.load(folder / "v.ibp")
    X = np.loadtxt(folder / "data.csv", delimiter=",", skiprows=1)
    left = ((X - model.inverse_transform(model.assignments_)) ** 2).mean(axis=0)
    # Every column counts alike, whatever its unit.
    assert result["variance_explained"] == pytest.approx(1 - np.mean(left / X.var(axis=0)))
    first = result["most_used"][0]
    sizes = model.components_[first["feature"]] / model.noise_std_
    top = np.argsort(-sizes)[: len(first["columns"])]
    assert first["columns"] == [f"p{j}" for j in top]


def test_options_of_fit_reach_the_estimator(call, folder):
    finished = call(
        *("fit", "data.csv", "-o", "set.ibp", "-k", 3, "--seed", 7, "--max-sweeps", 2, "--jobs", 1),
        *("--set", "alpha=2.5", "--set", "init=random", "--without-assignments", "--quiet"),
    )
    assert finished == (0, "set.ibp\n", "")
    model = ibp.load(folder / "set.ibp")
    chosen = {"n_components": 3, "random_state": 7, "max_iter": 2, "alpha": 2.5, "init": "random"}
    assert chosen.items() <= model.get_params().items()
    assert not hasattr(model, "assignments_")


def test_moves_are_shown_and_can_be_left_out(call, folder):
    few = ("--set", "init=random", "--max-sweeps", 100, "--json")
    events = events_of(call("fit", "data.csv", "-o", "moved.ibp", "--seed", 1, *few).stdout)
    model = ibp.load(folder / "moved.ibp")
    told = [event["move"] or "" for event in events if event["event"] == "sweep"]
    assert model.moves and told == model.history_["move"].tolist()
    call("fit", "data.csv", "-o", "unmoved.ibp", "--no-moves", *few)
    model = ibp.load(folder / "unmoved.ibp")
    assert not model.moves and "move" not in model.history_


def test_methods_of_the_paper_expect_a_zero_minimum(call, folder):
    quick = ("--max-sweeps", 1, "--force")
    told = call("fit", "data.csv", "-o", "paper.ibp", "--method", "meibp", "-k", 4, *quick)
    assert told.returncode == 0
    assert "note: meibp expects data whose smallest value is 0" in told.stderr
    assert told.stderr.count("note:") == 1
    check_refusal(call("fit", "data.csv", "--method", "meibp"), "n_components", "-k")
    sparse.save_npz(folder / "s.npz", sparse.csr_array(np.eye(20)))
    assert "note" not in call("fit", "s.npz", "-o", "s.ibp", "--method", "meibp", "-k", 4).stderr


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        (["--set", "alpha=-1"], ["alpha", "-1"]),
        (["--set", "aplha=1"], ["no setting 'aplha'", "alpha"]),
        (["--set", "n_init=3"], ["--restarts"]),
        (["--method", "bnmf", "-k", 3, "--no-moves"], ["bnmf makes no moves", "Leave out --no-mo"]),
        (["--set", "codes=weighted"], ["Use --codes instead"]),
        (["--method", "bnmf", "-k", 3, "--codes", "weighted"], ["bnmf has codes of one kind only"]),
        (["--set", "callbacks=3"], ["no setting 'callbacks'"]),
        (["--image-shape", "5x5"], ["5x5 has 25 pixels", "36 columns"]),
        (["-o", "nowhere/model.ibp"], ["no folder nowhere"]),
        (["-o", "data.csv"], ["data.csv is to be a model", ".ibp"]),
        (["-o", "model.ibp"], ["model.ibp exists already", "--force"]),
        (["--report", "page.pdf"], ["page.pdf", ".html"]),
    ],
)
def test_what_fit_refuses(call, folder, extra, words):
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    check_refusal(
        call("fit", "data.csv", *([] if "-o" in extra else ["-o", "x.ibp"]), *extra), *words
    )
    assert before == {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}


LINES = ["a,b,c", *["1,2,3"] * 30]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("missing.csv", None, ["missing.csv"]),
        ("empty.csv", b"", ["empty.csv"]),
        ("word.csv", "\n".join([*LINES[:17], "1,two,3", *LINES]), ["row 17", 'column "b"', "two"]),
        ("ragged.csv", "\n".join([*LINES, "1,2", *LINES[1:]]), ["ragged.csv", "31"]),
        ("cut.npy", b"\x93NUMPY\x01\x00v\x00{'descr'", ["cut.npy"]),
        ("cut.npz", b"PK\x03\x04 and no more", ["cut.npz"]),
        ("cut.parquet", b"PAR1 and no more", ["cut.parquet"]),
        ("infinite.csv", "a,b\n1,2\n3,inf\n4,5\n", ["row 2", 'column "b"', "inf"]),
        ("sheet.xlsx", b"PK", ["CSV"]),
    ],
)
def test_bad_files(call, tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    before = sorted(tmp_path.iterdir())
    finished = call("fit", path)
    check_refusal(finished, *words)
    assert sorted(tmp_path.iterdir()) == before


def test_a_column_without_values_is_named(call, tmp_path):
    (tmp_path / "gap.csv").write_text("a,b,c\n1,,2\n3,,4\n5,,7\n")
    check_refusal(call("fit", tmp_path / "gap.csv"), 'column "b"')


def test_transform(call, folder):
    finished = call(
        *("transform", "model.ibp", "holes.csv", "-o", "z.csv", "--confidence", "sure.npz"),
        *("--impute", "filled.csv"),
    )
    assert finished.returncode == 0, finished.stderr
    assert "120 rows, 4 features" in finished.stdout
    model = ibp.load(folder / "model.ibp")
    X = np.genfromtxt(folder / "holes.csv", delimiter=",", skip_header=1)
    names, *rows = (folder / "z.csv").read_text().splitlines()
    assert names.replace('"', "") == "feature 0,feature 1,feature 2,feature 3"
    del model.feature_names_in_
    assert np.array_equal(np.loadtxt(rows, delimiter=",", dtype=int), model.transform(X))
    assert np.allclose(np.load(folder / "sure.npz")["codes"], model.confidence(X))
    filled = np.loadtxt(folder / "filled.csv", delimiter=",", skiprows=1)
    assert np.allclose(filled, model.impute(X)) and not np.isnan(filled).any()
    check_refusal(call("transform", "model.ibp", "holes.csv", "-o", "z.csv"), "exists", "--force")


def test_transform_matches_columns_by_name(call, folder, tmp_path):
    X = np.genfromtxt(folder / "holes.csv", delimiter=",", skip_header=1)
    names = [f"p{j}" for j in range(36)]
    model = folder / "model.ibp"

    def transform(X, names, name="z.npy"):
        write_csv(tmp_path / "turned.csv", X, names)
        return call("transform", model, tmp_path / "turned.csv", "-o", tmp_path / name)

    assert "note" not in transform(X, names, "straight.npy").stderr
    turned = transform(X[:, ::-1], names[::-1])
    assert turned.returncode == 0 and "note: The columns of turned.csv were put" in turned.stderr
    assert np.array_equal(np.load(tmp_path / "z.npy"), np.load(tmp_path / "straight.npy"))
    lacking = 'turned.csv lacks a column that the model was fitted to: "p35"'
    check_refusal(transform(X, [*names[:-1], "other"], "a.npy"), lacking)
    check_refusal(transform(X[:, :9], names[:9], "a.npy"), "27 columns", '"p10"')
    more = np.hstack([X[:, :1], X])
    assert transform(more, ["label", *names], "more.npy").returncode == 0
    assert np.array_equal(np.load(tmp_path / "more.npy"), np.load(tmp_path / "straight.npy"))
    np.savez(tmp_path / "bare.npz", X[:, :9])
    check_refusal(
        call("transform", model, tmp_path / "bare.npz", "-o", tmp_path / "a.npy"), "9 columns", "36"
    )
    (tmp_path / "bare.npz").unlink()
    (tmp_path / "more.npy").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "straight.npy",
        "turned.csv",
        "z.npy",
    ]


def test_columns_of_one_name_are_told_apart_by_their_order_alone():
    reporter = LineReporter()
    model = SimpleNamespace(feature_names_in_=["a", "b", "a"], n_features_in_=3)
    as_fitted = Table(np.eye(3), column_names=["a", "b", "a"], source="x.csv")
    assert match_columns(reporter, as_fitted, model, Path("m.ibp")) is as_fitted
    turned = replace(as_fitted, column_names=["a", "a", "b"])
    with pytest.raises(InputError, match=r"x.csv has columns of one name in another order"):
        match_columns(reporter, turned, model, Path("m.ibp"))


def test_jobs_of_transform_reach_the_model(call, monkeypatch):
    seen = []
    transform = ibp.MEIBP.transform
    monkeypatch.setattr(
        ibp.MEIBP, "transform", lambda self, X: (seen.append(self.n_jobs), transform(self, X))[1]
    )
    arguments = ("transform", "model.ibp", "data.csv", "--quiet")
    assert call(*arguments, "-o", "saved_jobs.npy").returncode == 0
    assert call(*arguments, "-o", "one_job.npy", "--jobs", 1).returncode == 0
    assert seen == [-1, 1]


def test_a_model_that_is_none(call, folder):
    check_refusal(call("transform", "data.npy", "data.csv", "-o", "no.csv"), "data.npy")
    check_refusal(call("transform", "gone.ibp", "data.csv", "-o", "no.csv"), "no file gone.ibp")
    check_refusal(call("report", "model.ibp", "model.ibp", "-o", "no.html"), "named twice")
    (folder / "cut.ibp").write_bytes((folder / "model.ibp").read_bytes()[:-100])
    check_refusal(call("info", "cut.ibp"), "cut.ibp", "damaged")


def test_real_codes_have_no_confidence(call, folder):
    X = np.load(folder / "data.npy")
    ibp.fit(X - np.nanmin(X), "bnmf", n_components=3, random_state=0, max_iter=3, tol=0).save(
        folder / "real.ibp"
    )
    refused = call("transform", "real.ibp", "data.npy", "-o", "r.csv", "--confidence", "c.csv")
    check_refusal(refused, "real.ibp is a BNMF")
    assert call("transform", "real.ibp", "data.npy", "-o", "r.csv").returncode == 0


@pytest.fixture(scope="module")
def weights(folder):
    """Rows that have more or less of two features."""
    X = make_weighted()
    write_csv(folder / "weights.csv", X, [f"c{j}" for j in range(16)])
    return X


@pytest.mark.parametrize("chosen", [("--codes", "weighted"), ("--method", "meibp-weighted")])
def test_fit_finds_weights_and_says_so(call, folder, weights, chosen):
    fit = ("fit", "weights.csv", "-o", "w.ibp", "-k", 4, *chosen, "--no-moves", "--force")
    result = events_of(call(*fit, "--json").stdout)[-1]
    model = ibp.load(folder / "w.ibp")
    assert model.codes == "weighted" and not model.moves
    assert result["codes"] == "weighted" and result["weight_std"] == model.weight_std_.tolist()
    assert result["features_per_row"] == pytest.approx(model.assignments_.sum(axis=1).mean())
    shown = call(*fit).stdout
    weights_of = wording.with_weights(4, (model.weight_std_ >= 0.05).sum())
    assert shown.startswith(f"4 features, {weights_of}, in 60 rows and 16 columns\n")
    lines = [line for line in shown.splitlines() if "% of rows" in line]
    for line in lines:
        k = int(line.split()[1])  # feature 3
        assert f"{model.feature_counts_[k] / 60:.0%} of rows   " in line
        assert f"   {wording.weights(model.weight_std_[k])} " in line
    assert len(lines) == 4 and "how much of which features rows have" in shown
    pictured = call(*fit, "--image-shape", "4x4").stdout
    assert "in how many rows, and how far weights vary" in pictured
    captions = [caption.strip() for caption in re.split(r"\n|  ", pictured)]
    for k, spread in enumerate(model.weight_std_):
        caption = f"{k}: {model.feature_counts_[k] / 60:.0%}"
        assert caption + (f" ±{spread:.0%}" if spread >= 0.05 else "") in captions


def test_info_of_weights(call, folder, weights):
    model = fit_weighted(weights)
    model.weight_std_ = np.array([0.0, 0.04, 0.3, 2.0])
    model.save(folder / "informed.ibp", overwrite=True)
    about = events_of(call("info", "informed.ibp", "--json").stdout)[-1]
    assert about["codes"] == "weighted" and about["weight_std"] == model.weight_std_.tolist()
    shown = call("info", "informed.ibp").stdout
    said = ", ".join(f"{spread:.2g}" for spread in model.weight_std_)
    assert f"weight std         {said}; 2 of them with weights\n" in shown
    assert "codes              weighted" in shown
    binary = call("info", "model.ibp").stdout
    assert "codes              binary" in binary and "weight" not in binary


def test_transform_writes_weights_and_how_sure_they_are(call, folder, weights):
    model = fit_weighted(weights)
    model.save(folder / "placing.ibp", overwrite=True)
    np.save(folder / "new.npy", weights[:20])
    written = ("-o", "new-codes.csv", "--confidence", "new-sure.npy", "--force")
    finished = call("transform", "placing.ibp", "new.npy", *written)
    assert finished.returncode == 0
    codes = np.loadtxt(folder / "new-codes.csv", delimiter=",", skiprows=1)
    np.testing.assert_array_equal(codes, model.transform(weights[:20]))
    assert ((codes > 0) & (codes < 0.5)).any()
    sure = np.load(folder / "new-sure.npy")
    np.testing.assert_array_equal(sure, model.confidence(weights[:20]))
    assert f"20 rows, 4 features, {(codes > 0).sum(axis=1).mean():.1f} per row" in finished.stdout


def test_weights_are_compared_by_their_label(call, folder, weights):
    methods = ("--methods", "meibp-weighted", "--minutes", 0.05, "-k", 4, "--json", "--force")
    finished = call("compare", "weights.csv", "-o", "w.html", *methods)
    assert finished.returncode == 0
    assert [place["method"] for place in events_of(finished.stdout)[-1]["ranking"]] == [
        "meibp-weighted"
    ]


def test_info(call, folder):
    about = json.loads(call("info", "model.ibp", "--json").stdout.splitlines()[-1])
    assert about["class"] == "MEIBP" and about["features"] == 4 and about["columns"] == 36
    assert about["notes"] == {"data": "data.csv"} and about["ending"] == "converged"
    noise_std = ibp.load(folder / "model.ibp").noise_std_
    level = about["learned"]["noise_std_"]
    assert level["root_mean_square"] == pytest.approx(np.sqrt(np.mean(noise_std**2)))
    assert [level["lowest"], level["highest"]] == [noise_std.min(), noise_std.max()]
    shown = call("info", "model.ibp").stdout
    assert "MEIBP" in shown and "root mean square of the columns" in shown
    about = events_of(call("info", "holes.csv", "--json").stdout)[-1]
    X = np.load(folder / "data.npy")
    assert about["missing"] == pytest.approx(np.isnan(X).mean())
    assert about["lowest"] == pytest.approx(np.nanmin(X), abs=1e-5)
    assert about["names"][:2] == ["p0", "p1"]
    shown = call("info", "holes.csv").stdout
    assert "holes.csv, dense data" in shown and "p19 " in shown and "p20" not in shown
    assert "and 16 more; --json lists all" in shown


def test_info_of_sparse_data_and_of_images(call, folder):
    X = np.zeros((30, 5))
    X[3, 1], X[4, 2] = 2.5, 1.5
    sparse.save_npz(folder / "sparse.npz", sparse.csr_array(X))
    about = events_of(call("info", "sparse.npz", "--json").stdout)[-1]
    assert about["kind"] == "sparse data" and about["stored"] == 2
    assert (about["lowest"], about["highest"]) == (0.0, 2.5)  # 0 is not stored, but there
    np.save(folder / "images.npy", np.random.default_rng(0).random((20, 3, 4)))
    shown = call("info", "images.npy").stdout
    assert "3x4" in shown and "images.npy, dense data" in shown


def test_info_knows_a_model_by_what_is_in_it(call, folder, tmp_path):
    (tmp_path / "model.zip").write_bytes((folder / "model.ibp").read_bytes())
    assert "model.zip, model" in call("info", tmp_path / "model.zip").stdout
    np.savez(tmp_path / "arrays.npz", X=np.ones((4, 3)))
    assert "arrays.npz, dense data" in call("info", tmp_path / "arrays.npz").stdout
    # The end of an archive, as it should be, after a list of its members that is none.
    content = bytearray((tmp_path / "arrays.npz").read_bytes())
    start = content.rindex(b"PK\x01\x02")
    content[start : start + 4] = b"PKPK"
    (tmp_path / "broken.npz").write_bytes(content)
    check_refusal(call("info", tmp_path / "broken.npz"), "broken.npz", "damaged")


def test_what_cannot_be_held_out(call, folder):
    sparse.save_npz(folder / "thin.npz", sparse.random_array((30, 5), density=0.3, rng=0))
    held_out = ("--held-out", 0.3, "-o", "none.ibp")
    check_refusal(call("fit", "thin.npz", *held_out), "thin.npz is sparse", "--held-out")
    X = np.eye(12)
    X[:, 1:] = np.nan
    X[0, 1:] = 1.0
    np.save(folder / "empty.npy", X)
    finished = call("fit", "empty.npy", *held_out, "--seed", 1)
    check_refusal(finished, "empty.npy has nothing to hide", "another share")
    assert not (folder / "none.ibp").exists()


def test_a_fit_that_finds_nothing_says_what_to_try(call, folder):
    np.save(folder / "noise.npy", np.random.default_rng(0).normal(size=(40, 6)))
    finished = call("fit", "noise.npy", "-o", "nothing.ibp", "--set", "noise_std=3")
    assert finished.returncode == 0
    assert "0 features in 40 rows" in finished.stdout
    assert "No feature survived" in finished.stdout and "--restarts 5" in finished.stdout
    advice = "one level for all columns with --set noise=shared"
    assert advice in " ".join(finished.stdout.split())
    shared = ("-o", "shared.ibp", "--set", "noise=shared", "--set", "noise_std=3")
    finished = call("fit", "noise.npy", *shared)
    assert "No feature survived" in finished.stdout
    assert advice not in " ".join(finished.stdout.split())


def test_a_model_that_cannot_be_saved(folder, tmp_path):
    model = ibp.load(folder / "model.ibp")
    reporter = LineReporter()
    (tmp_path / "new.ibp").write_text("of another program")
    with pytest.raises(InputError, match="new.ibp has come into being meanwhile"):
        save_model(reporter, model, tmp_path / "new.ibp", force=False)
    assert (tmp_path / "new.ibp").read_text() == "of another program"
    with pytest.raises(InputError, match=r"model.ibp cannot be written: No such file"):
        save_model(reporter, model, tmp_path / "nowhere" / "model.ibp", force=True)
    assert reporter.written == []


def test_simulate(call, folder):
    make = ("simulate", "--missing", 0.25, "--rows", 80, "--seed", 5)
    finished = call(*make, "-o", "made.csv", "--truth", "truth.npz")
    assert finished.returncode == 0
    assert "80 rows, 36 columns, 4 true features" in finished.stdout
    assert "ibp fit made.csv --image-shape 6x6" in finished.stdout
    X = np.genfromtxt(folder / "made.csv", delimiter=",", skip_header=1)
    assert X.shape == (80, 36) and 0.2 < np.isnan(X).mean() < 0.3
    draw = ibp.datasets.make_block_images(80, noise_std=0.3, random_state=5)
    truth = np.load(folder / "truth.npz")
    assert np.array_equal(truth["assignments"], draw.assignments)
    assert np.allclose(X, draw.data, equal_nan=False) or np.nanmax(np.abs(X - draw.data)) < 1e-9
    wide = ("simulate", "--kind", "binary-factors", "--columns", 50, "--features", 6, "--quiet")
    assert call(*wide, "-o", "wide.npy") == (0, "wide.npy\n", "")
    assert np.load(folder / "wide.npy").shape == (500, 50)
    check_refusal(call("simulate", "-o", "b.csv", "--columns", 9), "36 columns and 4 features")
    check_refusal(call("simulate", "-o", "b.csv", "--missing", 1), "--missing")


def test_errors_that_are_no_fault_of_the_user_are_not_hidden():
    with pytest.raises(ZeroDivisionError), session(quiet=False, json=False):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match="could not broadcast"), session(quiet=False, json=False):
        from ibp.blas import np as numpy  # raised by NumPy, not by a check of ours

        exec("np.zeros(3)[:] = np.zeros(2)", {"np": numpy, "__name__": "ibp.methods.meibp.method"})
    with pytest.raises(ModuleNotFoundError, match="nonsense"), session(quiet=False, json=False):
        import nonsense  # noqa: F401


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (MemoryError("Unable to allocate 9 GiB"), "not enough memory for this (Unable to allocate"),
        (ModuleNotFoundError("No", name="jinja2"), "needs jinja2, which is not installed: pip"),
        (PermissionError(13, "Permission denied", "x.csv"), "x.csv: Permission denied."),
        (IsADirectoryError(21, "Is a directory", "here"), "here is a folder, not a file."),
        (KeyboardInterrupt(), "Interrupted; nothing was written."),
    ],
)
def test_problems_in_one_line(capsys, error, words):
    with pytest.raises(BaseException) as left, session(quiet=True, json=False):
        raise error
    assert left.value.exit_code == (130 if isinstance(error, KeyboardInterrupt) else 2)
    printed = capsys.readouterr().err
    assert printed.startswith("error: ") and words in printed and printed.count("\n") == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_others_swallow_is_no_bug(python_interrupts, capsys, number):
    with pytest.raises(BaseException) as left, session(quiet=True, json=False):
        with pytest.raises(KeyboardInterrupt):  # and swallowed, as half of an import is given up
            signal.raise_signal(number)
        raise AttributeError("partially initialized module")
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == "error: Interrupted; nothing was written.\n"


def test_in_the_background_of_a_script_termination_still_interrupts(python_interrupts, capsys):
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells start what is followed by &
    with pytest.raises(BaseException) as left, session(quiet=True, json=False):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == "error: Interrupted; nothing was written.\n"


def test_a_command_may_run_in_a_thread(call):
    with ThreadPoolExecutor(1) as pool:  # which no signal reaches
        finished = pool.submit(call, "info", "data.csv", "--json").result()
    assert finished.returncode == 0 and events_of(finished.stdout)[-1]["rows"] == 120


def test_quick_sweeps_are_thinned_out(capsys, monkeypatch):
    clock = iter(0.3 * n for n in range(100))
    monkeypatch.setattr("ibp.cli.progress.time.monotonic", lambda: next(clock))
    with LineReporter() as reporter:
        for n in range(1, 13):
            reporter.sweep(Sweep(1, 1, n, 4, -1234.5, None, 0.3 * n, None))
    lines = capsys.readouterr().err.splitlines()
    assert [int(line.split()[1].rstrip(",")) for line in lines] == [1, 5, 9, 12]


def test_words():
    assert [number(x) for x in (-281245.3, 12, 0.123456, 1e-9, np.inf)] == [
        "-281,245",
        "12",
        "0.1235",
        "1e-09",
        "inf",
    ]
    assert [duration(s) for s in (3.21, 59.99, 86, 7500)] == [
        "3.2 s",
        "1 m 00 s",
        "1 m 26 s",
        "2 h 05 m",
    ]
    assert [counted(n, "hidden entry") for n in (1, 2)] == ["1 hidden entry", "2 hidden entries"]
    assert printable("a\x1b[2Jb\u202e") == "a\\x1b[2Jb\\x202e"
    assert sparkline([1.0, 2.0, 8.0]) == "▁▂█" and sparkline([3.0, 3.0]) == "▁▁"


def test_pictures_fit_the_width():
    images = np.zeros((5, 4, 4))
    images[:, 0, 0] = 1.0
    console = Console(width=30, color_system=None, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    with console.file:
        print_pictures(console, images, [f"{k}" for k in range(5)])
    lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= 30
    assert lines[0] == "  ██        ██        ██"  # three of them fit
    assert lines[4].split() == ["0", "1", "2"] and lines[-1].split() == ["3", "4"]


def test_large_images_are_averaged():
    image = np.arange(30.0).reshape(5, 6)
    small = shrink(image, 3)
    assert small.shape == (3, 3)
    assert small[0, 0] == image[:2, :2].mean() and small[2, 2] == image[4:, 4:].mean()
    assert shrink(image, 6) is not None and np.array_equal(shrink(image, 6), image)


def test_report(call, folder):
    finished = call("report", "model.ibp", "holes.csv", "-o", "page.html", "--title", "A & B")
    assert finished.returncode == 0, finished.stderr
    page = (folder / "page.html").read_text()
    assert "A &amp; B" in page and "note" not in finished.stderr
    check_refusal(call("report", "model.ibp", "holes.csv", "-o", "page.html"), "--force")
    assert (folder / "page.html").read_text() == page
    again = call("report", "model.ibp", "holes.csv", "-o", "page.html", "--force", "--quiet")
    assert again == (0, "page.html\n", "")


def test_compare(call, folder):
    arguments = ("compare", "data.csv", "--methods", "meibp-default,bnmf", "-k", 4)
    finished = call(*arguments, "--minutes", 0.2, "--json", "-o", "compared.html")
    assert finished.returncode == 0, finished.stderr
    events = events_of(finished.stdout)
    result = events[-1]
    sweeps = [event for event in events if event["event"] == "sweep"]
    assert {event["method"] for event in sweeps} == {"meibp-default", "bnmf"}
    assert {event["fits"] for event in sweeps} == {2}
    scores = [place["held_out"] for place in result["ranking"]]
    assert len(scores) == 2 and scores == sorted(scores, reverse=True)
    assert (folder / "compared.html").stat().st_size > 1000
    shown = call(*arguments, "--minutes", 0.2, "-o", "compared.html", "--force")
    assert f"  1. {result['ranking'][0]['method']}" in shown.stdout
    check_refusal(call(*arguments, "-o", "compared.html"), "exists already")


def test_nothing_to_compare_is_told(call, folder, monkeypatch):
    def refuse(*arguments, **more):
        raise ValueError("It cannot be.")

    monkeypatch.setattr("ibp.comparison.fit_scored", refuse)
    finished = call("compare", "data.csv", "--methods", "bnmf", "-k", 4, "-o", "none.html")
    assert finished.returncode == 2
    *_, note, last = finished.stderr.splitlines()
    assert note == "note: bnmf was left out: It cannot be."
    assert last == "error: None of the methods could be fitted to these data."
    assert not (folder / "none.html").exists()


def test_an_interrupted_comparison_is_shown_so_far(call, folder, monkeypatch):
    from ibp import comparison

    fit_scored = comparison.fit_scored

    def interrupted(model, *arguments, **more):
        if isinstance(model, ibp.BNMF):
            raise KeyboardInterrupt
        return fit_scored(model, *arguments, **more)

    monkeypatch.setattr("ibp.comparison.fit_scored", interrupted)
    arguments = ("compare", "data.csv", "--methods", "meibp,bnmf", "-k", 2, "--minutes", 0.05)
    finished = call(*arguments, "-o", "half.html")
    assert finished.returncode == 130
    assert "  1. meibp" in finished.stdout and "bnmf" not in finished.stdout
    assert "Interrupted: this is the comparison so far." in finished.stdout
    assert (folder / "half.html").stat().st_size > 1000


def test_the_next_steps_can_be_taken(call, folder):
    reading = ("--drop", "p0", "--header")
    fit = ("fit", "data.csv", "--method", "meibp", "-k", 3, "--max-sweeps", 1, *reading)
    shown = call(*fit, "-o", "next.ibp").stdout
    steps = [line.split() for line in shown.splitlines() if line.startswith("    ibp ")]
    assert [step[1] for step in steps] == ["report", "transform", "fit", "fit"]
    for step in steps:
        finished = call(*step[1:])
        assert finished.returncode == 0, finished.stderr
    assert ibp.load(folder / "next.ibp").n_init == 5
    assert " ".join(steps[2]).count("--max-sweeps") == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_a_pipe_is_no_model(call, folder):
    os.mkfifo(folder / "pipe.ibp")
    check_refusal(call("info", "pipe.ibp"), "is not an ordinary file")
    (folder / "pipe.ibp").unlink()


def test_a_narrow_terminal_shows_all_numbers(monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    reporter = TerminalReporter()
    reporter.sweep(Sweep(1, 2, 13, 4, -123456.7, -0.2345, 3.2, None))
    console = Console(width=30)
    with console.capture() as shown:
        console.print(reporter._picture())
    for cell in ("1 of 2", "13", "-123,457", "-0.2345"):
        assert cell in shown.get()
    assert "…" not in shown.get()


def test_demo(call, folder, monkeypatch):
    from ibp.cli import demo

    whole = demo._digits()
    part = replace(whole, values=whole.values[:40], row_names=whole.row_names[:40])
    monkeypatch.setattr(demo, "_digits", lambda: part)
    finished = call("demo", "-o", "shown")
    assert finished.returncode == 0, finished.stderr
    assert "Report  shown/digits.html" in finished.stdout and "█" in finished.stdout
    assert sorted(path.name for path in (folder / "shown").iterdir()) == [
        "digits.html",
        "digits.ibp",
        "digits.npy",
    ]
    assert ibp.load(folder / "shown" / "digits.ibp").restart_evidence_.size == 2
    check_refusal(call("demo", "-o", "shown"), "exists already")


def test_an_interrupted_demo(call, folder, monkeypatch):
    from ibp.cli import demo

    digits = demo._digits()
    few = replace(digits, values=digits.values[:60], row_names=digits.row_names[:60])

    def interrupt(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "_digits", interrupt)
    finished = call("demo", "-o", "never")
    assert (finished.returncode, finished.stdout) == (130, "")
    assert not (folder / "never").exists()  # nor an empty folder
    monkeypatch.setattr(demo, "_digits", lambda: few)
    monkeypatch.setattr(LineReporter, "sweep", interrupt)
    finished = call("demo", "-o", "early")
    assert finished.returncode == 130 and "Report  early/digits.html" in finished.stdout
    assert ibp.load(folder / "early" / "digits.ibp").ending_ == "interrupted"
    check_refusal(call("demo", "-o", "data.csv"), "data.csv is a file", "name a folder")


def test_what_was_written_before_a_problem_is_told(call, folder, monkeypatch):
    def fail(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr("ibp.report.write_report", fail)
    finished = call("fit", "data.csv", "-o", "kept.ibp", "--report", "kept.html")
    assert finished.returncode == 130
    assert finished.stderr.splitlines()[-1] == "error: Interrupted; kept.ibp was written."
    assert ibp.load(folder / "kept.ibp").n_components_ == 4


def test_info_describes_files_that_cannot_be_fitted_yet(call, folder):
    (folder / "flowers.csv").write_text("id,class,width,note\n1,a,1.5,hm\n2,b,?,so\n3,a,2.5,\n")
    told = call("info", "flowers.csv")
    assert told.returncode == 0 and "flowers.csv, not yet data" in told.stdout
    assert "--drop class --drop note" in told.stdout
    lines = [" ".join(line.split()) for line in told.stdout.splitlines()]
    assert 'class text, such as "a"' in lines
    assert "width numbers 33.3% 1.5 2.5" in lines
    assert "id whole numbers 1 3" in lines
    np.savez(folder / "several.npz", train=np.eye(3), labels=np.array(["a", "b"]))
    told = call("info", "several.npz")
    assert told.returncode == 0 and "train: 3 x 3 float64" in told.stdout
    assert "labels: 2 text" in told.stdout and "--key train" in told.stdout
    last = events_of(call("info", "several.npz", "--key", "train", "--json").stdout)[-1]
    assert last["each_column"][1] == {
        "name": "column 2",
        "missing": 0.0,
        "lowest": 0.0,
        "highest": 1.0,
        "spread": pytest.approx(np.sqrt(2) / 3),
    }
    (folder / "torn.npz").write_bytes((folder / "several.npz").read_bytes()[:-30])
    check_refusal(call("info", "torn.npz"), "damaged")


def test_names_of_columns_from_a_file(call, folder):
    np.save(folder / "bare.npy", np.eye(4)[:, :3])
    (folder / "names.txt").write_text("width\nheight\ndepth\n")
    arguments = ("info", "bare.npy", "--names", "names.txt")
    assert events_of(call(*arguments, "--json").stdout)[-1]["names"] == ["width", "height", "depth"]
    dropped = events_of(call(*arguments, "--drop", "height", "--json").stdout)[-1]
    assert dropped["names"] == ["width", "depth"]
    check_refusal(call(*arguments, "--transpose"), "has 3 lines, but bare.npy has 4 columns")
    check_refusal(
        call("info", "data.csv", "--names", "names.txt"), "has names", "leave out --names"
    )
    check_refusal(call("info", "bare.npy", "--names", "nams.txt"), 'did you mean "names.txt"?')
    (folder / "names.txt").write_text("width\nheight\ndepth \n\n \n")  # lines at the end are none
    assert events_of(call(*arguments, "--json").stdout)[-1]["names"] == ["width", "height", "depth"]
    (folder / "names.txt").write_text("width\n \ndepth\n")
    check_refusal(call(*arguments), "names.txt has a blank line (line 2)", "one name on each")
    (folder / "names.txt").write_text("width\ndepth\nwidth\n")
    (folder / "named.ibp").unlink(missing_ok=True)
    finished = call("fit", "bare.npy", "--names", "names.txt", "-o", "named.ibp")
    check_refusal(finished, 'several columns of one name: "width" (columns 1 and 3)', "--drop 3")


@pytest.mark.parametrize("name", ["no.csv", "none.html", "no.npy", "no.csv.gz"])
def test_a_model_is_not_named_as_a_table_or_a_page(call, folder, name):
    check_refusal(call("fit", "data.csv", "-o", name), f"{name} is to be a model", "Name it .ibp")
    assert not (folder / name).exists()


def test_what_is_noted_of_a_model_is_shown_in_words(call, folder):
    model = ibp.load(folder / "model.ibp")
    model.notes_ = {"reading": ["--drop", "a b"], "versions": {"ibp": "1", "numpy": "2"}, "no": []}
    model.save(folder / "noted.ibp", overwrite=True)
    shown = call("info", "noted.ibp").stdout
    assert "reading: --drop 'a b'" in shown and "versions: ibp 1, numpy 2" in shown
    assert "no: " not in shown and "[" not in shown


def test_guesses_are_told_before_a_file_is_refused(call, folder):
    (folder / "refused.csv").write_text("Sales\na;b;c\n1,5;2;4\n2,5;x;3\n1,2;3,5;4\n")
    for command in (("fit", "refused.csv", "-o", "refused.ibp"), ("info", "refused.csv")):
        finished = call(*command)
        assert "note: refused.csv: Line 1 (" in finished.stderr
        assert "note: refused.csv: Commas stand before decimals" in finished.stderr
    assert "not yet data" in finished.stdout


@pytest.mark.parametrize("kind", ["csv", "npy", "npz"])
def test_standard_input(call, folder, monkeypatch, kind):
    content = io.BytesIO()
    {"csv": np.savetxt, "npy": np.save, "npz": np.savez}[kind](content, np.eye(4)[:, :3])
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.getvalue())))
    last = events_of(call("info", "-", "--json").stdout)[-1]
    assert (last["rows"], last["columns"], last["highest"]) == (4, 3, 1.0)
    monkeypatch.setattr("sys.stdin", None)
    check_refusal(call("info", "-"), "standard input")


def test_an_image_shape_that_a_model_claims(call, folder):
    model = ibp.load(folder / "model.ibp")
    for claimed, said in (("abc", '"abc"'), ([6, 7], '"[6, 7]"'), ([-6, -6], '"[-6, -6]"')):
        model.notes_["image_shape"] = claimed
        model.save(folder / "shape.ibp")
        told = call("report", "shape.ibp", "data.csv", "-o", "shape.html")
        check_refusal(told, f"images of the shape {said}, which 36 columns cannot be")
        assert call("info", "shape.ibp").returncode == 0
    arguments = ("shape.ibp", "data.csv", "-o", "shape.html", "--image-shape", "6x6")
    assert call("report", *arguments).returncode == 0


def test_pages_name_the_files_and_how_they_were_read(call, folder):
    X = ibp.datasets.make_block_images(60, noise_std=0.2, random_state=0).data
    np.savez(folder / "two arrays.npz", train=X, test=X)
    options = ("--key", "train", "--drop", "36", "--no-moves", "-k", 3)
    finished = call("fit", "two arrays.npz", *options, "-o", "two.ibp", "--report", "two.html")
    assert finished.returncode == 0, finished.stderr
    page = (folder / "two.html").read_text()
    read = "&#39;two arrays.npz&#39; --drop 36 --key train"
    assert f"ibp fit {read} --components 3" in page and "-o two.ibp --force" in page
    assert "DATA" not in page.partition("<script")[0]
    assert "<code>feature 0</code>" in page  # as what is written names it
    for line in finished.stdout.splitlines():
        if "% of rows" in line:
            assert line.startswith("  feature ") and "column " in line  # counted from 1
            assert "column 0" not in line
    notes = ibp.load(folder / "two.ibp").notes_
    assert notes["reading"] == ["--drop", "36", "--key", "train"]


def test_commands_of_a_page_keep_the_spaces_of_names(call, folder):
    facts = gather(ibp.load(folder / "model.ibp"), np.load(folder / "data.npy")).facts()
    facts = replace(facts, data="two  spaces.csv", model_file="a  b.ibp")
    command = wording._fit_again(facts, "--restarts 5")
    arguments = shlex.split(command)
    assert {"two  spaces.csv", "a  b.ibp", "--restarts"} <= set(arguments)


def test_notes_of_a_file_are_quoted_in_commands():
    hostile = ["$(reboot)", "a;b", "x" * 500, "line\nbreak", 3, None, ["a"]]
    model = ibp.BNMF(1, max_iter=1, tol=0, random_state=0).fit(np.eye(4))
    for text in hostile:
        model.notes_ = {"data_file": text, "model_file": text, "reading": [text]}
        facts = gather(model, np.eye(4)).facts()
        commands = [item.command for item in wording.advice(facts) if item.command]
        assert commands
        for command in commands:
            outside = re.sub(r"'[^']*'", "", command)
            assert "$(" not in outside and ";" not in outside and "\n" not in command


def test_columns_of_different_units(call, folder, tmp_path):
    X = ibp.datasets.make_block_images(60, noise_std=0.2, random_state=0).data[:, :9] + 1.0
    X[::7, 3] = np.nan
    X *= 10.0 ** np.arange(9)
    write_csv(tmp_path / "units.csv", X, [f"u{j}" for j in range(9)])
    scaled = X / np.nanstd(X, axis=0)
    own, known = (ibp.MEIBP(random_state=0, moves=False).fit(data) for data in (X, scaled))
    assert np.array_equal(own.assignments_, known.assignments_)  # the model's own business
    settings = {"max_iter": 2, "tol": 0, "random_state": 0}
    with pytest.warns(UserWarning, match="differ by a factor"):
        shared = ibp.MEIBP(2, noise="shared", moves=False, **settings).fit(X)
    for model, told in ((own, False), (shared, True)):
        titles = [item.title for item in wording.advice(gather(model, X).facts())]
        assert ("Columns differ in scale" in titles) == told
        model.feature_names_in_ = np.array([f"u{j}" for j in range(9)], dtype=object)
        model.save(tmp_path / "units.ibp")
        arguments = ("-o", tmp_path / f"{told}.csv", "--impute", tmp_path / f"{told}-filled.csv")
        finished = call("transform", tmp_path / "units.ibp", tmp_path / "units.csv", *arguments)
        assert finished.returncode == 0
        assert ("has one noise level for all" in finished.stderr) == told


def test_methods_that_tie_share_a_place():
    made = [
        ComparedFit(label, 0, "converged", 1, 2, [1], [1.0], [score], [score])
        for label, score in (("aibp", -1.0), ("meibp", -1.002), ("bnmf", -2.0))
    ]
    comparison = Comparison(9, 4, 6, 2, 0.2, 1.0, 0.75, made)
    assert places(comparison.ranking()) == [1, 1, 3]
    console = Console(record=True, width=80)
    compare._show(comparison, Path("page.html"), None, console)
    shown = console.export_text()
    assert "1. aibp" in shown and "1. meibp" in shown and "3. bnmf" in shown
    assert "No difference between the first 2 would matter." in shown


def test_a_column_is_left_out_by_the_number_that_an_error_names(call, tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("".join(f"r{i},{i % 3},,{i % 4}\n" for i in range(12)))
    command = ("fit", path, "--no-header", "--no-moves", "-o", tmp_path / "model.ibp")
    complaint = call(*command).stderr
    advice = re.search(r"column 3.*(--drop) (3)\.", complaint)
    assert advice is not None, complaint
    finished = call(*command, *advice.groups(), "--json")
    assert finished.returncode == 0, finished.stderr
    read = call("info", path, "--no-header", *advice.groups(), "--json").stdout
    columns = events_of(read)[-1]["each_column"]
    assert [column["name"] for column in columns] == ["column 2", "column 4"]


@pytest.mark.parametrize("kind", ["model", "text", "arrays", "nothing"])
def test_info_of_standard_input_is_that_of_the_file(call, folder, tmp_path, monkeypatch, kind):
    path = tmp_path / {"model": "m.ibp", "arrays": "a.npz"}.get(kind, "t.csv")
    if kind == "model":
        path.write_bytes((folder / "model.ibp").read_bytes())
    elif kind == "arrays":
        np.savez(path, X=np.ones((4, 3)), y=np.ones(4))
    else:
        path.write_text("a,class\n1,x\n2,y\n" if kind == "text" else "")
    with path.open("rb") as stream:
        monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=stream, isatty=lambda: False))
        told = call("info", "-")
    of_file = call("info", path)
    assert told.stdout.replace("standard input", path.name) == of_file.stdout
    assert told.stderr.replace("standard input", path.name) == of_file.stderr
    assert told.returncode == (2 if kind == "nothing" else 0)
