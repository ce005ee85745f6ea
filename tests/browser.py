"""A browser for the tests of pages: Chromium, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]


def chromium() -> str | None:
    """The browser's program: $CHROMIUM, or what is installed."""
    return (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    )


@contextmanager
def launched() -> Iterator[Any]:
    """A browser; skips the test, with the reason, where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = chromium()
    if program is None:
        pytest.skip("there is no Chromium here")
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=program, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Opened:
    """A page, and everything about it that should not have happened."""

    page: Any
    address: str
    troubles: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Note errors, dialogs and requests for anything but the page itself."""
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("dialog", self._dismiss)
        self.page.on("console", self._console)
        self.page.on("request", self._request)

    def _dismiss(self, dialog: Any) -> None:
        self.troubles.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.troubles.append(f"console: {message.text}")

    def _request(self, request: Any) -> None:
        if request.url != self.address and not request.url.startswith("data:"):
            self.troubles.append(f"request: {request.url}")

    def sideways(self) -> int:
        """How many pixels the page is wider than its window."""
        return int(
            self.page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
        )


@contextmanager
def opened(
    browser: Any, path: Path, *, width: int = 1280, height: int = 900, theme: str = "light"
) -> Iterator[Opened]:
    """Open a file from disk in a fresh window."""
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce"
    )
    try:
        shown = Opened(context.new_page(), path.resolve().as_uri())
        shown.watch()
        shown.page.goto(shown.address)
        yield shown
    finally:
        context.close()
