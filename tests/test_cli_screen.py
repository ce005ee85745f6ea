"""What reporters show while a command works: the picture on a terminal, lines, events."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from ibp.cli.pictures import print_pictures
from ibp.cli.progress import ComparisonSweep, JsonReporter, LineReporter, Sweep, Work
from ibp.cli.screen import TerminalReporter
from terminal import events_of


class Watched:
    """A reporter on a terminal whose clock stands still, with all that it prints."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr("ibp.cli.screen.time.monotonic", lambda: 100.0)
        self.reporter = TerminalReporter()
        self.stays = io.StringIO()
        self.reporter._console = Console(file=self.stays, width=80, color_system=None)

    def picture(self, **settings):
        """What is drawn at the moment."""
        console = Console(file=io.StringIO(), width=80, **settings)
        with console.capture() as shown:
            console.print(self.reporter._picture())
        return shown.get()


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def compared(method, fit, sweep, held_out, features=4):
    return ComparisonSweep(method, fit, 3, sweep, features, held_out, 2.0 * sweep, 12.0, 72.0)


def test_the_picture_of_a_comparison(watched):
    watched.reporter.stage("Comparing x.csv")
    told = [
        compared("meibp", 1, 1, -0.5),
        compared("meibp", 1, 2, -0.7, features=7),
        compared("bnmf", 2, 1, None),
        compared("aibp", 3, 1, -0.6),
    ]
    for sweep in told:
        watched.reporter.sweep(sweep)
    rows = [
        line.split() for line in watched.picture().splitlines() if "ibp" in line or "nmf" in line
    ]
    assert rows == [
        ["▸", "aibp", "-0.6000", "4", "1", "2.0", "s"],
        ["bnmf", "4", "1", "2.0", "s"],  # not scored yet
        ["meibp", "-0.5000", "7", "2", "4.0", "s"],  # the best of its scores
    ]
    assert "fit 3 of 3" in watched.picture() and "at most 1 m 00 s left" in watched.picture()
    coloured = watched.picture(force_terminal=True, color_system="standard").splitlines()
    (leader,) = (line for line in coloured if "\x1b[1;32m" in line)
    assert "meibp" in leader
    watched.reporter.stage("Writing the page")
    assert "meibp" not in watched.picture()


def test_a_restart_leaves_a_line_with_what_it_came_to(watched):
    for sweep in range(1, 4):
        watched.reporter.sweep(Sweep(1, 2, sweep, 5, -900.0 + sweep, -0.25, 1.0, None))
    assert "-0.2500" in watched.picture() and "▁" in watched.picture()
    assert watched.stays.getvalue() == ""
    watched.reporter.sweep(Sweep(2, 2, 1, 3, -950.0, None, 1.0, None))
    line = "Restart 1 of 2: 5 features, evidence -897 after 3 sweeps.\n"
    assert watched.stays.getvalue() == line
    # What is shown now is of the second restart alone.
    assert "2 of 2" in watched.picture()
    assert "-0.2500" not in watched.picture() and "▁" not in watched.picture()


def test_a_kernel_is_named_while_it_is_compiled(watched, capsys):
    watched.reporter.compiling("row search")
    assert "compiling row search; once on this machine" in watched.picture()
    watched.reporter.sweep(Sweep(1, 1, 1, 4, -10.0, None, 1.0, None))
    assert "compiling" not in watched.picture()
    LineReporter().compiling("row search")
    assert capsys.readouterr().err == "Compiling row search, once on this machine ...\n"
    JsonReporter().compiling("row search")
    (event,) = events_of(capsys.readouterr().out)
    assert (event["event"], event["kernel"]) == ("compiling", "row search")


def test_moves_are_named_while_they_are_tried_and_with_what_they_gained(watched, capsys):
    watched.reporter.sweep(Sweep(1, 2, 7, 4, -10.0, None, 1.0, None))
    assert "trying" not in watched.picture() and "gained" not in watched.picture()
    watched.reporter.trying("birth")
    assert "trying: birth" in watched.picture()
    moved = Sweep(1, 2, 8, 5, 24.0, None, 1.0, None, "birth", 34.0)
    watched.reporter.sweep(moved)
    assert "birth gained 34 in sweep 8" in watched.picture() and "trying" not in watched.picture()
    watched.reporter.sweep(Sweep(1, 2, 9, 5, 25.0, None, 1.0, None))
    watched.reporter.trying("merge")
    assert "birth gained 34 in sweep 8; trying: merge" in watched.picture()
    watched.reporter.sweep(Sweep(2, 2, 1, 5, 25.0, None, 1.0, None))
    assert "gained" not in watched.picture()
    LineReporter().sweep(moved)
    assert "5 features, evidence 24, birth gained 34, " in capsys.readouterr().err
    JsonReporter().sweep(moved)
    (event,) = events_of(capsys.readouterr().out)
    assert (event["move"], event["move_gain"]) == ("birth", 34.0)


def test_notes_and_errors_stay(watched, capsys):
    watched.reporter.note("A name\x1b[2J.")
    watched.reporter.error("It [cannot] be " + "so " * 40 + "wide.")
    note, error = watched.stays.getvalue().splitlines()
    assert note == "note: A name\\x1b[2J."
    assert error.startswith("error: It [cannot] be so so") and error.endswith("wide.")
    JsonReporter().note("Look.")
    (event,) = events_of(capsys.readouterr().out)
    assert (event["event"], event["message"]) == ("note", "Look.")


def test_no_pictures_are_no_lines():
    console = Console(file=io.StringIO(), width=80)
    print_pictures(console, np.zeros((0, 4, 4)), [])
    assert console.file.getvalue() == ""


def test_long_work_says_how_far_it_is_and_how_long_it_will_take(watched, capsys):
    work = Work("figure-1", "K=2, data set 0", 3, 12, 30.0, 95.0)
    watched.reporter.stage("Figure 1")
    watched.reporter.work(work)
    picture = watched.picture()
    assert "K=2, data set 0" in picture and "3 of 12, about 1 m 35 s left" in picture
    watched.reporter.stage("Drawing")
    assert "left" not in watched.picture()
    LineReporter().work(work)
    line = "figure-1: 3 of 12, K=2, data set 0, about 1 m 35 s left\n"
    assert capsys.readouterr().err == line
    JsonReporter().work(work)
    (event,) = events_of(capsys.readouterr().out)
    assert event["event"] == "work" and event["left"] == 95.0
