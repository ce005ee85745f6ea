"""How Sphinx builds the documentation."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

project = "ibp"
author = "The ibp developers"
copyright = "The ibp developers"
version = release = version_of("ibp")

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_templates"]
templates_path = ["_templates"]
default_role = "py:obj"  # `transform` in a docstring is a link

# Pages
myst_enable_extensions = ["amsmath", "attrs_inline", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
copybutton_exclude = ".linenos, .gp, .go"
copybutton_prompt_text = "$ "

# API reference
autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say it in words
autodoc_member_order = "bysource"
numpydoc_show_class_members = False  # the template lists them in full
numpydoc_validation_checks = {
    "GL03",  # double blank lines
    "GL06",  # unknown sections
    "GL07",  # sections out of order
    "GL08",  # no docstring
    "PR02",  # parameters that are not there
    "PR03",  # parameters in another order
    "PR07",  # a parameter without a description
    "PR10",  # no space before a colon
    "RT03",  # a result without a description
    "SS03",  # a summary without a full stop
    "SS04",  # a summary that starts with spaces
}

# Gallery: every examples/plot_*.py is run.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(^|/)(?!plot_)[^/]*\.py$",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1e9,  # how long an example took says nothing here
    "write_computation_times": False,
    "reset_modules": ("matplotlib",),
    "abort_on_example_error": False,
    "plot_gallery": "True",
    "doc_module": ("ibp",),
    "backreferences_dir": None,
    "within_subsection_order": "FileNameSortKey",
}

# Look
html_theme = "pydata_sphinx_theme"
html_title = "ibp"
html_show_sourcelink = False
html_copy_source = False
html_css_files = ["ibp.css"]
html_theme_options = {
    "logo": {"text": "ibp"},
    "navbar_align": "left",
    "header_links_before_dropdown": 8,
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "show_prev_next": True,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
# Pages without pages of their own below them have no use for a sidebar.
html_sidebars = {
    page: []
    for page in (
        "index",
        "install",
        "tutorial",
        "command_line",
        "report_page",
        "methods",
        "mathematics",
        "results",
        "adding_a_method",
    )
}
html_context = {"default_mode": "auto"}

# Mathematics is drawn by a MathJax that is copied into the pages, so that they need no network.
# The SVG one needs no fonts, which a browser would not load from a disk.
_mathjax = importlib.util.find_spec("sphinx-mathjax-offline")
if _mathjax is None or _mathjax.origin is None:
    raise ImportError('The documentation needs its tools: pip install "ibp[docs]".')
mathjax_path = "tex-svg-full.js"
html_static_path = [
    "_static",
    str(Path(_mathjax.origin).parent / "static" / "mathjax" / mathjax_path),
]

# `n_components_` in plain text would be read as a link to a target of that name.
_LITERAL = re.compile(r"(`[^`]*`)")
_NAME = re.compile(r"(?<![\w`])(\w+)_(?![\w`*])")


def escape_fitted_names(
    app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]
) -> None:
    """Escape the last underscore of fitted attributes where no literal holds them."""
    for i, line in enumerate(lines):
        parts = _LITERAL.split(line)
        parts[::2] = [_NAME.sub(r"\1\\_", part) for part in parts[::2]]
        lines[i] = "".join(parts)


def skip_what_is_not_ours(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Leave scikit-learn's machinery, and the fields that a tuple's docstring names, out."""
    foreign = str(getattr(obj, "__module__", "")).startswith("sklearn")
    field_of_tuple = str(getattr(obj, "__doc__", "")).startswith("Alias for field number")
    return True if foreign or field_of_tuple else None


def setup(app: Any) -> None:
    """Called by Sphinx; names are escaped after numpydoc, whose priority is 500."""
    app.connect("autodoc-skip-member", skip_what_is_not_ours)
    app.connect("autodoc-process-docstring", escape_fitted_names, priority=600)
