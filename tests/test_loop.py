from __future__ import annotations

import itertools
import os
import pickle
import signal
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from threadpoolctl import threadpool_info

import ibp
from ibp import MEIBP, stopping
from ibp.clock import processor_time
from ibp.data import Observations
from ibp.errors import FitInterrupted
from ibp.loop import Progress, Stopwatch, deferred_interrupt, run
from ibp.methods.base import SweepRecord, relative_change
from problems import plain


@pytest.fixture(params=[plain, MEIBP], ids=["plain", "default"])
def make(request):
    return request.param


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    assignments = rng.random((60, 3)) < 0.4
    factors = rng.uniform(0.5, 2.0, size=(3, 6))
    return np.clip(assignments @ factors + rng.normal(0, 0.2, size=(60, 6)), 0, None)


class ScriptedMethod:
    """A method whose sweeps report what they are told to."""

    climbs = True

    def __init__(self, *runs, on_step=None, initial=-1e9):
        self.runs = [list(reports) for reports in runs]
        self.on_step = on_step
        self.initial = initial
        self.n_inits = 0

    def init(self, context):
        self.n_inits += 1
        return {"restart": self.n_inits, "step": 0}

    def step(self, context, state):
        if self.on_step is not None:
            self.on_step(context.should_stop)
        reports = self.runs[state["restart"] - 1]
        report = reports[min(state["step"], len(reports) - 1)]
        state["step"] += 1
        return report

    def report(self, context, state):
        return SweepRecord(self.initial, 1, 0, -1.0)


def sweep(evidence, *, n_changed=1, likelihood=-1.0, n_components=2):
    return SweepRecord(evidence, n_components, n_changed, likelihood)


def climbing(n, start=-100.0, likelihood=None):
    """Sweeps that never converge by themselves."""
    return [
        sweep(start + i, likelihood=-(2.0**-i) if likelihood is None else likelihood)
        for i in range(n)
    ]


def run_scripted(method, n_runs=1, **settings):
    settings = {"max_iter": 20, "tol": 1e-4} | settings
    unit = Observations.from_array(np.ones((1, 1)))  # in whose unit nothing is rescaled
    return run(method, unit, [np.random.default_rng(i) for i in range(n_runs)], **settings)


# Stopping rules


def test_relative_change():
    assert relative_change(0.0, 0.0) == 0.0
    assert relative_change(-99.0, -100.0) == pytest.approx(0.01)
    assert relative_change(1.0, -1.0) == 2.0
    assert relative_change(0.0, 5.0) == 1.0


@pytest.mark.parametrize("n", [0, 1, 5, 9])
def test_blocks_agree_needs_two_full_blocks(n):
    assert not stopping.blocks_agree([-1.0] * n, tol=1e-4)


@pytest.mark.parametrize("n", [11, 12, 13, 14, 16])
def test_blocks_agree_is_looked_at_when_a_block_is_full(n):
    assert not stopping.blocks_agree([-1.0] * n, tol=1e-4)
    assert stopping.blocks_agree([-1.0] * 15, tol=1e-4)


def test_blocks_agree_compares_the_means_of_the_last_two_blocks():
    jagged = [-1.0, -3.0, -2.0, -1.0, -3.0]
    assert stopping.blocks_agree(jagged + jagged[::-1], tol=1e-12)
    assert stopping.blocks_agree([-50.0] * 5 + [-2.0] * 10, tol=1e-12)
    assert not stopping.blocks_agree([-2.0] * 10 + [-1.0] * 5, tol=1e-2)


def test_blocks_agree_uses_the_tolerance_strictly():
    blocks = [-1.0] * 5 + [-0.5] * 5
    assert stopping.blocks_agree(blocks, tol=0.51)
    assert not stopping.blocks_agree(blocks, tol=0.5)
    assert not stopping.blocks_agree(blocks, tol=0.49)


def test_tol_zero_switches_the_rule_off():
    assert not stopping.blocks_agree([-1.0] * 50, tol=0)


def test_convergence_does_not_depend_on_the_unit_of_the_data():
    rng = np.random.default_rng(0)
    X = rng.random((10, 4))
    likelihoods = [-1.0 - 0.5**i for i in range(20)]
    answers = []
    for factor in (1.0, 1e-6, 1e6):
        observations = Observations.from_array(X * factor)
        shifted = [value - np.log(factor) for value in likelihoods]
        sweeps = [sweep(40 * value, likelihood=value) for value in shifted]
        answers.append(
            [
                stopping.converged(observations, True, sweeps[0], sweeps[:n], tol=1e-3)
                for n in range(1, 21)
            ]
        )
    assert any(answers[0])
    assert not all(answers[0])
    assert answers[0] == answers[1] == answers[2]


def test_at_rest():
    for tol in (0, 1e-4):
        assert not stopping.at_rest([], [-10.0], tol)
        assert stopping.at_rest([0], [-10.0, -10.0], tol)
        assert not stopping.at_rest([0], [-10.0, -9.0], tol)
        assert not stopping.at_rest([1], [-10.0, -10.0], tol)
        assert stopping.at_rest([4, 0], [-99.0, -10.0, -10.0 + 1e-9], tol)
        assert not stopping.at_rest([0, 3], [-10.0, -10.0, -10.0], tol)
    assert not stopping.at_rest([4, 0], [-10.0, -10.0, -10.0 + 1e-7], 0)
    # The bound itself is held to a tenth of the tolerance.
    assert stopping.at_rest([4, 0], [-10.0, -10.0, -10.0 + 9e-5], 1e-4)
    assert not stopping.at_rest([4, 0], [-10.0, -10.0, -10.0 + 1.1e-4], 1e-4)


# The loop with scripted methods


def test_history_holds_one_entry_per_sweep():
    reports = climbing(4)
    result = run_scripted(ScriptedMethod(reports), max_iter=4)
    assert result.ending == "max_iter"
    history = result.history.as_arrays()
    assert list(history) == [
        "evidence",
        "n_components",
        "n_changed",
        "train_log_likelihood",
        "proven",
        "seconds",
    ]
    assert history["evidence"].tolist() == [r.evidence for r in reports]
    assert history["train_log_likelihood"].tolist() == [r.train_log_likelihood for r in reports]
    assert result.evidence == reports[-1].evidence


def test_ends_when_blocks_agree():
    result = run_scripted(ScriptedMethod(climbing(20, likelihood=-1.0)))
    assert result.ending == "converged"
    assert len(result.history.sweeps) == 10


def test_tol_zero_never_ends_by_the_blocks():
    result = run_scripted(ScriptedMethod(climbing(20, likelihood=-1.0)), tol=0)
    assert result.ending == "max_iter"
    assert len(result.history.sweeps) == 20


def test_ends_when_at_rest_even_with_tol_zero():
    reports = [sweep(-9.0), sweep(-8.0), sweep(-8.0, n_changed=0), sweep(-7.0)]
    result = run_scripted(ScriptedMethod(reports), tol=0)
    assert result.ending == "converged"
    assert len(result.history.sweeps) == 3


def test_first_sweep_can_be_at_rest():
    method = ScriptedMethod([sweep(-8.0, n_changed=0)], initial=-8.0)
    assert len(run_scripted(method).history.sweeps) == 1


class ClosingMethod(ScriptedMethod):
    """A scripted method that looks again so many times before a run may end."""

    def __init__(self, n_looks, *runs):
        super().__init__(*runs)
        self.looks, self.n_looks = [], n_looks

    def look_again(self, context, state):
        self.looks.append(state["step"])
        return len(self.looks) <= self.n_looks


def test_a_method_may_look_again_before_a_run_ends():
    method = ClosingMethod(2, [*climbing(3), sweep(-97.0, n_changed=0)])
    result = run_scripted(method, tol=0)
    assert result.ending == "converged"
    assert method.looks == [5, 6, 7]  # the bound still rises in the first sweep at rest
    assert len(result.history.sweeps) == 7


def test_a_method_that_looks_again_and_again_ends_with_its_sweeps():
    result = run_scripted(ClosingMethod(100, [sweep(-97.0, n_changed=0)]), tol=0)
    assert result.ending == "max_iter"
    assert len(result.history.sweeps) == 20


def test_a_method_with_something_left_to_try_is_not_asked_to_look_again():
    unfinished = SweepRecord(-97.0, 2, 0, -1.0, unfinished=True)
    method = ClosingMethod(1, [unfinished] * 4 + [sweep(-97.0, n_changed=0)])
    run_scripted(method, tol=0)
    assert method.looks == [5, 6]


def test_best_restart_is_kept_with_its_own_history():
    method = ScriptedMethod(climbing(3, -50.0), climbing(3, -10.0), climbing(3, -30.0))
    result = run_scripted(method, n_runs=3, max_iter=3)
    assert method.n_inits == 3
    assert result.evidence == -8.0
    assert [sweep.evidence for sweep in result.history.sweeps] == [-10.0, -9.0, -8.0]
    assert result.state["restart"] == 2


def test_no_sweep_at_all():
    result = run_scripted(ScriptedMethod(climbing(3), initial=-77.0), max_iter=0)
    assert result.ending == "max_iter"
    assert result.evidence == -77.0
    assert all(len(values) == 0 for values in result.history.as_arrays().values())


def test_callbacks_see_every_sweep_of_every_restart():
    seen = []
    method = ScriptedMethod(climbing(2, -50.0), climbing(2, -10.0))
    run_scripted(method, n_runs=2, max_iter=2, callbacks=[seen.append])
    assert [(p.restart, p.iteration) for p in seen] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert [p.evidence for p in seen] == [-50.0, -49.0, -10.0, -9.0]
    assert [p.state["restart"] for p in seen] == [1, 1, 2, 2]
    assert all(isinstance(p, Progress) for p in seen)
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(seen))


def test_callback_that_returns_true_ends_everything():
    calls = []

    def stop_in_second_sweep(progress):
        calls.append("first")
        return progress.iteration == 2

    method = ScriptedMethod(climbing(9, -50.0), climbing(9, -10.0))
    others = [stop_in_second_sweep, lambda _: calls.append("second")]
    result = run_scripted(method, n_runs=2, callbacks=others)
    assert result.ending == "callback"
    assert len(result.history.sweeps) == 2
    assert method.n_inits == 1
    assert calls == ["first", "second"] * 2


@pytest.mark.parametrize("answer", [None, False, 0, 1, "yes", [True]])
def test_only_true_itself_ends_the_fit(answer):
    result = run_scripted(ScriptedMethod(climbing(3)), max_iter=3, callbacks=[lambda _: answer])
    assert result.ending == "max_iter"


def test_the_answer_may_be_a_comparison_of_numbers():
    """Which is NumPy's True."""
    result = run_scripted(
        ScriptedMethod(climbing(3)), max_iter=3, callbacks=[lambda _: np.float64(1.0) < 2.0]
    )
    assert result.ending == "callback" and len(result.history.sweeps) == 1


def test_interruption_in_a_later_restart_keeps_the_better_one():
    def interrupt_second(progress):
        if progress.restart == 2:
            raise KeyboardInterrupt

    method = ScriptedMethod(climbing(3, -10.0), climbing(3, -50.0), climbing(3, -1.0))
    result = run_scripted(method, n_runs=3, max_iter=3, callbacks=[interrupt_second])
    assert result.interrupted
    assert result.ending == "max_iter"  # that of the run which is kept
    assert result.state["restart"] == 1
    assert [sweep.evidence for sweep in result.history.sweeps] == [-10.0, -9.0, -8.0]
    assert method.n_inits == 2


def test_time_limit_ends_before_the_next_sweep():
    method = ScriptedMethod(climbing(99), on_step=lambda *_: time.sleep(0.03))
    result = run_scripted(method, n_runs=3, tol=0, max_iter=99, time_limit=0.05)
    assert result.ending == "time_limit"
    assert 1 <= len(result.history.sweeps) <= 2
    assert method.n_inits == 1


def test_sweeps_are_told_when_time_is_up():
    answers = []

    def wait_until_told(should_stop):
        answers.append(should_stop())
        deadline = time.perf_counter() + 5.0
        while not should_stop() and time.perf_counter() < deadline:
            time.sleep(0.001)
        answers.append(should_stop())

    result = run_scripted(ScriptedMethod(climbing(9), on_step=wait_until_told), time_limit=0.02)
    assert result.ending == "time_limit"
    assert answers == [False, True]


def test_stopwatch():
    assert not Stopwatch(None).expired()
    assert Stopwatch(0).expired()
    assert not Stopwatch(60.0).expired()
    watch = Stopwatch(None)
    assert 0.0 <= watch.seconds() <= watch.seconds() < 60.0


# Interruption


def test_first_interrupt_lets_the_sweep_finish(python_interrupts):
    told = []

    def interrupt(should_stop):
        signal.raise_signal(signal.SIGINT)
        told.append(should_stop())

    result = run_scripted(ScriptedMethod(climbing(9), climbing(9), on_step=interrupt), n_runs=2)
    assert result.ending == "interrupted"
    assert told == [True]
    assert len(result.history.sweeps) == 1
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_second_interrupt_acts_at_once(python_interrupts):
    reached = []

    def interrupt_twice(should_stop):
        signal.raise_signal(signal.SIGINT)
        reached.append("after the first")
        signal.raise_signal(signal.SIGINT)
        reached.append("after the second")

    with pytest.raises(KeyboardInterrupt):
        run_scripted(ScriptedMethod(climbing(9), on_step=interrupt_twice))
    assert reached == ["after the first"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_foreign_handlers_are_left_alone(python_interrupts):
    caught, during = [], []

    def own_handler(signum, frame):
        caught.append(signum)

    def look(should_stop):
        during.append(signal.getsignal(signal.SIGINT))
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGINT, own_handler)
    result = run_scripted(ScriptedMethod(climbing(2), on_step=look), max_iter=2)
    assert during == [own_handler, own_handler]
    assert caught == [signal.SIGINT] * 2
    assert signal.getsignal(signal.SIGINT) is own_handler
    assert result.ending == "max_iter"


def test_deferred_interrupt_restores_the_handler_after_an_error(python_interrupts):
    with pytest.raises(RuntimeError, match="inside"), deferred_interrupt() as interruption:
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
        assert not interruption.requested
        raise RuntimeError("inside")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_fits_outside_the_main_thread(python_interrupts, data, make):
    models = []
    thread = threading.Thread(
        target=lambda: models.append(make(4, random_state=0, max_iter=3, tol=0).fit(data))
    )
    thread.start()
    thread.join()
    here = make(4, random_state=0, max_iter=3, tol=0).fit(data)
    np.testing.assert_array_equal(models[0].components_, here.components_)


def test_interrupt_by_signal_during_a_long_fit(python_interrupts):
    data = np.random.default_rng(0).random((4000, 200))
    settings = {"n_components": 20, "tol": 0, "noise_std": 0.1, "random_state": 0}
    plain(**settings, max_iter=1).fit(data[:30])  # compiled from here on
    timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
    started = time.perf_counter()
    timer.start()
    try:
        model = plain(**settings, max_iter=10_000)
        with pytest.raises(KeyboardInterrupt):
            model.fit(data)
    finally:
        timer.join()
    assert time.perf_counter() - started < 20.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert not model.converged_ and model.ending_ == "interrupted"
    assert model.n_iter_ == len(model.history_["evidence"]) >= 1
    assert model.evidence_ == model.history_["evidence"][-1]
    assert model.assignments_.shape == (4000, model.n_components_)
    np.testing.assert_array_equal(model.feature_counts_, model.assignments_.sum(axis=0))
    assert (model.feature_counts_ > 0).all()
    assert np.isfinite(model.score(data[:50]))


# The estimator's use of the loop


def test_keyboard_interrupt_in_a_callback(python_interrupts, data, make):
    def interrupt(progress):
        if progress.iteration == 2:
            raise KeyboardInterrupt

    model = make(4, init="random", callbacks=interrupt, random_state=0, tol=0)
    for fit in (model.fit, model.fit_transform):
        with pytest.raises(KeyboardInterrupt, match="keeps what it found in 2 sweeps") as caught:
            fit(data)
        assert caught.value.model is model
    assert model.n_iter_ == 2 and model.ending_ == "interrupted"
    assert not model.converged_
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    reference = make(4, init="random", random_state=0, tol=0, max_iter=2).fit(data)
    np.testing.assert_array_equal(model.components_, reference.components_)
    np.testing.assert_array_equal(model.transform(data), reference.transform(data))


def test_an_interrupted_fit_ends_a_search_over_parameters(data):
    def interrupt(progress):
        started.append(progress)
        raise KeyboardInterrupt

    started = []
    search = GridSearchCV(plain(4, callbacks=[interrupt]), {"alpha": [1.0, 2.0]}, cv=2)
    with pytest.raises(KeyboardInterrupt):
        search.fit(data)
    assert len(started) == 1


def test_the_function_hands_over_an_interrupted_model(data):
    def interrupt(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        ibp.fit(data, method="bnmf", n_components=2, callbacks=interrupt, random_state=0)
    assert caught.value.model.ending_ == "interrupted" and caught.value.model.n_iter_ == 1
    again = pickle.loads(pickle.dumps(FitInterrupted(plain(2))))  # as it comes from a process
    assert isinstance(again.model, MEIBP)


def test_callback_error_passes_through(python_interrupts, data):
    def fail(progress):
        raise RuntimeError("callback failed")

    blas_before = [(lib["filepath"], lib["num_threads"]) for lib in threadpool_info()]
    with pytest.raises(RuntimeError, match="callback failed"):
        plain(4, callbacks=[fail], random_state=0).fit(data)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [(lib["filepath"], lib["num_threads"]) for lib in threadpool_info()] == blas_before


def test_callbacks_are_told_what_the_history_holds(data):
    seen = []
    model = plain(4, callbacks=(seen.append,), random_state=0, max_iter=3, tol=0).fit(data)
    assert [p.iteration for p in seen] == list(range(1, model.n_iter_ + 1))
    for name, values in model.history_.items():
        assert [getattr(p, name) for p in seen] == values.tolist()
    assert all(p.restart == 1 for p in seen)
    assert seen[-1].state.n_components == model.n_components_


def test_callback_returning_true_ends_the_fit_without_a_warning(data):
    model = plain(4, callbacks=lambda p: p.iteration == 2, random_state=0, tol=0).fit(data)
    assert model.n_iter_ == 2
    assert not model.converged_


def test_callbacks_do_not_change_the_fit(data, make):
    seen = []
    with_callback = make(4, callbacks=seen.append, random_state=0).fit(data)
    without = make(4, random_state=0).fit(data)
    np.testing.assert_array_equal(with_callback.components_, without.components_)
    np.testing.assert_array_equal(with_callback.history_["evidence"], without.history_["evidence"])


def test_time_limit_zero_gives_the_start(data, make):
    with pytest.warns(ConvergenceWarning, match="within 0 s, .* 0 sweeps; increase time_limit"):
        model = make(4, time_limit=0, random_state=0).fit(data)
    assert model.n_iter_ == 0
    assert not model.converged_
    assert all(values.shape == (0,) for values in model.history_.values())
    assert np.isfinite(model.evidence_)
    assert model.transform(data).shape == (60, model.n_components_)
    assert model.assignments_.shape == (60, model.n_components_)


def test_tiny_time_limit_ends_a_long_fit_soon():
    data = np.random.default_rng(0).random((4000, 200))
    settings = {"n_components": 20, "noise_std": 0.1, "random_state": 0, "tol": 0}
    plain(**settings, max_iter=1).fit(data[:30])
    started = time.perf_counter()
    model = plain(**settings, time_limit=0.2, max_iter=10_000).fit(data)
    assert time.perf_counter() - started < 10.0
    assert not model.converged_
    assert model.n_iter_ >= 1
    assert model.history_["seconds"][-1] >= 0.2
    np.testing.assert_array_equal(model.feature_counts_, model.assignments_.sum(axis=0))
    assert model.evidence_ == model.history_["evidence"][-1]


def test_max_iter_zero(data):
    with pytest.warns(ConvergenceWarning, match="max_iter"):
        warned = plain(4, max_iter=0, random_state=0).fit(data)
    silent = plain(4, max_iter=0, tol=0, random_state=0).fit(data)
    assert warned.n_iter_ == silent.n_iter_ == 0
    assert not warned.converged_
    assert warned.evidence_ == pytest.approx(sum(warned.evidence_parts_.values()))
    np.testing.assert_array_equal(warned.components_, silent.components_)
    assert warned.score(data) == silent.score(data)


def test_no_convergence_warning_when_tol_is_zero(data):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plain(4, max_iter=1, tol=0, random_state=0).fit(data)


def test_verbose_prints_a_line_per_sweep(capsys, data):
    model = plain(4, verbose=1, n_init=2, random_state=0, max_iter=3, tol=0).fit(data)
    lines = capsys.readouterr().out.splitlines()
    assert 2 <= len(lines) <= 6
    assert len(lines) >= model.n_iter_
    assert all("evidence" in line and "features" in line for line in lines)
    assert any(f"{model.evidence_:.2f}" in line for line in lines)
    plain(4, random_state=0, max_iter=3, tol=0).fit(data)
    assert capsys.readouterr().out == ""


def test_verbose_goes_with_callbacks(capsys, data):
    seen = []
    model = plain(4, verbose=1, callbacks=seen.append, random_state=0, max_iter=2, tol=0).fit(data)
    assert len(capsys.readouterr().out.splitlines()) == len(seen) == model.n_iter_


def test_what_is_said_of_tol_is_what_ends_a_fit(data):
    model = plain(3, tol=0, max_iter=10_000, random_state=0).fit(data)
    assert model.ending_ == "converged"  # though no change is below 0
    assert "1e-9" in MEIBP.__doc__ and stopping.LEAST_CHANGE == 1e-9
    assert "1e-9" in (Path(__file__).parents[1] / "docs" / "mathematics.md").read_text()


def test_processor_time_leaves_out_what_others_take():
    with processor_time():
        stopwatch = Stopwatch(0.05)
    on_the_wall = Stopwatch(0.05)
    time.sleep(0.1)
    assert on_the_wall.expired()
    assert not stopwatch.expired()
    while not stopwatch.expired():  # work counts
        sum(range(1000))
    assert stopwatch.seconds() < on_the_wall.seconds()
