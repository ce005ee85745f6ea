"""scikit-learn's callback protocol, where the installed version has it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ibp import MEIBP, FiniteVIBP
from ibp.datasets import make_block_images

callback = pytest.importorskip("sklearn.callback", reason="scikit-learn 1.9 has callbacks")


class Recorder:
    """Writes down what it is told."""

    def __init__(self, stop_after=None):
        self.told = []
        self.models = []
        self.stop_after = stop_after

    def note(self, what, context):
        self.told.append((what, context.task_name, context.task_id, context.max_subtasks))

    def setup(self, estimator, context):
        self.note("setup", context)

    def on_fit_task_begin(self, estimator, context, *, X=None):
        self.note("begin", context)
        assert X is not None

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.note("end", context)
        if context.task_name == "sweep":
            self.models.append(fitted_estimator)
            return self.stop_after is not None and len(self.models) >= self.stop_after

    def teardown(self, estimator, context):
        self.note("teardown", context)


@pytest.fixture(scope="module")
def X():
    return make_block_images(80, noise_std=0.1, random_state=0).data


def test_a_fit_is_a_tree_of_restarts_and_sweeps(X):
    recorder = Recorder()
    model = MEIBP(4, n_init=2, init="random", max_iter=3, tol=0, random_state=0)
    model.set_callbacks(recorder).fit(X)
    sweeps = [(what, "sweep", sweep, 0) for sweep in range(3) for what in ("begin", "end")]
    restarts = [
        entry
        for restart in range(2)
        for entry in [("begin", "restart", restart, 3), *sweeps, ("end", "restart", restart, 3)]
    ]
    assert recorder.told == [
        ("setup", "fit", 0, 2),
        ("begin", "fit", 0, 2),
        *restarts,
        ("end", "fit", 0, 2),
        ("teardown", "fit", 0, 2),
    ]


def test_callbacks_get_a_model_which_later_sweeps_do_not_change(X):
    recorder = Recorder()
    settings = {"init": "random", "tol": 0, "random_state": 0}
    MEIBP(4, max_iter=4, **settings).set_callbacks(recorder).fit(X)
    short = MEIBP(4, max_iter=2, **settings).fit(X)
    second = recorder.models[1]
    assert second.n_iter_ == 2
    np.testing.assert_array_equal(second.components_, short.components_)
    np.testing.assert_array_equal(second.transform(X), short.transform(X))


def test_a_callback_ends_the_fit_and_is_told_so(X):
    recorder = Recorder(stop_after=2)
    model = MEIBP(4, n_init=3, tol=0, random_state=0).set_callbacks(recorder).fit(X)
    assert model.n_iter_ == 2 and model.ending_ == "callback"
    assert [what for what, *_ in recorder.told][-3:] == ["end", "end", "teardown"]


def test_callbacks_are_torn_down_when_a_fit_fails(X):
    recorder = Recorder()
    model = MEIBP(4, callbacks=["not callable"]).set_callbacks(recorder)
    with pytest.raises(ValueError, match="set_callbacks"):
        model.fit(X)
    assert [what for what, *_ in recorder.told].count("setup") == [
        what for what, *_ in recorder.told
    ].count("teardown")


def test_nothing_changes_for_who_has_none(X):
    with_callback = FiniteVIBP(4, random_state=0).set_callbacks(Recorder()).fit(X)
    without = FiniteVIBP(4, random_state=0).fit(X)
    np.testing.assert_array_equal(with_callback.components_, without.components_)


def test_callbacks_go_along_with_clones_and_through_pipelines(X):
    recorder = Recorder()
    cloned = clone(MEIBP(4, max_iter=2, tol=0).set_callbacks(recorder))
    make_pipeline(StandardScaler(), cloned).fit(X)
    assert recorder.told[0][0] == "setup" and recorder.models


def test_the_progress_bar_runs(X, capsys):
    pytest.importorskip("rich")
    MEIBP(4, n_init=2, max_iter=3, moves=False, random_state=0).set_callbacks(
        callback.ProgressBar()
    ).fit(X)
    shown = capsys.readouterr().out
    assert "MEIBP - fit" in shown and "restart" in shown
