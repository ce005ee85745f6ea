"""Pages in a browser, opened from disk: they work, load nothing, and add up."""

from __future__ import annotations

import warnings
from copy import copy

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits

import ibp
from browser import launched, opened
from ibp.report import write_comparison, write_report
from test_report import fit_weighted, make_weighted
from test_report_page import IMAGE, PANELS, SCRIPT, make_comparison

pytest.importorskip("jinja2", reason="jinja2 is not installed")

NARROW, WIDE = (390, 844), (1280, 900)
NAMES = ["digits", "table", "soft", "weights", "words", "real", "empty", "huge"]


@pytest.fixture(scope="module")
def browser():
    with launched() as program:
        yield program


@pytest.fixture(scope="module")
def fits():
    """Models with their data: pictures, a table with dangerous names, codes of each kind, none."""
    digits = load_digits().data[:400] / 16.0
    blocks = ibp.datasets.make_block_images(300, noise_std=0.3, random_state=0).data
    weights = make_weighted()
    rng = np.random.default_rng(0)
    table = (rng.random((120, 3)) < 0.4) @ np.kron(np.eye(3), [2.0, 3.0, 1.0])
    table = pd.DataFrame(table + rng.normal(0.0, 0.3, table.shape) + 1.0)
    long = "a_name_that_is_long_and_has_no_place_to_break_"
    table.columns = [SCRIPT, IMAGE, *(long + name for name in "cdefghi")]
    table.index = [IMAGE, SCRIPT, *(f"sample {i}" for i in range(118))]
    table.iloc[4:20, 2:5] = np.nan
    settings = {"random_state": 0, "n_jobs": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            "digits": (ibp.MEIBP(30, max_iter=5, n_init=2, **settings).fit(digits), digits, (8, 8)),
            "table": (ibp.MEIBP(n_init=2, **settings).fit(table), table, None),
            "soft": (ibp.FiniteVIBP(6, **settings).fit(blocks), blocks, (6, 6)),
            "weights": (fit_weighted(weights, n_init=2), weights, (4, 4)),
            "words": (fit_weighted(weights), weights, None),
            "real": (ibp.BNMF(6, max_iter=40, **settings).fit(blocks - blocks.min()),
                     blocks - blocks.min(), None),
            "huge": (ibp.MEIBP(4, **settings).fit(blocks * 1e60), blocks * 1e60, (36, 1)),
            "empty": (ibp.MEIBP(**settings).fit(rng.normal(size=(30, 5))),
                      rng.normal(size=(30, 5)), None),
        }  # fmt: skip


@pytest.fixture(scope="module")
def pages(fits, tmp_path_factory):
    folder = tmp_path_factory.mktemp("pages")
    written = {
        name: write_report(model, X, folder / f"{name}.html", image_shape=shape, max_rows=130)
        for name, (model, X, shape) in fits.items()
    }
    return written | {"comparison": write_comparison(make_comparison(), folder / "both.html")}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("window", [NARROW, WIDE])
def test_every_panel_is_there_and_nothing_goes_wrong(browser, pages, name, window):
    with opened(browser, pages[name], width=window[0], height=window[1], theme="light") as shown:
        assert_page_is_whole(shown, dark=False)
        shown.page.emulate_media(color_scheme="dark")
        shown.page.reload()
        assert_page_is_whole(shown, dark=True)
        if window == NARROW:
            shown.page.set_viewport_size({"width": 360, "height": 780})
            assert shown.sideways() <= 0
        assert shown.troubles == []


def assert_page_is_whole(shown, *, dark):
    texts = shown.page.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.panel')].map(p => [p.id, p.innerText]))"
    )
    assert set(texts) == PANELS
    assert all(len(text) > 40 for text in texts.values()), texts
    assert shown.page.locator("#evidence-chart svg").is_visible()
    assert shown.page.locator("#explorer-body dd").first.is_visible()
    assert shown.sideways() <= 0
    background = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    lightness = sum(int(part) for part in background[4:-1].split(","))
    assert (lightness < 200) == dark


@pytest.mark.parametrize("name", NAMES)
def test_the_explorer_adds_up_to_the_inverse_transform(browser, fits, pages, name):
    model, X, _ = fits[name]
    values = np.asarray(X, dtype=float)
    with opened(browser, pages[name]) as shown:
        page = shown.page

        def check(codes):
            row = page.evaluate("ibpReport.explorer.row()")
            columns = page.evaluate("ibpReport.columns")
            expected = model.inverse_transform(codes[None])[0, columns]
            sums = page.evaluate("ibpReport.explorer.reconstruction()")
            scale = np.abs(expected).max()
            np.testing.assert_allclose(sums, expected, rtol=1e-4, atol=1e-5 * scale)
            left = values[row, columns] - expected
            error = float(page.locator("#explorer-body").get_attribute("data-error"))
            assert error == pytest.approx(np.sqrt(np.nanmean(left**2)), rel=1e-4)

        for _ in range(3):
            row = page.evaluate("ibpReport.explorer.row()")
            codes = model._training_codes()[row].astype(float)
            check(codes)
            if name == "empty":
                break
            on = page.locator("#explorer [data-toggle][aria-pressed=true]")
            if on.count():  # off and on again
                feature = int(on.first.get_attribute("data-toggle"))
                toggle = page.locator(f"#explorer [data-toggle='{feature}']")
                toggle.click()
                assert toggle.get_attribute("aria-pressed") == "false"
                check(np.where(np.arange(codes.size) == feature, 0.0, codes))
                toggle.press("Enter")
                check(codes)
            limit = 0.0 if model.real_codes else 0.5
            absent = np.flatnonzero(codes <= limit)
            show_what_it_lacks(page)
            switches = [k for k in absent if page.locator(f"#explorer [data-toggle='{k}']").count()]
            if switches:  # one that it does not have
                page.locator(f"#explorer [data-toggle='{switches[0]}']").click()
                check(np.where(np.arange(codes.size) == switches[0], 1.0, codes))
                page.get_by_text("Reset to what the model found").click()
                check(codes)
            for slider in page.locator("#explorer [data-slider]").all():  # what it has or lacks
                feature = int(slider.get_attribute("data-slider"))
                for amount in (0.0, 0.3 * float(slider.get_attribute("max"))):
                    slider.fill(str(amount))
                    check(np.where(np.arange(codes.size) == feature, amount, codes))
                page.get_by_text("Reset to what the model found").click()
                check(codes)
            page.get_by_role("button", name="Next row").click()
        assert shown.troubles == []


def show_what_it_lacks(page):
    """Open the list of features that the row lacks, which the browser fills in when it has time."""
    lacking = page.locator("#explorer details")
    if lacking.is_visible():  # else it has them all
        if lacking.get_attribute("open") is None:
            lacking.locator("summary").click()
        lacking.locator("li").first.wait_for()


@pytest.mark.parametrize("name", ["weights", "words", "real"])
def test_amounts_have_sliders_that_the_keyboard_moves(browser, fits, pages, name):
    model = fits[name][0]
    codes = model._training_codes()
    varies = model.weight_std_ >= 0.05 if name != "real" else np.ones(codes.shape[1], dtype=bool)
    with opened(browser, pages[name]) as shown:
        page = shown.page
        row = page.evaluate("ibpReport.explorer.row()")
        show_what_it_lacks(page)
        assert page.locator("#explorer [data-slider]").count() == varies.sum() >= 1
        assert page.locator("#explorer [data-toggle]").count() == (~varies).sum()
        for k in np.flatnonzero(varies):
            slider = page.get_by_role("slider", name=f"How much of feature {k}", exact=True)
            assert float(slider.input_value()) == pytest.approx(codes[row, k], rel=1e-5)
            assert float(slider.get_attribute("max")) == pytest.approx(codes[:, k].max(), rel=1e-5)
        slider.press("End")
        assert page.evaluate("ibpReport.explorer.codes()")[k] == pytest.approx(codes[:, k].max())
        full = float(slider.get_attribute("aria-valuetext"))
        assert full == pytest.approx(codes[:, k].max(), rel=0.1)
        slider.press("ArrowLeft")
        assert 0 < page.evaluate("ibpReport.explorer.codes()")[k] < codes[:, k].max()
        slider.press("Home")
        assert page.evaluate("ibpReport.explorer.codes()")[k] == 0
        assert page.evaluate("document.activeElement.dataset.slider") == str(k)
        assert slider.locator("xpath=..").locator(".state").inner_text() == "none"
        slider.press("PageUp")
        page.get_by_text("Reset to what the model found").click()
        assert float(slider.input_value()) == pytest.approx(codes[row, k], rel=1e-5)
        assert shown.troubles == []


@pytest.mark.parametrize("name", ["weights", "words"])
def test_weights_of_features_are_drawn_and_put_in_words(browser, fits, pages, name):
    model = fits[name][0]
    with opened(browser, pages[name]) as shown:
        page = shown.page
        charts = page.locator("#feature-cards .weights svg")
        assert charts.count() == model.n_components_
        for k, spread in enumerate(model.weight_std_):
            card = page.locator(f"#feature-cards [data-feature='{k}']")
            words = "yes or no" if spread < 0.05 else f"varies by about {100 * spread:.0f} %"
            assert card.locator(".weights figcaption").inner_text() == words
            label = card.locator(".weights svg").get_attribute("aria-label")
            assert f"in the {model.feature_counts_[k]} rows that have it: {words}" in label
            assert f"{model.feature_counts_[k]} rows" in card.inner_text()
        page.locator("#feature-order").select_option("weight_std")
        order = page.evaluate(
            "[...document.querySelectorAll('#feature-cards [data-feature]')]"
            ".map(card => Number(card.dataset.feature))"
        )
        assert order == np.argsort(-model.weight_std_, kind="stable").tolist()
        assert shown.troubles == []
    with opened(browser, pages["digits"]) as shown:
        assert shown.page.locator("#feature-cards .weights").count() == 0


def test_dangerous_names_are_only_text(browser, pages):
    with opened(browser, pages["table"]) as shown:
        page = shown.page
        assert page.locator("#features").get_by_text(SCRIPT, exact=True).count() > 0
        assert page.locator("#residuals").get_by_text(IMAGE, exact=True).count() > 0
        page.locator("#row-search").fill("onerror")
        assert page.locator("#row-select option").all_inner_texts() == [IMAGE]
        assert page.evaluate("ibpReport.explorer.row()") == 0
        assert page.locator("img").count() == 0
        # Even markup that got in would not run.
        page.evaluate("document.body.insertAdjacentHTML('beforeend', '<i onclick=\"alert(1)\">x')")
        page.locator("body > i").dispatch_event("click")
        page.wait_for_timeout(50)
        assert shown.troubles
        assert all("Content Security Policy" in trouble for trouble in shown.troubles)


def test_missing_values_are_marked_and_not_counted(browser, fits, pages):
    X = fits["table"][1]
    with opened(browser, pages["table"]) as shown:
        page = shown.page
        names = page.evaluate(
            "[...document.querySelectorAll('#row-select option')].map(o => o.text)"
        )
        row = next(i for i in range(4, 20) if X.index[i] in names)
        page.locator("#row-select").select_option(label=X.index[row])
        page.locator("#bar-order").select_option("columns")
        assert page.locator("#explorer .compare li.missing").count() == 3
        assert page.evaluate("ibpReport.explorer.row()") == row


def test_features_are_sorted_as_one_asks(browser, fits, pages):
    model, _, _ = fits["digits"]
    counts = model._training_codes().sum(axis=0)
    with opened(browser, pages["digits"]) as shown:
        page = shown.page

        def order():
            return page.evaluate(
                "[...document.querySelectorAll('#feature-cards [data-feature]')]"
                ".map(card => Number(card.dataset.feature))"
            )

        first = order()
        assert len(first) == 24 < model.n_components_
        assert counts[first].tolist() == sorted(counts.tolist(), reverse=True)[:24]
        page.locator("#more-features").click()
        assert sorted(order()) == list(range(model.n_components_))
        page.locator("#feature-order").select_option("number")
        assert order() == list(range(24))
        page.locator("#feature-direction").click()
        assert order()[0] == model.n_components_ - 1
        page.locator("#feature-order").select_option("agreement")
        agreement = np.delete(model.restart_similarity_, model.restart_kept_, axis=0).mean(axis=0)
        assert agreement[order()[0]] == pytest.approx(agreement.min())


def test_the_theme_changes_at_a_press(browser, pages):
    with opened(browser, pages["digits"], theme="light") as shown:
        page = shown.page
        canvas = "document.querySelector('#pair-matrix .frame canvas').getContext('2d')"
        pixel = f"[...{canvas}.getImageData(0, 1, 1, 1).data]"
        before = page.evaluate(pixel)
        page.locator("#theme").click()
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(14, 17, 22)"
        assert page.evaluate(pixel) != before
        assert page.locator("#theme").get_attribute("aria-label") == "Switch to the light theme"
        page.locator("#theme").click()
        assert page.evaluate(pixel) == before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_bright_is_high_in_pictures(browser, fits, pages, theme):
    """A photograph must not look like a negative."""
    model = fits["digits"][0]
    with opened(browser, pages["digits"], theme=theme) as shown:
        page = shown.page
        card = page.locator(".card").first
        feature = model.components_[int(card.get_attribute("data-feature"))]
        drawn = "canvas => [...canvas.getContext('2d').getImageData(0, 0, 8, 8).data]"
        colours = np.reshape(card.locator("canvas").first.evaluate(drawn), (64, 4))[:, :3]
        brightness = colours.sum(axis=1)
        assert brightness[np.argmax(feature)] > 600 > 200 > brightness[np.argmin(feature)]


def test_charts_and_matrices_can_be_read(browser, fits, pages):
    model = fits["digits"][0]
    with opened(browser, pages["digits"]) as shown:
        page = shown.page
        chart = page.locator("#evidence-chart")
        assert "At the end" in chart.locator(".readout").inner_text()
        chart.locator("svg").press("ArrowLeft")
        assert f"Sweep {model.n_iter_ - 1}:" in chart.locator(".readout").inner_text()
        matrix = page.locator("#pair-matrix")
        matrix.locator(".frame canvas").press("ArrowRight")
        assert "on together in" in matrix.locator(".readout").inner_text()
        restarts = page.locator("#restart-matrix")
        restarts.locator(".frame canvas").hover(position={"x": 3, "y": 3})
        assert "similarity" in restarts.locator(".readout").inner_text()


def test_a_worst_row_opens_in_the_explorer(browser, pages):
    with opened(browser, pages["soft"]) as shown:
        link = shown.page.locator("[data-open-row]").nth(1)
        link.click()
        row = int(link.get_attribute("data-open-row"))
        assert shown.page.evaluate("ibpReport.explorer.row()") == row
        assert shown.troubles == []


def test_everything_can_be_reached_by_the_keyboard(browser, pages):
    with opened(browser, pages["table"]) as shown:
        page = shown.page
        page.locator("#error-chart svg").press("ArrowRight")
        assert "between" in page.locator("#error-chart .readout").inner_text()
        page.locator("#explorer [data-toggle]").first.press("Space")
        page.get_by_text("Reset to what the model found").press("Enter")
        assert page.evaluate("document.activeElement.id") == "row-select"
    with opened(browser, pages["comparison"]) as shown:
        chart = shown.page.locator("#score-chart")
        chart.locator("svg").press("ArrowRight")
        assert "meibp, seed 0: score -1 after 0.4 s" in chart.locator(".readout").inner_text()
        chart.locator("svg").press("ArrowLeft")
        assert "score -2 after 0.1 s and 1 sweep." in chart.locator(".readout").inner_text()
        chart.locator("svg").press("ArrowDown")
        assert "seed 1: score -1.2" in chart.locator(".readout").inner_text()


def test_without_scripts_the_text_is_there(browser, pages):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(pages["table"].resolve().as_uri())
    text = page.locator("main").inner_text()
    context.close()
    assert text.index("need JavaScript") < text.index("What to do next")
    assert "Rows explained worst" in text and "Load the model" in text


def test_long_histories_and_strange_scores_are_drawn(browser, fits, tmp_path):
    model, X, _ = fits["table"]
    model = copy(model)
    climb = np.linspace(-123456789.0, -123456700.0, 200_000)
    model.history_ = {"evidence": climb, "n_components": np.full(200_000, 3), "seconds": -climb}
    long = write_report(model, X, tmp_path / "long.html")
    with opened(browser, long) as shown:
        labels = shown.page.locator("#evidence-chart svg text").all_text_contents()
        assert len(set(labels)) == len(labels)
        assert shown.page.locator("#evidence-chart .readout").inner_text().startswith("At the end")
        assert shown.troubles == []
    strange = make_comparison()
    strange.fits[0].log_likelihood = [float("nan"), -1.0]
    strange.fits[2].log_likelihood = [float("nan")]
    with opened(browser, write_comparison(strange, tmp_path / "c.html")) as shown:
        drawn = shown.page.locator("#score-chart svg").inner_html()
        assert "NaN" not in drawn and drawn.count("data-fit") == 2
        assert shown.page.locator("#score-chart svg text").count() > 5
        assert shown.troubles == []


@pytest.mark.parametrize(("window", "theme"), [(NARROW, "dark"), (WIDE, "light")])
def test_methods_of_a_comparison_can_be_hidden(browser, pages, window, theme):
    with opened(browser, pages["comparison"], width=window[0], theme=theme) as shown:
        page = shown.page
        lines = page.locator("#score-chart path[data-fit]")
        assert lines.count() == 3 and shown.sideways() <= 0
        page.locator("#legend [data-method=meibp]").click()
        assert lines.count() == 1
        page.locator("#legend [data-method=bnmf]").click()
        assert lines.count() == 0
        page.locator("#legend [data-method=meibp]").click()
        assert lines.count() == 2
        page.locator("#score-chart svg").hover()
        assert "score" in page.locator("#score-chart .readout").inner_text()
        assert shown.troubles == []
