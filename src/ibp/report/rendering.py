"""From templates to one page: styles, scripts and data inside, nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from os import PathLike
from pathlib import Path
from typing import Any

from ibp.atomic_files import atomic
from ibp.errors import MissingPackageError, counted
from ibp.report import wording
from ibp.report.encoding import script_json

STYLES = ("base.css", "panels.css", "print.css")


def render(template: str, *, scripts: Sequence[str], payload: Any, **values: Any) -> str:
    """Fill a template; everything in ``values`` is escaped."""
    from markupsafe import Markup

    script = '(() => {\n"use strict";\n' + "\n".join(_text(name) for name in scripts) + "})();\n"
    # Only this very script may run, whatever the names of columns and rows say.
    digest = base64.b64encode(hashlib.sha256(script.encode("utf-8")).digest()).decode("ascii")
    page = _environment().get_template(template)
    return page.render(
        style=Markup("\n".join(_text(name) for name in STYLES)),
        script=Markup(script),
        script_hash=digest,
        payload=Markup(script_json(payload)),
        **values,
    )


def write_page(path: str | PathLike[str], page: str, *, force: bool) -> Path:
    """Write a page, all or nothing."""
    with atomic(path, force=force) as file:
        file.write(page.encode("utf-8", "replace"))  # no text is worth losing the page
    return Path(path)


@cache
def _environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise MissingPackageError(
            "Report pages need jinja2", 'install it with pip install "ibp[cli]"'
        ) from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "count": counted,
        "percent": wording.percent,
        "number": wording.number,
    }
    return environment


def _text(name: str) -> str:
    """A file of the templates folder."""
    text = resources.files("ibp.report").joinpath("templates", name).read_text(encoding="utf-8")
    return text.replace("\r\n", "\n")  # browsers do, and the script's hash must not differ
