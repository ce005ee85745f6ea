"""The page as text: every model has one, and names in it stay text."""

from __future__ import annotations

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

import ibp
from ibp.comparison import ComparedFit, Comparison
from ibp.data.source import as_source
from ibp.report import write_comparison, write_report
from ibp.report.comparison_page import render_comparison
from ibp.report.content import gather
from ibp.report.page import render_report
from problems import unmoved
from test_report import fit_weighted, make_weighted

pytest.importorskip("jinja2", reason="jinja2 is not installed")
pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:No feature survived"),
]

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
PANELS = {"summary", "fit", "features", "together", "explorer", "residuals", "certainty"}
PANELS |= {"held-out", "details"}


def make_data(n=30, d=6, seed=0):
    rng = np.random.default_rng(seed)
    A = np.kron(np.eye(3), np.ones(d // 3)) * 2.0
    return (rng.random((n, 3)) < 0.4) @ A + 1.0 + rng.normal(0.0, 0.3, size=(n, d))


class Elements(HTMLParser):
    """The tags of a page with their attributes, and the text of its scripts."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.scripts = [], []
        self.in_script = False
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.in_script = tag == "script"
        if self.in_script:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.in_script = False

    def handle_data(self, data):
        if self.in_script:
            self.scripts[-1] += data


def check_page(page):
    """One file, valid as far as these tests go, that loads nothing."""
    elements = Elements(page)
    assert len(elements.scripts) == 2
    for tag, attributes in elements.tags:
        assert tag not in {"img", "iframe", "object", "embed", "base", "form"}
        assert not any(name.startswith("on") for name in attributes), tag
        assert "src" not in attributes
        assert attributes.get("href", "#").startswith(("#", "data:,")), attributes
    assert not re.search(r"url\(|@import", page)
    addresses = set(re.findall(r"https?://[^\s\"'<]+", page))
    assert addresses <= {"http://www.w3.org/2000/svg"}  # a name, which is never fetched
    identifiers = [attributes["id"] for _, attributes in elements.tags if "id" in attributes]
    assert len(identifiers) == len(set(identifiers))
    return elements


@pytest.mark.parametrize("label", sorted(ibp.METHODS))
def test_every_method_has_a_page(label):
    X = make_data()
    X -= X.min()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ibp.METHODS[label](3, max_iter=5, random_state=0, n_jobs=1).fit(X)
    page = render_report(gather(model, X))
    elements = check_page(page)
    identifiers = {attributes.get("id") for _, attributes in elements.tags}
    assert identifiers >= PANELS
    assert type(model).__name__ in page


@pytest.mark.parametrize("image_shape", [None, (4, 4)])
def test_words_for_weights(image_shape):
    X = make_weighted()
    model = fit_weighted(X)
    model.weight_std_ = np.array([0.0, 0.04, 0.3, 2.0])
    page = render_report(gather(model, X, image_shape=image_shape))
    check_page(page)
    text = " ".join(page[: page.index('id="report-data"')].split())
    for words in (
        "4 features, 2 of them with weights",
        "<strong>2</strong><span>of them with weights</span>",
        "has it with a weight about 1",
        "how many rows have it",
        "how much its weights vary",
        "Which features go together",
        "Move the sliders",
        "a plain yes or no has a switch. ",
        "how much of it the row has is another question",
        "# how much of which features rows have",
        "ibp fit DATA --codes weighted --components 4 --restarts 5",
    ):
        assert words in text, words
    for words in ("yes/no", "proven", "it is on", "are on", "On together", "Switch features"):
        assert words not in text, words
    binary = render_report(gather(unmoved(4, random_state=0).fit(X), X))
    for words in (
        "yes/no features",
        "Switch features on and off",
        "are on together",
        "Features on",
    ):
        assert words in binary, words
    assert "weight" not in binary[: binary.index('id="report-data"')].partition("</style>")[2]


@pytest.mark.parametrize("image_shape", [None, (1, 1)])
def test_one_column_one_row_one_feature(image_shape):
    rng = np.random.default_rng(0)
    X = 5.0 * (rng.random((40, 1)) < 0.5) + rng.normal(0.0, 0.1, (40, 1))
    model = unmoved(1, random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 1
    page = render_report(gather(model, X[:1], image_shape=image_shape))
    check_page(page)
    assert "1 row and 1 column" in page and "There is one feature only" in page


def test_a_model_without_features_has_a_page():
    X = np.random.default_rng(0).normal(size=(30, 5))
    model = unmoved(random_state=0, n_jobs=1).fit(X)
    assert model.n_components_ == 0
    page = render_report(gather(model, X))
    check_page(page)
    assert "It found no feature at all" in page and "Try again" in page


def test_rows_of_which_nothing_is_known_are_no_trouble():
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    check_page(render_report(gather(model, np.full((2, 6), np.nan))))


def test_names_are_text_wherever_they_appear():
    names = [SCRIPT, IMAGE, "'; alert(1) //", "{{ 7 * 7 }}", "&amp;", "plain"]
    frame = pd.DataFrame(make_data(), columns=names, index=[IMAGE] * 15 + [SCRIPT] * 15)
    model = unmoved(3, random_state=0, n_jobs=1).fit(frame)
    model.notes_ = {"data": SCRIPT, "fitted_at": IMAGE, "versions": {SCRIPT: IMAGE}}
    page = render_report(gather(model, frame), title=None)
    check_page(page)
    assert SCRIPT not in page and "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "\\u003cscript\\u003ealert(1)" in page
    assert "{{ 7 * 7 }}" in page
    assert SCRIPT not in render_report(gather(model, frame), title=SCRIPT)


def test_settings_that_are_objects_are_shown_short_and_escaped():
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    model.set_params(init={"Z": np.zeros((1000, 3)), SCRIPT: 1})
    page = render_report(gather(model, X))
    check_page(page)
    assert SCRIPT not in page


def test_where_the_fit_had_settled_otherwise_is_told():
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    model.assignments_ = model.transform(X)
    assert "settled on other answers" not in render_report(gather(model, X))
    model.assignments_[: len(X) // 4] ^= 1
    likelihood, counts = model._explain_training().row_log_likelihood(as_source(X))
    model.history_["train_log_likelihood"][-1] = likelihood.sum() / counts.sum()
    share = (model.assignments_ != model.transform(X)).mean()
    said = f"had settled on other answers than a fresh search in {100 * share:.1f} % of the cases"
    assert said in render_report(gather(model, X))
    assert "settled on other answers" not in render_report(gather(model, X[:-1]))  # other rows


def test_held_out_scores_are_put_in_words():
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    assert "No entries were hidden" in render_report(gather(model, X))
    noted = {"score": -0.25, "n_entries": 18, "fraction": 0.1}
    model.notes_ = {"held_out": noted | {"error": 0.4, "relative_error": 0.625}}
    page = render_report(gather(model, X))
    assert "18 entries, in 10 % of the columns of half of the rows, were hidden" in page
    assert "mean log-density is -0.25 per entry" in page
    assert "The typical error is 0.4, 0.62 times that of the columns" in page
    model.notes_ = {"held_out": noted | {"error": 0.4}}  # of an older file
    assert "The typical error is 0.4." in render_report(gather(model, X))
    model.notes_ = {"held_out": noted}  # of an older file
    assert "typical error" not in render_report(gather(model, X))


def test_the_noise_of_columns_is_put_in_words():
    X = np.hstack([make_data(), np.full((30, 8), 2.0), np.eye(30)[:, :1]])
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    page = render_report(gather(model, X))
    check_page(page)
    assert "Noise of the columns" in page and "Loudest" in page and "Quietest" in page
    assert "1 column hardly varied" in page
    assert (
        "Column 7, column 8, column 9, column 10, column 11, column 12 and 2 more did not" in page
    )
    shared = render_report(gather(unmoved(3, noise="shared", random_state=0, n_jobs=1).fit(X), X))
    check_page(shared)
    assert "Noise of the columns" not in shared and "The noise of the model is" in shared
    picture = render_report(gather(model, X, image_shape=(3, 5)))
    check_page(picture)
    assert 'id="noise-picture"' in picture and 'id="noise-picture"' not in page


def test_how_many_rows_are_proven_is_told():
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    model.history_["proven"][-1] = 1.0
    assert "every row&#39;s features were proven to be the best" in render_report(gather(model, X))
    model.history_["proven"][-1] = 0.63
    page = render_report(gather(model, X))
    assert "For 63 % of the rows the features were proven" in page
    assert "another search might change some of the others" in page
    assert "Few rows are proven" not in page
    model.history_["proven"][-1] = 0.2
    assert "Few rows are proven" in render_report(gather(model, X))
    greedy = unmoved(3, optimizer="local_search", random_state=0, n_jobs=1).fit(X)
    assert "proven" not in render_report(gather(greedy, X))


def test_the_same_fit_gives_the_same_page(tmp_path):
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    first = write_report(model, X, tmp_path / "a.html")
    model.save(tmp_path / "model.ibp")
    second = write_report(ibp.load(tmp_path / "model.ibp"), X, tmp_path / "b.html")
    assert first.read_bytes() == second.read_bytes()


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    path = tmp_path / "report.html"
    path.write_text("mine")
    with pytest.raises(ValueError, match="exists"):
        write_report(model, X, path)
    with pytest.raises(ValueError):
        write_report(model, X[:, :2], path, force=True)
    assert path.read_text() == "mine"
    assert write_report(model, X, path, force=True) == path
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def test_what_was_left_out_is_said():
    X = make_data(40)
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    page = render_report(gather(model, X, max_rows=10))
    assert "This page has 10 of 40 rows: the 5 that are explained worst" in page
    assert "This page has" not in render_report(gather(model, X))


def make_comparison(**changes):
    fits = [
        ComparedFit("meibp", 0, "converged", 5, 4, [1, 5], [0.1, 0.4], [-2.0, -1.0], [-2, -1]),
        ComparedFit("meibp", 1, "time_limit", 5, 6, [1, 5], [0.1, 0.6], [-2.0, -1.2], [-2, -1]),
        ComparedFit("bnmf", 0, "converged", 5, 4, [1], [0.2], [-3.0], [-2.5], [SCRIPT]),
    ]
    known = {
        "n_samples": 30, "n_features": 6, "n_hidden": 36, "n_components": 4, "fraction": 0.2,
        "data_std": 1.0, "noise_std": 0.75, "fits": fits, "skipped": {"bs-ibp": IMAGE},
    }  # fmt: skip
    return Comparison(**(known | changes))


def test_a_comparison_has_a_page(tmp_path):
    path = write_comparison(make_comparison(), tmp_path / "c.html", source=SCRIPT)
    page = path.read_text(encoding="utf-8")
    check_page(page)
    assert SCRIPT not in page and "<img" not in page
    assert "meibp predicted them best, ahead of bnmf by 1.9 nats per entry" in page
    assert "4 to 6" in page and "settled (1), time was up (1)" in page
    assert page.index(">meibp</th>") < page.index(">bnmf</th>")
    with pytest.raises(ValueError, match="exists"):
        write_comparison(make_comparison(), path)


def test_a_comparison_may_have_one_method_or_none():
    one = make_comparison(fits=make_comparison().fits[2:], interrupted=True)
    page = render_comparison(one)
    check_page(page)
    assert "1 method was fitted" in page and "was interrupted" in page
    page = render_comparison(make_comparison(fits=[]))
    check_page(page)
    assert "No fit was finished" in page


def test_a_narrow_lead_is_called_none():
    close = make_comparison()
    close.fits[2].log_likelihood = [-1.15]
    page = render_comparison(close)
    assert "with no difference between them that would matter" in page
    assert "and one other as well" in page
    assert page.count('<tr class="kept"><td class="number">1</td>') == 2  # they share a place


def test_scores_that_are_no_numbers_come_last():
    strange = make_comparison()
    for fit in strange.fits[:2]:
        fit.log_likelihood = [-2.0, float("nan")]
    page = render_comparison(strange)
    check_page(page)
    assert "Only bnmf has a score that is a number" in page
    assert page.index(">bnmf</th>") < page.index(">meibp</th>")
    strange.fits[2].log_likelihood = [float("nan")]
    assert "No score is a number" in render_comparison(strange)


def test_text_that_is_not_unicode_does_not_lose_the_page(tmp_path):
    broken = make_comparison(skipped={"inmf": "bad \ud800 byte"})
    path = write_comparison(broken, tmp_path / "c.html")
    assert "bad ? byte" in path.read_text(encoding="utf-8")


def test_without_jinja2_there_is_a_sentence(monkeypatch):
    import sys

    from ibp.report import rendering

    rendering._environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    with pytest.raises(ImportError, match=r'pip install "ibp\[cli\]"'):
        render_report(gather(model, X))


def test_what_of_wide_data_is_shown_is_said(monkeypatch):
    X = make_data()
    model = unmoved(3, random_state=0, n_jobs=1).fit(X)
    whole = render_report(gather(model, X))
    assert "the strongest of every feature" not in whole and "pixel in each" not in whole
    monkeypatch.setattr("ibp.report.sampling.MOST_COLUMNS", 5)
    assert "5 of 6 columns, the strongest of every feature" in render_report(gather(model, X))
    monkeypatch.setattr("ibp.report.sampling.MOST_PIXELS", 2)
    page = render_report(gather(model, X, image_shape=(2, 3)))
    assert "every second pixel in each direction" in page


def test_words_of_the_page_are_explained_where_they_stand():
    X = make_data()
    model = ibp.MEIBP(3, random_state=0, n_jobs=1).fit(X)
    page = render_report(gather(model, X))
    for word in ("Strength", "Certainty"):
        assert f"<strong>{word}</strong> is" in page
    assert "The base is what every row has before any feature" in page
    assert "given these features" in page.partition('id="fit"')[0]  # in the head
    assert "of the rows proven to have the best code" in page.partition('id="fit"')[0]
