"""What the pictures of all studies have in common."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from ibp.atomic_files import atomic
from ibp.errors import MissingPackageError
from ibp.plots.canvas import COLOURS, SMALL, light_frame
from ibp.reproduce.study import Results, Study

PAPER_COLOUR = "0.35"
# The methods of the paper keep colour and mark in all pictures.
STYLES = {
    "meibp": (COLOURS[0], "o"),
    "meibp-default": (COLOURS[0], "D"),
    "meibp-weighted": (COLOURS[4], "D"),
    "bnmf": (COLOURS[3], "s"),
    "aibp": (COLOURS[2], "^"),
    "t-aibp": (COLOURS[2], "v"),
    "meibp+aibp": (COLOURS[5], "^"),
    "ugibbs": (COLOURS[1], "^"),
    "t-ugibbs": (COLOURS[1], "v"),
    "i-vibp": (COLOURS[6], "P"),
    "f-vibp": (COLOURS[7], "X"),
    "inmf": (COLOURS[8], "*"),
    "bs-ibp": ("0.5", "p"),
}


def style_of(method: str) -> tuple[str, str]:
    """Colour and mark of a method."""
    return STYLES.get(method, ("0.2", "."))


def check_matplotlib() -> None:
    """Complain before hours of work rather than after."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingPackageError(
            "The pictures need Matplotlib", 'pip install "ibp[plot]"'
        ) from error


def save(study: Study, results: Results, folder: Path) -> list[Path]:
    """Draw a study and write it as SVG and PNG."""
    import matplotlib
    from matplotlib.figure import Figure

    paths = []
    # The same rows give the same file.
    with matplotlib.rc_context({"svg.hashsalt": study.name, "svg.fonttype": "none"}):
        figure = Figure(figsize=study.figure_size, layout="constrained")
        study.draw(figure, results)
        for ending, settings in (("svg", {"metadata": {"Date": None}}), ("png", {"dpi": 120})):
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, **settings)
            path = folder / f"{study.name}.{ending}"
            with atomic(path, force=True) as file:
                file.write(buffer.getvalue())
            paths.append(path)
    return paths


def panels(figure: Any, *titles: str, **settings: Any) -> list[Any]:
    """Axes side by side with their titles."""
    axes = figure.subplots(1, len(titles), squeeze=False, **settings)[0]
    for ax, title in zip(axes, titles, strict=True):
        ax.set_title(title, fontsize=10)
        light_frame(ax)
    return list(axes)


def legend(ax: Any, **settings: Any) -> None:
    """A small legend, each name once."""
    handles, labels = ax.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    ax.legend(once.values(), once.keys(), frameon=False, fontsize=SMALL, **settings)
