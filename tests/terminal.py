"""Driving the real program: in pipes, and on a terminal that is not there."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from collections import namedtuple

import pexpect

from ibp.cli.app import run

IBP = (sys.executable, "-m", "ibp")
LONGEST = 240  # seconds; a first run compiles
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
Finished = namedtuple("Finished", "returncode stdout stderr")


def environment(**changes):
    """Ours without what would change how programs print."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLUMNS")
    }
    return kept | {"TERM": "xterm-256color"} | changes


def run_ibp(*arguments, cwd, limit=None, **changes):
    """A finished process, its output captured."""
    return subprocess.run(
        [*IBP, *map(str, arguments)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=LONGEST,
        check=False,
        preexec_fn=limit,
        env=environment(**changes),
    )


def in_this_process(capsys):
    """What calls the program as its entry point does, and tells what it returned and printed."""

    def call(*arguments):
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Finished(code, printed.out, printed.err)

    return call


def start_ibp(*arguments, cwd):
    """A running process, its output piped."""
    return subprocess.Popen(
        [*IBP, *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


def on_terminal(*arguments, cwd, columns=80, rows=24, **changes):
    """A running process on a pseudo-terminal; all it prints is kept in ``logfile_read``."""
    child = pexpect.spawn(
        IBP[0],
        [*IBP[1:], *map(str, arguments)],
        cwd=str(cwd),
        encoding="utf-8",
        timeout=LONGEST,
        dimensions=(rows, columns),
        env=environment(**changes),
    )
    child.logfile_read = io.StringIO()
    return child


def finish(child):
    """Let it end: all it printed, and its exit code."""
    child.expect(pexpect.EOF)
    child.close()
    return child.logfile_read.getvalue(), child.exitstatus


class Screen:
    """What is left on a terminal, for the few escape codes that we use."""

    def __init__(self, text):
        self.lines, self.row, self.column = [""], 0, 0
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x1b]", text):
            self._take(piece)

    def _take(self, piece):
        if piece == "\n":
            self.row += 1
            while self.row >= len(self.lines):
                self.lines.append("")
        elif piece == "\r":
            self.column = 0
        elif piece.startswith("\x1b"):
            if piece.endswith("A"):
                self.row = max(0, self.row - int(piece[2:-1] or 1))
            elif piece.endswith("K"):
                self.lines[self.row] = ""
        else:
            line = self.lines[self.row].ljust(self.column)
            self.lines[self.row] = line[: self.column] + piece + line[self.column + 1 :]
            self.column += 1

    @property
    def text(self):
        return "\n".join(line.rstrip() for line in self.lines).strip()


def events_of(output):
    """JSON lines as they must be: every line an object with an event."""
    events = [json.loads(line) for line in output.splitlines()]
    assert all("event" in event for event in events)
    return events


def check_refusal(finished, *words):
    """One line that says why, and nothing else."""
    assert finished.returncode == 2, finished.stderr
    assert finished.stdout == ""
    *before, last = finished.stderr.splitlines()
    assert last.startswith("error: ") and "Traceback" not in finished.stderr
    assert all(line.endswith(" ...") for line in before)  # what was being done until then
    for word in words:
        assert word in last
