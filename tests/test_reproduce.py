"""The paper's figures made anew: cells, tables, resuming, limits, and every study in small."""

from __future__ import annotations

import csv
import math
import time
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ibp.datasets import make_binary_factors
from ibp.errors import InputError
from ibp.evaluate import HeldOut
from ibp.registry import METHODS
from ibp.reproduce import (
    figure_1,
    figure_2,
    figure_3_small,
    figure_4_yale,
    learning_k,
    pages,
    paper,
    real_data,
    synthetic,
    table_1,
)
from ibp.reproduce.fits import Fit, Task, fit_after, fit_cell, fit_unscored, run_fit
from ibp.reproduce.protocols import PUBLISHED, SHIPPED, estimator, offset_of
from ibp.reproduce.running import CUT, SPAN, InThisProcess, Ledger, make_folder, restarts, run_cells
from ibp.reproduce.study import (
    NAMES,
    Cell,
    Options,
    Outcome,
    Page,
    Results,
    Study,
    all_of,
    greater,
    study_of,
)
from ibp.reproduce.tables import (
    POINT_COLUMNS,
    number,
    read_rows,
    select,
    settings_of,
    settings_text,
    write_rows,
)

QUICK = Options(quick=True)


@pytest.fixture(scope="module")
def task():
    drawn = make_binary_factors(60, 30, 3, random_state=0)
    return Task.of(HeldOut.of(drawn.data, 0), data="synthetic")


# ---------------------------------------------------------------- the paper's values


def test_the_papers_values_are_those_of_its_source():
    values = {value.x: value.y for value in paper.values("figure-1", "local search optimum")}
    assert values[2] == 1.0 and values[12] == pytest.approx(0.72548, abs=1e-5)
    found = [value.y for value in paper.values("learning-k")]
    assert len(found) == 100 and found.count(4) == 68 and found.count(3) == 19
    best = max(paper.values("figure-3-small"), key=lambda value: value.y)
    assert best.series == "ugibbs"
    assert {value.figure for value in paper.all_values()} <= set(NAMES)
    assert all(value.exact for value in paper.values("figure-1"))
    assert not any(value.exact for value in paper.values("figure-4-piano"))


# ---------------------------------------------------------------- tables


def test_tables_come_back_as_they_were(tmp_path):
    path = tmp_path / "runs.csv"
    row = {"cell": "a, b", "seconds": 1.25, "iterations": 3, "ending": None, "extra": 1e-12}
    write_rows(path, [row], ("cell", "seconds"))
    (back,) = read_rows(path)
    assert list(back)[:2] == ["cell", "seconds"]
    assert back["cell"] == "a, b" and number(back, "seconds") == 1.25
    assert math.isnan(number(back, "ending")) and number(back, "extra") == 1e-12
    assert read_rows(tmp_path / "nothing.csv") == []


def test_a_torn_table_is_refused(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_text("cell,size\na\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line 2"):
        read_rows(path)


def test_settings_are_selected_by_name():
    rows = [{"method": "m", "settings": settings_text(K=k, data="d", none=None)} for k in (10, 25)]
    assert settings_of(rows[0]) == {"K": "10", "data": "d"}
    assert select(rows, K=25, method="m") == rows[1:]


# ---------------------------------------------------------------- cells


class Crew(InThisProcess):
    """Knows which cells it was given."""

    def __init__(self, study):
        self.study, self.names = study, []

    def submit(self, name, cell, options):
        self.names.append(cell.name)
        future = Future()
        future.set_result((self.study.run(cell, options), 0.01))
        return future


def study_with(endings, budget=None, n_restarts=3):
    """A study of settings a, b, ... with three restarts; each ends as said."""

    def cells(options):
        settings = [
            Cell(name, {"method": name, "time_limit": options.limit(1.0, 1.0)}, seconds=2.0)
            for name in endings
        ]
        return [cell for setting in settings for cell in restarts(setting, n_restarts)]

    def run(cell, options):
        row = {
            "method": cell.parameters["method"],
            "seconds": 1.0,
            "ending": endings[cell.parameters["method"]],
            "seed": cell.restart,
            "time_limit": cell.parameters["time_limit"],
        }
        return Outcome([row], [{"seconds": 0.5}])

    return Study(
        "figure-1",
        "Title",
        cells,
        run,
        lambda figure, results: None,
        lambda results: Page(["p"], ["s"]),
        restart_seconds=budget,
    )


def run_study(study, folder, options, crew, **more):
    """Run a study's plan in a folder."""
    ledger = Ledger.open(folder, options, study.cells(options))
    return run_cells(study, ledger, crew, **more)


def test_what_is_done_is_not_done_again(tmp_path):
    study = study_with({"a": "converged", "b": CUT})
    crew = Crew(study)
    told = []
    results = run_study(study, tmp_path, Options(), crew, told=told.append)
    # The first of b was cut, so that it is not repeated.
    assert sorted(crew.names) == ["a, seed 0", "a, seed 1", "a, seed 2", "b, seed 0"]
    assert len(results.runs) == len(results.points) == 4
    assert told[-1].done == told[-1].total == 4 and told[0].done == 0 and told[0].left > 0
    again = Crew(study)
    run_study(study, tmp_path, Options(), again)
    assert again.names == []


def test_an_interrupted_run_goes_on_where_it_was(tmp_path):
    study = study_with({"a": "converged"})

    class Broken(Crew):
        def submit(self, name, cell, options):
            if len(self.names) == 2:
                raise KeyboardInterrupt
            return super().submit(name, cell, options)

    first, second = Broken(study), Crew(study)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path, Options(), first)
    results = run_study(study, tmp_path, Options(), second)
    assert first.names + second.names == ["a, seed 0", "a, seed 1", "a, seed 2"]
    assert [row["cell"] for row in results.runs] == first.names + second.names


def test_points_of_a_run_that_was_not_finished_are_forgotten(tmp_path):
    write_rows(tmp_path / "points.csv", [{"cell": "a, seed 0", "seconds": 1.0}], POINT_COLUMNS)
    plan = study_with({"a": "converged"}).cells(Options())
    assert Ledger.open(tmp_path, Options(), plan).points == []


def test_a_longer_limit_runs_again_what_a_shorter_one_ended(tmp_path):
    study = study_with({"a": "converged", "b": CUT, "c": SPAN}, n_restarts=1)
    run_study(study, tmp_path, Options(), Crew(study))

    class Broken(Crew):
        def submit(self, name, cell, options):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path, Options(time_limit=2.0), Broken(study))
    # Curves stay until others take their place.
    assert len(read_rows(tmp_path / "points.csv")) == 3
    shorter, longer = Crew(study), Crew(study)
    run_study(study, tmp_path, Options(time_limit=0.5), shorter)
    run_study(study, tmp_path, Options(time_limit=2.0), longer)
    assert shorter.names == [] and longer.names == ["b, seed 0", "c, seed 0"]


def test_restarts_end_with_their_budget_however_often_it_is_run(tmp_path):
    study = study_with({"a": "converged"}, budget=1.5)
    first, second, asked = (Crew(study) for _ in range(3))
    run_study(study, tmp_path, Options(), first)
    run_study(study, tmp_path, Options(), second)
    assert first.names == ["a, seed 0", "a, seed 1"] and second.names == []
    run_study(study, tmp_path, Options(restarts=3), asked)
    assert asked.names == ["a, seed 2"]


def test_rows_that_are_in_no_plan_are_dropped_and_others_are_in_its_order(tmp_path):
    before = study_with({"old": "converged", "b": "converged", "a": "converged"})
    run_study(before, tmp_path, Options(), Crew(before))
    after = study_with({"a": "converged", "b": "converged"}, n_restarts=2)
    results = run_study(after, tmp_path, Options(), Crew(after))
    # Fewer restarts are asked for; those that were made are kept.
    assert [row["cell"] for row in results.runs] == [
        "a, seed 0",
        "a, seed 1",
        "b, seed 0",
        "b, seed 1",
        "b, seed 2",
        "a, seed 2",
    ]
    assert {row["cell"] for row in results.points} == {row["cell"] for row in results.runs}


def test_what_is_done_is_not_in_the_estimate(tmp_path):
    pytest.importorskip("typer")
    from ibp.cli.reproduce import seconds_left

    study = study_with({"a": "converged", "b": CUT})
    plan = study.cells(Options())
    assert seconds_left([study], [Ledger.open(tmp_path, Options(), plan)]) == 12.0
    run_study(study, tmp_path, Options(), Crew(study))
    assert seconds_left([study], [Ledger.open(tmp_path, Options(), plan)]) == 0.0


@pytest.mark.parametrize("content", [b"cell,size\na,full\n", b"cell\n\xff\n"])
def test_a_table_of_others_is_refused(tmp_path, content):
    (tmp_path / "runs.csv").write_bytes(content)
    with pytest.raises(InputError, match=r"is no table of ours.*name another folder"):
        Ledger.open(tmp_path, Options(), [])


def test_quick_runs_and_full_ones_do_not_meet(tmp_path):
    study = study_with({"a": "converged"})
    run_study(study, tmp_path, QUICK, Crew(study))
    with pytest.raises(InputError, match="holds quick runs, and these would be full"):
        run_study(study, tmp_path, Options(), Crew(study))


# ---------------------------------------------------------------- fits


@pytest.mark.parametrize("label", METHODS)
def test_every_method_is_recorded(task, label):
    fit = Fit(PUBLISHED, label, 3, 0, 20.0, changes={"max_iter": 12})
    outcome = run_fit(fit, task)
    (run,) = outcome.runs
    assert run["ending"] in ("converged", "max_iter") and run["n_hidden"] == 180
    assert outcome.points[-1]["iterations"] == run["iterations"] <= 12
    assert -8.0 < run["test_log_likelihood"] < -1.0 and -8.0 < run["own_log_likelihood"] < -1.0


def test_the_protocols_differ_in_settings_and_offsets(task):
    seen = task.held_out.training
    published = estimator(PUBLISHED, "f-vibp", 3)
    assert not published.fit_intercept and not published.learn_hyperparameters
    np.testing.assert_allclose(
        np.nanmean(seen + offset_of(PUBLISHED, published, seen), axis=0), 0.0, atol=1e-12
    )
    nonnegative = estimator(PUBLISHED, "meibp", 3)
    assert np.nanmin(seen + offset_of(PUBLISHED, nonnegative, seen)) == 0.0
    shipped = estimator(SHIPPED, "f-vibp", 3)
    assert shipped.fit_intercept and shipped.learn_hyperparameters
    assert offset_of(SHIPPED, shipped, seen) == 0.0
    assert estimator(SHIPPED, "ugibbs", 3).n_components is None
    assert published.n_jobs == shipped.n_jobs == 1


def test_a_chain_runs_for_its_span_and_others_are_cut(task):
    span = run_fit(Fit(PUBLISHED, "t-ugibbs", 3, 0, 0.05, span=True), task, own=False)
    assert span.runs[0]["ending"] == SPAN and span.runs[0]["seconds"] >= 0.05
    cut = run_fit(Fit(PUBLISHED, "t-ugibbs", 3, 0, 0.0, changes={"tol": 0.0}), task, own=False)
    assert cut.runs[0]["ending"] == CUT


def test_methods_without_a_number_of_features_have_none_in_their_rows(task):
    start = synthetic.start_of(PUBLISHED, "aibp", len(task.held_out.data), 3, 0)
    assert start["init"]["Z"].shape == (60, 3)
    assert synthetic.start_of(PUBLISHED, "t-aibp", 60, 3, 0) == {}
    assert synthetic.start_of(SHIPPED, "aibp", 60, 3, 0) == {}
    fit = Fit(PUBLISHED, "aibp", 3, 0, 20.0, changes={"max_iter": 2} | start)
    (run,) = run_fit(fit, task, own=False).runs
    assert "K" not in settings_of(run)
    cells = [*study_of("figure-3-small").cells(QUICK), *study_of("figure-3-large").cells(QUICK)]
    for cell in cells:
        if cell.parameters["label"] in ("aibp", "ugibbs"):
            assert cell.parameters["n_components"] is None and "unbounded" in cell.name


@pytest.mark.parametrize("label", ["meibp", "f-vibp", "t-aibp"])
def test_all_are_fitted_at_one_noise_level_as_published(task, label):
    fit = Fit(PUBLISHED, label, 3, 0, 20.0, changes={"max_iter": 1})
    model, _ = fit_unscored(fit, task)
    assert model.noise_std_ == model.factor_std_ == pytest.approx(task.noise_std)
    assert Fit(SHIPPED, label, 3, 0, 20.0).estimator(task).noise_std is None


def test_scoring_is_off_the_clock_of_a_fit(task, monkeypatch):
    score = HeldOut.score

    def slow(*given):
        time.sleep(0.02)
        return score(*given)

    monkeypatch.setattr(HeldOut, "score", slow)
    fit = Fit(PUBLISHED, "t-ugibbs", 3, 0, 0.2, span=True, changes={"max_iter": 12})
    (run,) = run_fit(fit, task, own=False).runs
    # Each sweep is scored twice, at two noise levels: in all for more than twice the limit.
    assert run["ending"] == "max_iter" and run["iterations"] == 12


@pytest.mark.parametrize("time_limit", [0.0, 0.1])
def test_a_fit_after_meibp_has_what_that_left(task, time_limit):
    outcome = fit_after("meibp", Fit(PUBLISHED, "meibp+aibp", 3, 0, time_limit), task, {})
    (run,) = outcome.runs
    assert run["time_limit"] == time_limit and run["method"] == "meibp+aibp"
    assert 0.0 < outcome.points[0]["seconds"] <= run["seconds"]


def test_a_tempered_chain_counts_all_of_its_sweeps(task):
    fit = Fit(PUBLISHED, "t-ugibbs", 3, 0, 0.2, span=True, condition=figure_3_small.TEMPERED)
    (run,) = figure_3_small.tempered(fit, task).runs
    plain = run_fit(replace(fit, time_limit=0.05, condition=None), task, own=False).runs[0]
    assert run["seconds"] >= 0.2 and run["iterations"] > 1.5 * plain["iterations"]


def test_rescaling_the_data_changes_no_draw_of_a_published_chain(task):
    held_out, factor = task.held_out, 8.0
    scaled = Task.of(HeldOut(factor * held_out.data, held_out.hidden), data="synthetic")
    fit = Fit(PUBLISHED, "t-ugibbs", 3, 0, 20.0, changes={"max_iter": 10})
    one, other = (run_fit(fit, data, own=False).runs[0] for data in (task, scaled))
    assert other["test_log_likelihood"] + np.log(factor) == pytest.approx(
        one["test_log_likelihood"], abs=1e-6
    )


def test_a_cell_is_named_by_what_it_fits():
    cell = fit_cell(Fit(SHIPPED, "aibp", None, 0, 1.0))
    assert cell.name == "as shipped, aibp, unbounded"
    assert [c.parameters["seed"] for c in restarts(cell, 2)] == [0, 1]


# ---------------------------------------------------------------- figures


def test_the_local_search_is_as_good_as_published_and_exact_finds_all():
    cell = Cell(
        "c", {"K": 8, "probability": 0.4, "scale": 0.5, "data_set": 0, "n_optimizations": 1000}
    )
    rows = {row["method"]: row for row in figure_1.run(cell, QUICK).runs}
    assert rows["exact"]["optimal"] == 1.0
    assert 0.8 < rows["local search"]["optimal"] < rows["local search, exchanges"]["optimal"]
    assert rows["local search"]["near_optimal"] > 0.98
    assert rows["random"]["optimal"] < 0.02
    assert rows["nearest plane"]["near_optimal"] > rows["random"]["near_optimal"]


def test_updates_are_k_for_each_feature_that_is_chosen():
    for active in ("half", "few"):
        cell = Cell("c", {"K": 40, "active": active, "data_set": 0, "n_rows": 100})
        published, _ = figure_2.run(cell, QUICK).runs
        assert published["updates"] / 40 / (published["chosen"] + 1) == pytest.approx(1.1, abs=0.3)


def test_a_growth_is_told_with_its_error():
    sizes = np.array([10.0, 20.0, 40.0, 80.0, 160.0, 320.0])
    noisy = np.exp([0.0, 0.0, 0.0, 0.01, -0.01, 0.01])
    for power, factor, below in ((2.0, noisy, None), (1.0, noisy, True), (2.5, 1.0, False)):
        found = figure_2.exponent(sizes, sizes**power * factor)
        assert found.value == pytest.approx(power, abs=0.1) and found.below_two is below
    assert figure_2.exponent(sizes[:3], sizes[:3]).below_two is None  # two points have no error


@pytest.mark.parametrize("name", NAMES)
def test_without_data_no_claim_is_decided(name):
    page = study_of(name).describe(Results())
    assert page.claims and all(claim.seen is None for claim in (*page.claims, *page.orders))


def test_a_claim_is_open_if_one_of_its_parts_is():
    assert all_of([True, None]) is None and all_of([]) is None
    assert all_of([True, True]) is True and all_of([None, False]) is False
    assert greater(math.nan, 1.0) is None and greater(2.0, 1.0) is True


def test_the_recipe_of_figure_1_is_the_one_nearest_to_the_paper():
    runs = []
    for probability, scale in figure_1.RECIPES:
        for series, (method, column) in figure_1.SERIES.items():
            off = 0.0 if (probability, scale) == (0.5, 1.0) else 0.1
            value = next(v.y for v in paper.values("figure-1", series) if v.x == 4)
            runs.append(
                {
                    "method": method,
                    "n_components": 4,
                    "settings": settings_text(K=4, probability=probability, scale=scale),
                    column: value - off,
                }
            )
    assert figure_1.nearest_recipe(Results(runs)) == (0.5, 1.0)
    assert figure_1.distance(Results(runs), (0.4, 0.5)) == pytest.approx(0.04)


def test_a_sweep_that_was_broken_off_is_none():
    ends = [1.0, 3.0, 4.5, 4.6]
    assert table_1.whole_sweeps(ends, cut=False).min() == pytest.approx(0.1)
    assert table_1.whole_sweeps(ends, cut=True).min() == pytest.approx(1.5)
    assert table_1.whole_sweeps([2.0], cut=False).tolist() == [2.0]
    assert table_1.whole_sweeps([2.0], cut=True).size == 0


def test_a_curve_arrives_when_little_of_its_way_is_left():
    seconds, scores = np.array([1.0, 2.0, 3.0, 4.0]), np.array([-10.0, -5.0, -1.05, -1.0])
    assert synthetic.arrival(seconds, scores) == 3.0
    assert synthetic.arrival(seconds[:1], scores[:1]) == 1.0


def test_the_bottom_half_of_five_images_of_each_subject_is_hidden():
    subject = np.repeat([1, 2], 8)
    hidden = figure_4_yale.bottom_halves(subject, (4, 3)).reshape(16, 4, 3)
    assert not hidden[:, :2].any()
    assert [int(hidden[subject == s, 2:].all(axis=(1, 2)).sum()) for s in (1, 2)] == [5, 5]


def timed(method, k, seconds, ending="converged", score=0.0, data="d"):
    settings = settings_text(data=data, N=10, D=5, K=k)
    return {
        "protocol": PUBLISHED,
        "method": method,
        "settings": settings,
        "seconds": seconds,
        "ending": ending,
        "test_log_likelihood": score,
        "cell": f"{method}, {k}",
    }


@pytest.mark.parametrize(
    ("own", "other", "seen"),
    [
        ((1.0, "converged"), (20.0, "converged"), True),
        ((1.0, "converged"), (5.0, "converged"), False),
        ((1.0, "converged"), (20.0, CUT), True),  # it would have taken even longer
        ((1.0, "converged"), (5.0, CUT), None),
        ((45.0, CUT), (45.0, CUT), None),
        ((45.0, CUT), (20.0, "converged"), False),
    ],
)
def test_times_of_runs_that_were_cut_are_lower_bounds(own, other, seen):
    runs = [timed("a", 10, *own), timed("b", 10, *other), timed("b", 25, 1.0)]
    assert real_data.quicker(runs, "claim", ["a"], ["b"], 10.0).seen is seen


@pytest.mark.parametrize(
    ("own", "other", "seen"),
    [
        ((-1.0, "converged"), (-2.0, "converged"), True),
        ((-2.0, "converged"), (-1.0, "converged"), False),
        ((-1.0, "converged"), (-2.0, CUT), None),  # it may have risen
        ((-2.0, CUT), (-1.0, "converged"), None),
        ((-1.0, CUT), (-2.0, "converged"), True),
        ((math.nan, "converged"), (-2.0, "converged"), None),
    ],
)
def test_scores_of_runs_that_were_cut_are_not_final(own, other, seen):
    runs = [
        timed(method, 10, 1.0, ending, score)
        for method, (score, ending) in (("meibp", own), ("bnmf", other))
    ]
    assert real_data.ahead(runs, "claim", ["meibp"], ["bnmf"]).seen is seen
    assert synthetic.ahead(Results(runs), "claim", ["meibp"], ["bnmf"]).seen is seen


def test_where_a_curve_that_was_cut_would_arrive_is_not_known():
    for ending, seen in (("converged", True), (CUT, None)):
        runs = [timed("meibp", 10, 1.0), timed("bnmf", 10, 3.0, ending)]
        points = [
            {**row, "seconds": row["seconds"] * place, "test_log_likelihood": -1.0 / place}
            for row in runs
            for place in (1.0, 2.0)
        ]
        found = synthetic.sooner(Results(runs, points), "claim", ["meibp"], ["bnmf"])
        assert found.seen is seen


def test_bnmf_is_below_all_ibp_models_or_not_at_all():
    labels = [label for label in real_data.TRUNCATED if label != "bnmf"]
    runs = [timed("bnmf", 10, 1.0, score=-2.0)]
    runs += [timed(label, 10, 1.0, score=-1.0) for label in labels]
    (*_, claim) = figure_4_yale.claims(Results(runs))
    assert claim.seen is True
    runs[-1]["test_log_likelihood"] = -3.0
    (*_, claim) = figure_4_yale.claims(Results(runs))
    assert claim.seen is False


def test_the_papers_values_stand_beside_its_own_size():
    runs = [
        timed("meibp", 10, 1.0, data=version.name) | {"n_hidden": 1, "n_components": 10}
        for version in figure_4_yale.SET.versions
    ]
    small, full = (
        figure_4_yale.SET.table([row], version.papers_size)
        for row, version in zip(runs, figure_4_yale.SET.versions, strict=True)
    )
    page = "\n".join(figure_4_yale.SET.describe(Results(runs[::-1])).seen)
    assert small != full and small in page and full in page
    # The first version is the one that claims are about, wherever its rows are.
    assert figure_4_yale.SET.main_runs(Results(runs[::-1])) == [runs[0]]


# The command below has all of figure 2.
@pytest.mark.parametrize("name", [name for name in NAMES if name != "figure-2"])
def test_studies_have_distinct_cells_and_pages_of_their_tables(name, tmp_path):
    """Each study is drawn and described from a few cells; CI runs all of them in full."""
    study = study_of(name)
    cells = study.cells(QUICK)
    assert study.name == name and len({cell.name for cell in cells}) == len(cells)
    few = [cell for cell in cells if cell.restart == 0]
    few = few[: 3 if name.startswith("figure-4") else 2]
    if name in ("table-1", "learning-k"):
        few = cells[:2]
    for cell in few:  # a hundredth of the work
        if "time_limit" in cell.parameters:
            cell.parameters["time_limit"] = 0.02
        if "n_optimizations" in cell.parameters:
            cell.parameters["n_optimizations"] = 20
    outcomes = [(cell, study.run(cell, QUICK)) for cell in few]
    ledger = Ledger(tmp_path, QUICK, cells)
    for cell, outcome in outcomes:
        ledger.add(cell, outcome)
    results = ledger.results()
    assert [row["size"] for row in results.runs] == ["quick"] * len(results.runs)
    text = pages.text_of(study, results, "picture.svg")
    assert "## What the paper says" in text and "quick run" in text
    pytest.importorskip("matplotlib")
    from ibp.reproduce import pictures

    for path in pictures.save(study, results, tmp_path):
        assert path.stat().st_size > 1000


def test_real_data_are_asked_for():
    study = study_of("figure-4-piano")
    with pytest.raises(InputError, match="name their folder with --data, or add --quick"):
        study.cells(Options())


def test_an_unknown_figure_is_refused():
    with pytest.raises(InputError, match="choose one of figure-1"):
        study_of("figure-9")


def test_learning_k_as_published_begins_with_twenty():
    cells = learning_k.cells(QUICK)
    (run,) = learning_k.run(cells[2], QUICK).runs
    assert 2 <= run["n_components"] <= 7 and run["protocol"] == PUBLISHED
    page = learning_k.describe(Results([run]))
    assert "68" in pages.sections(page)[1][1]
    cell = Cell("c", {**cells[2].parameters, "time_limit": 0.0})
    (run,) = learning_k.run(cell, QUICK).runs
    assert run["ending"] == CUT and run["time_limit"] == 0.0


def test_learning_k_tells_where_there_are_too_few_and_too_many():
    rows = [
        {"noise_std": level, "n_components": k, "protocol": PUBLISHED, "method": "meibp"}
        for level, k in ((0.1, 3), (0.2, 4), (0.9, 6))
    ]
    (told,) = learning_k.describe(Results(rows)).differ
    assert "too few at 1 of 3 levels, 0.10 (3); too many at 1 of 3 levels, 0.90 (6)" in told


# ---------------------------------------------------------------- the command


def test_the_command_writes_tables_picture_and_page(tmp_path, monkeypatch, capsys):
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    from ibp.cli.app import run

    monkeypatch.setattr(figure_2, "QUICK_SIZES", (10, 20))
    monkeypatch.setattr(figure_2, "QUICK_ROWS", 20)
    arguments = ["reproduce", "figure-2", "-o", str(tmp_path), "--quick"]
    assert run(arguments) == 0
    folder = tmp_path / "figure-2"
    assert {path.name for path in folder.iterdir()} == {
        "runs.csv",
        "figure-2.svg",
        "figure-2.png",
        "figure-2.md",
    }
    with (folder / "runs.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 12 and rows[0]["versions"].startswith("python ")
    before = (folder / "runs.csv").read_bytes()
    assert run([*arguments, "--json"]) == 0
    assert (folder / "runs.csv").read_bytes() == before
    capsys.readouterr()
    assert run(["reproduce", "figure-9", "-o", str(tmp_path)]) == 2
    assert "there is no 'figure-9'" in capsys.readouterr().err
    assert run(["reproduce", "all", "-o", str(tmp_path / "other")]) == 2
    assert "name their folder with --data" in capsys.readouterr().err
    assert not (tmp_path / "other").exists()
    assert run([*arguments, "--time-limit", "0"]) == 2
    assert "nothing can be fitted in no time" in capsys.readouterr().err


class Unmakeable(type(Path())):
    """A folder where none can be."""

    def mkdir(self, *given, **more):
        raise PermissionError(13, "Permission denied", str(self))


def test_a_folder_that_cannot_be_made_is_told_of_before_anything_runs(tmp_path, capsys):
    pytest.importorskip("typer")
    pytest.importorskip("matplotlib")
    from ibp.cli.app import run

    (tmp_path / "learning-k").write_text("", encoding="utf-8")
    assert run(["reproduce", "all", "-o", str(tmp_path), "--quick"]) == 2
    assert "learning-k is a file; name a folder" in capsys.readouterr().err
    with pytest.raises(InputError, match="cannot be made: .*; name another folder"):
        make_folder(Unmakeable(tmp_path / "other"))
