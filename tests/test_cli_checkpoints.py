"""Checkpoints on the command line: what is told, what is refused, and that commands go on."""

from __future__ import annotations

import resource

import numpy as np
import pytest

import ibp
from ibp.checkpoints import COMPARISON, FIT, read
from ibp.cli.fitting import _Teller
from terminal import check_refusal, events_of, in_this_process
from test_checkpoints import assert_same_models

FITTED = ("fit", "data.npy", "-o", "model.ibp", "--method", "aibp", "--set", "tol=0")
CHAIN = (*FITTED, "--max-sweeps", 6)
KEPT = ("--checkpoint", "run.ckpt")
COMPARED = ("compare", "data.npy", "--methods", "bnmf,f-vibp", "-k", 2, "-o", "page.html")


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Call the program as its entry point does, in a folder with data."""
    monkeypatch.chdir(tmp_path)
    X = ibp.datasets.make_block_images(40, noise_std=0.3, random_state=0).data
    np.save("data.npy", X)
    np.save("other.npy", X + 1.0)
    return in_this_process(capsys)


@pytest.fixture
def interrupted(monkeypatch):
    """Let Ctrl-C come in the third sweep of a fit, until it is told to stop that."""
    hear = _Teller.__call__

    def interrupt(self, progress):
        hear(self, progress)
        if progress.iteration == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(_Teller, "__call__", interrupt)
    return lambda: monkeypatch.setattr(_Teller, "__call__", hear)


def commands_in(text):
    return [line.split() for line in text.splitlines() if line.startswith("    ibp ")]


def test_an_interrupted_fit_goes_on_by_the_command_that_it_tells(call, interrupted, tmp_path):
    first = call(*CHAIN, *KEPT)
    assert first.returncode == 130
    assert "saved; the fit can go on from run.ckpt." in " ".join(first.stdout.split())
    step = commands_in(first.stdout)[0]
    assert step[1:] == [*map(str, CHAIN), *KEPT, "--resume", "--force"]
    interrupted()
    second = call(*step[1:])
    assert second.returncode == 0, second.stderr
    assert "note: Going on from run.ckpt: 3 sweeps in " in second.stderr
    restarted = commands_in(second.stdout)[-1]
    assert "--restarts" in restarted and "--resume" not in restarted
    call(*CHAIN, "-o", "whole.ibp")
    assert_same_models(tmp_path / "model.ibp", tmp_path / "whole.ibp")


def test_the_same_command_begins_goes_on_and_is_done(call, tmp_path):
    command = (*CHAIN, *KEPT, "--resume", "--json", "--force")
    beginning, end = (call(*command) for _ in range(2))
    assert [event["event"] for event in events_of(beginning.stdout)].count("sweep") == 6
    events = events_of(end.stdout)
    assert not any(event["event"] == "sweep" for event in events)
    assert events[-1]["checkpoint"] == "run.ckpt" and events[-1]["ending"] == "max_iter"


def test_a_limit_of_time_is_that_of_each_command(call, tmp_path):
    command = (*FITTED, "--max-sweeps", 10**6, *KEPT, "--resume", "--force", "--time-limit", "0.3s")
    first = call(*command)
    assert commands_in(first.stdout)[0][-2:] == ["--resume", "--force"]
    n_sweeps = ibp.load(tmp_path / "model.ibp").n_iter_
    sweeps = [event for event in events_of(call(*command, "--json").stdout) if "sweep" in event]
    assert ibp.load(tmp_path / "model.ibp").n_iter_ > n_sweeps
    left = [sweep["time_limit"] - sweep["seconds"] for sweep in sweeps]
    assert sweeps[0]["time_limit"] > 0.3 >= max(left)


def test_a_fit_at_its_limit_of_sweeps_goes_on_with_more(call, tmp_path):
    fit = ("fit", "data.npy", "-o", "model.ibp", "--method", "f-vibp", "-k", 3, "--max-sweeps", 2)
    step = commands_in(call(*fit, *KEPT).stdout)[2]
    assert step[-4:] == ["--max-sweeps", "8", "--resume", "--force"]
    assert "Going on from run.ckpt: 2 sweeps" in call(*step[1:]).stderr
    assert ibp.load(tmp_path / "model.ibp").n_iter_ == 8


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--resume",), "--resume needs to know from where. Name the file"),
        (("--checkpoint", "data.npy"), "data.npy is named twice"),
        (("--checkpoint", "model.ibp"), "model.ibp is named twice"),
        (("--checkpoint", "other.npy", "--force"), "and is no checkpoint of a fit; name another"),
        (("--checkpoint", "other.npy", "--resume"), "is not a checkpoint of a fit, or it is dam"),
        (("--checkpoint", "no/run.ckpt"), "there is no folder no"),
        (("--set", "checkpoint=a"), "Use --checkpoint instead of --set checkpoint"),
        (("--set", "resume=true"), "Use --resume instead of --set resume"),
    ],
)
def test_what_is_refused(call, arguments, words):
    check_refusal(call(*CHAIN, *arguments), words)


def test_a_checkpoint_is_not_replaced_without_force(call, interrupted, tmp_path):
    call(*CHAIN, *KEPT)
    (tmp_path / "model.ibp").unlink()
    before = (tmp_path / "run.ckpt").read_bytes()
    check_refusal(call(*CHAIN, *KEPT), "exists already; go on from it with --resume, or begin anew")
    other = ("fit", "other.npy", *CHAIN[2:], *KEPT, "--resume")
    check_refusal(call(*other), "other data: they had as many rows and columns, but column 0 and")
    check_refusal(call(*CHAIN, *KEPT, "--resume", "--seed", 5), "random_state was 0 and is 5")
    assert (tmp_path / "run.ckpt").read_bytes() == before
    interrupted()
    assert call(*CHAIN, *KEPT, "--force").returncode == 0
    assert read(tmp_path / "run.ckpt", FIT)[0]["finished"]


def test_the_checkpoint_of_a_start_is_replaced_with_force_too(call, tmp_path):
    started = (*CHAIN, "-k", 2, "--set", "init=meibp-default", *KEPT)
    call(*started, "--time-limit", "0s", "--quiet")
    assert (tmp_path / "run.ckpt.start").exists() and not (tmp_path / "run.ckpt").exists()
    (tmp_path / "model.ibp").unlink()
    check_refusal(call(*started), "run.ckpt.start exists already; go on from it with --resume")
    finished = call(*started, "--force")
    assert finished.returncode == 0, finished.stderr
    assert read(tmp_path / "run.ckpt.start", FIT)[0]["finished"]


def test_a_full_disk_is_told_and_what_was_there_is_whole(call, tmp_path):
    call(*CHAIN)
    before = (tmp_path / "model.ibp").read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        refused = call(*CHAIN, "--force")
        full = call(*CHAIN, *KEPT, "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.returncode == 2
    assert refused.stderr.splitlines()[-1] == (
        "error: model.ibp cannot be written: File too large; the file that was there before is "
        "unchanged."
    )
    check_refusal(full, "run.ckpt: File too large.")
    assert (tmp_path / "model.ibp").read_bytes() == before


def test_info_tells_what_a_checkpoint_is_of(call, interrupted):
    call(*CHAIN, *KEPT)
    shown = call("info", "run.ckpt").stdout
    assert shown.startswith("run.ckpt, checkpoint of a fit")
    told = dict(line.split(None, 1) for line in shown.splitlines()[2:] if line.startswith("  "))
    assert (told["rows"], told["columns"], told["sweeps"], told["ended"]) == ("40", "36", "3", "no")
    assert "estimator: AcceleratedGibbs" in shown and "max_iter: 6" in shown
    settings = events_of(call("info", "model.ibp", "--json").stdout)[-1]["settings"]
    assert not set(settings) & {"checkpoint", "checkpoint_seconds", "resume"}


# Comparisons


def test_a_comparison_goes_on_with_the_fits_that_are_left(call, monkeypatch, tmp_path):
    from ibp import comparison

    fit_scored, fitted = comparison.fit_scored, []

    def interrupt(model, held_out, noise_std, record, **more):
        fitted.append(record.label)
        if record.label == "f-vibp":
            raise KeyboardInterrupt
        return fit_scored(model, held_out, noise_std, record, **more)

    monkeypatch.setattr(comparison, "fit_scored", interrupt)
    first = call(*COMPARED, *KEPT)
    assert first.returncode == 130
    header = read(tmp_path / "run.ckpt", COMPARISON)[0]
    assert [fit["label"] for fit in header["result"]["fits"]] == ["bnmf"] and not header["finished"]
    (step,) = commands_in(first.stdout)
    monkeypatch.setattr(comparison, "fit_scored", fit_scored)
    second = call(*step[1:], "--json")
    events = events_of(second.stdout)
    assert {event["method"] for event in events if event["event"] == "sweep"} == {"f-vibp"}
    assert any("Going on from run.ckpt: 1 fit in " in str(event) for event in events)
    whole = events_of(call(*COMPARED, "-o", "whole.html", "--json").stdout)[-1]
    for place in (*events[-1]["ranking"], *whole["ranking"]):
        place.pop("seconds")
    assert events[-1]["ranking"] == whole["ranking"]
    assert read(tmp_path / "run.ckpt", COMPARISON)[0]["finished"]
    check_refusal(
        call(*COMPARED, *KEPT, "--resume", "--force", "--held-out", 0.3),
        "of a comparison with other settings: fraction was 0.2 and is 0.3",
    )
    check_refusal(call(*CHAIN, *KEPT, "--resume"), "is not a checkpoint of a fit")
