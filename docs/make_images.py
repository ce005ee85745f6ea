"""Make the pictures of README and report_page.md anew: docs/images/digits.png and report.png.

Needs ibp[cli,plot], and for the screenshot Playwright and Chromium. Other pictures of the pages are
those that their own code draws.

    python docs/make_images.py
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_digits

from ibp import MEIBP, plots
from ibp.report import write_report

IMAGES = Path(__file__).resolve().parent / "images"
IMAGE_SHAPE = (8, 8)
SHOWN_DIGITS = range(10)
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def draw_digits(model: Any, digits: Any, path: Path) -> None:
    """The features, and one image of each digit above what is rebuilt of it."""
    figure = Figure(figsize=(9, 7.2), layout="constrained")
    top, bottom = figure.subfigures(2, 1, height_ratios=[4.6, 2.3])
    axes = plots.features(model, image_shape=IMAGE_SHAPE, ax=top.subplots())
    axes.set_title(
        f"{model.n_components_} features found in {len(digits.data)} digits, "
        "and the share of digits that have each",
        fontsize=11,
    )
    bottom.suptitle("Digits, and what their features add up to", fontsize=11)
    pairs = bottom.subplots(2, len(SHOWN_DIGITS))
    for column, digit in enumerate(SHOWN_DIGITS):
        row = int(np.flatnonzero(digits.target == digit)[3])
        rebuilt = model.inverse_transform(model.assignments_[[row]])[0]
        for axis, image in zip(pairs[:, column], (digits.data[row], rebuilt), strict=True):
            axis.imshow(image.reshape(IMAGE_SHAPE), cmap="gray", vmin=0, vmax=16)
            axis.axis("off")
    figure.savefig(path, dpi=110)


def photograph(page: Path, path: Path) -> None:
    """The first screen of a page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        window = browser.new_page(viewport={"width": 1180, "height": 1010})
        window.goto(page.as_uri())
        window.wait_for_timeout(500)
        window.screenshot(path=path)
        browser.close()


def main() -> None:
    """Fit once, and make both."""
    digits = load_digits()
    model = MEIBP(n_init=3, random_state=0).fit(digits.data)
    model.notes_ = {"data": "digits", "image_shape": list(IMAGE_SHAPE)}
    draw_digits(model, digits, IMAGES / "digits.png")
    with tempfile.TemporaryDirectory() as folder:
        page = write_report(model, digits.data, Path(folder) / "digits.html")
        photograph(page, IMAGES / "report.png")


if __name__ == "__main__":
    main()
