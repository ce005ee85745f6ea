"""The real program: on a terminal, in a pipe, interrupted, short of memory, unread."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ibp
from terminal import (
    ESCAPE,
    IBP,
    Screen,
    check_refusal,
    environment,
    events_of,
    finish,
    on_terminal,
    run_ibp,
    start_ibp,
)

# Samplers go on for ever if they are allowed to.
ENDLESS = ("--method", "aibp", "--max-sweeps", "10000000", "--set", "tol=0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with data in it."""
    path = tmp_path_factory.mktemp("cli")
    X = ibp.datasets.make_block_images(200, noise_std=0.2, random_state=0).data
    names = ",".join(f"pixel {j}" for j in range(36))
    np.savetxt(path / "blocks.csv", X, delimiter=",", fmt="%.4f", header=names, comments="")
    return path


def test_nothing_heavy_is_loaded_before_a_command_runs():
    code = (
        "import sys, ibp.cli.main; early = {n.partition('.')[0] for n in sys.modules}\n"
        "import ibp.cli.app\n"
        "late = {n.partition('.')[0] for n in sys.modules}\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'numba', 'pyarrow', 'jinja2', 'PIL', 'matplotlib'}\n"
        "print(sorted(late & heavy), 'typer' in early, 'typer' in late)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert printed.split() == ["[]", "False", "True"]


def test_without_typer_it_says_what_to_install():
    code = "import sys; sys.modules['typer'] = None\nfrom ibp.cli.main import main; main()"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert finished.returncode == 2
    assert finished.stderr == 'The command line needs typer: pip install "ibp[cli]".\n'


def test_clean_lines_in_a_pipe(folder):
    finished = run_ibp(
        "fit", "blocks.csv", "-o", "piped.ibp", "--restarts", 2, "--held-out", 0.1, cwd=folder
    )
    assert finished.returncode == 0, finished.stderr
    assert "\x1b" not in finished.stdout + finished.stderr
    assert "\r" not in finished.stdout + finished.stderr
    lines = finished.stderr.splitlines()
    assert lines[0] == "Reading blocks.csv ..."
    sweeps = [line for line in lines if " sweep " in line]
    assert all(re.fullmatch(r"restart \d of 2, sweep \d+, \d+ features?, .*", s) for s in sweeps)
    assert sweeps[0].startswith("restart 1 of 2, sweep 1,") and "held-out score" in sweeps[0]
    model = ibp.load(folder / "piped.ibp")
    assert finished.stdout.startswith(f"{model.n_components_} features in 200 rows and 36 columns")
    assert sweeps[-1].startswith("restart 2 of 2")
    assert all(line == line.rstrip() for line in finished.stdout.splitlines())
    assert model.notes_["held_out"]["n_entries"] == 100 * 4
    assert f"{model.notes_['held_out']['score']:.4f}" in finished.stdout
    assert list(model.feature_names_in_[:2]) == ["pixel 0", "pixel 1"]


def test_progress_on_a_terminal_is_drawn_and_cleared(folder):
    # A limit of time, so that there is a bar, which is drawn in colour.
    child = on_terminal(
        "fit",
        "blocks.csv",
        "-o",
        "shown.ibp",
        "--image-shape",
        "6x6",
        "--time-limit",
        "10m",
        cwd=folder,
    )
    child.expect("Fitting blocks.csv: 200 x 36, meibp-default")
    child.expect("evidence")
    child.expect(r"at most \d+ m \d\d s.*left")
    printed, code = finish(child)
    assert code == 0
    assert printed.index("\x1b[?25l") < printed.rindex("\x1b[?25h")  # the cursor comes back
    screen = Screen(printed).text
    assert screen.splitlines()[0] == "4 features in 200 rows and 36 columns"  # and no progress
    assert "Fitting" not in screen and "left" not in screen
    assert "▀" in screen and "38;5;" in printed  # pictures, in colours
    assert (folder / "shown.ibp").exists()


def test_no_color_is_respected_on_a_narrow_terminal(folder):
    child = on_terminal("info", "blocks.csv", cwd=folder, columns=40, NO_COLOR="1")
    text, code = finish(child)
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*(3|4|9)[0-9](;[0-9]+)*m", text)
    lines = Screen(text).text.splitlines()
    assert max(map(len, lines)) <= 40
    assert lines[0] == "blocks.csv, dense data"


def test_control_c_on_a_terminal_saves_the_model(folder):
    child = on_terminal("fit", "blocks.csv", "-o", "broken.ibp", *ENDLESS, cwd=folder)
    child.expect("Fitting blocks.csv")
    child.expect(r"evidence")
    child.sendintr()
    printed, code = finish(child)
    assert code == 130
    screen = Screen(printed).text
    assert "Interrupted after" in screen and "broken.ibp" in screen
    model = ibp.load(folder / "broken.ibp")
    assert model.ending_ == "interrupted" and model.n_iter_ >= 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_the_model(folder, number):
    name = f"signal{int(number)}.ibp"
    with start_ibp("fit", "blocks.csv", "-o", name, *ENDLESS, "--json", cwd=folder) as process:
        lines = []
        for line in process.stdout:
            lines.append(line)
            if '"sweep"' in line:
                process.send_signal(number)
                break
        lines += process.stdout
        complaints = process.stderr.read()
    assert process.returncode == 130, complaints
    assert complaints == ""
    *_, last = events_of("".join(lines))
    assert last["event"] == "result" and last["ending"] == "interrupted"
    assert last["model"] == name
    assert ibp.load(folder / name).n_components_ == last["features"]


def test_interrupted_before_the_fit(folder):
    with start_ibp("fit", "blocks.csv", "-o", "never.ibp", *ENDLESS, cwd=folder) as process:
        assert process.stderr.readline() == "Reading blocks.csv ...\n"
        process.send_signal(signal.SIGINT)
        output, complaints = process.communicate()
    assert process.returncode == 130
    assert complaints.splitlines()[-1] == "error: Interrupted; nothing was written."
    assert output == "" and not (folder / "never.ibp").exists()


def test_nobody_reads_on(folder):
    script = f"{' '.join(IBP)} info blocks.csv | true; exit ${{PIPESTATUS[0]}}"
    finished = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, env=environment()
    )
    assert finished.returncode == 141
    assert "Traceback" not in finished.stderr and "Broken" not in finished.stderr


@pytest.mark.parametrize(
    ("redirected", "code", "words"),
    [
        ("info none.csv --json 2>&-", 2, '"event": "error"'),  # and nothing else on stdout
        ("info blocks.csv 2>&-", 0, "dense data"),
        ("info blocks.csv >&-", 0, ""),
        ("fit none.csv --json | true", 141, ""),
        ("info none.csv 2>&1 | true", 141, ""),
        ("info blocks.csv --json 2>&1 >/dev/full", 2, "No space left"),
        ("info none.csv 2>/dev/full", 2, ""),
        ("--help 2>&1 >/dev/full", 2, "No space left"),
    ],
)
def test_streams_that_are_closed_or_full(redirected, code, words, folder):
    if "/dev/full" in redirected and not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    script = f"{' '.join(IBP)} {redirected}; exit ${{PIPESTATUS[0]}}"
    finished = subprocess.run(
        ["bash", "-c", script], cwd=folder, capture_output=True, text=True, env=environment()
    )
    assert finished.returncode == code
    assert "Traceback" not in finished.stderr and "ignored" not in finished.stderr
    assert words in finished.stdout
    if "--json 2>&-" in redirected:
        events_of(finished.stdout)


def test_a_width_of_zero_hides_nothing(folder):
    assert "dense data" in run_ibp("info", "blocks.csv", cwd=folder, COLUMNS="0").stdout


def test_interrupted_before_anything(folder):
    script = (
        "import sys, signal; sys.modules['typer'] = None\n"
        "import builtins; real = builtins.__import__\n"
        "def load(name, *more):\n"
        "    if name == 'typer': signal.raise_signal(signal.SIGINT)\n"
        "    return real(name, *more)\n"
        "from ibp.cli.main import main\n"
        "builtins.__import__ = load\n"
        "main()"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (finished.returncode, finished.stdout, finished.stderr) == (130, "", "")


def test_too_little_memory(folder):
    rows, columns, limit = 400_000, 2_000, 3 << 30
    with (folder / "large.npy").open("wb") as file:  # 6.4 GB, none of it on the disk
        header = {"descr": "<f8", "fortran_order": False, "shape": (rows, columns)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + 8 * rows * columns)

    def limited():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    finished = run_ibp(
        "fit", "large.npy", cwd=folder, limit=limited, OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1"
    )
    check_refusal(finished, "memory")
    assert not (folder / "large.ibp").exists()
    (folder / "large.npy").unlink()


def test_quiet_prints_the_path_alone(folder):
    finished = run_ibp("fit", "blocks.csv", "--quiet", "--max-sweeps", 1, cwd=folder)
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "blocks.ibp\n", "")


def test_escape_codes_of_a_path_do_not_reach_the_terminal(folder):
    child = on_terminal("simulate", "-o", "a\x1b[31m.csv", cwd=folder)
    text, code = finish(child)
    assert code == 0
    assert "\x1b[31m" not in text
    assert "Data    a\\x1b[31m.csv" in ESCAPE.sub("", text)


def test_escape_codes_of_a_file_do_not_reach_the_terminal(folder):
    (folder / "evil.csv").write_text("a\x1b[31m,b\n1,2\n3,4\n")
    child = on_terminal("info", "evil.csv", cwd=folder)
    text, code = finish(child)
    assert code == 0
    assert "\x1b[31m" not in text
    assert "a\\x1b[31m " in ESCAPE.sub("", text)


@pytest.mark.parametrize("arguments", [["--help"], ["fit", "--help"], []])
def test_help_that_nobody_reads_to_its_end(arguments, folder):
    """As in ``ibp --help | head -1``: no mistake of anybody's."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ibp", *arguments]
    with os.fdopen(writer, "w") as unread:
        finished = subprocess.run(command, stdout=unread, stderr=subprocess.PIPE, text=True)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_ctrl_c_soon_finds_somebody_to_answer():
    """Little is loaded before a command can answer it, and while that is, nothing is printed."""
    source = str(Path(ibp.__file__).parents[1])
    start = f"import sys; sys.path.insert(0, {source!r}); before = set(sys.modules)\n"
    code = start + "import ibp.cli.main; print(*sorted(set(sys.modules) - before))"
    python = [sys.executable, "-I", "-S", "-c"]
    loaded = subprocess.run([*python, code], capture_output=True, text=True, check=True).stdout
    assert not {"typing", "re", "enum", "contextlib", "ibp.registry"} & set(loaded.split())
    code = start + (
        "import builtins, runpy; real = builtins.__import__\n"
        "def load(name, *more, **named):\n"
        "    if name == 'ibp.cli.main': raise KeyboardInterrupt\n"
        "    return real(name, *more, **named)\n"
        "builtins.__import__ = load; runpy.run_module('ibp', run_name='__main__')"
    )
    finished = subprocess.run([*python, code], capture_output=True, text=True)
    assert (finished.returncode, finished.stderr) == (130, "")
