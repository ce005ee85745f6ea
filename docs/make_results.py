"""The page of results, README's table and the pages in `results/`, made from the tables there.

    python docs/make_results.py           # writes them
    python docs/make_results.py --check   # only says whether they are what the tables say

The tables come from ``ibp reproduce all -o results``.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ibp.reproduce import pages
from ibp.reproduce.study import NAMES, Results, study_of
from ibp.reproduce.tables import read_rows

ROOT = Path(__file__).resolve().parents[1]
TABLES = ROOT / "results"
PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
BEGIN, END = "<!-- results: made by docs/make_results.py -->", "<!-- results end -->"
HEAD = """# Results

The paper's evaluation, made anew: what the paper says, what we see, and where they differ. This
page is made by `docs/make_results.py` from the tables in `results/`, which come from

```text
ibp reproduce all -o results --data FOLDER --jobs 2
```

where the folder has the real data of figure 4. Fits are timed with one thread; seconds are from a
machine with 2 cores, and only their ratios mean anything elsewhere. Two protocols stand side by
side and are never mixed. *As published*: the paper's settings, fixed standard deviations, random
starts, data with a zero minimum (nonnegative factors) or zero means (Gaussian ones). *As shipped*:
our defaults, on the data as they are.
"""
TAIL = """## More

How fast sweeps and whole fits are, and how that grows, is on the benchmark page,
`benchmarks/README.md`. The errors in print that we found on the way are listed under
[our corrections](corrections). The intercept, the moves and weighted codes are our extensions, not
the paper's model.
"""


def results_of(name: str) -> Results | None:
    """The rows of a study, if its tables are there."""
    runs = read_rows(TABLES / name / "runs.csv")
    return Results(runs, read_rows(TABLES / name / "points.csv")) if runs else None


def page() -> str:
    """The page of results."""
    parts = [HEAD]
    missing = []
    for name in NAMES:
        results = results_of(name)
        if results is None:
            missing.append(f"`{name}`")
            continue
        picture = f"../results/{name}/{name}.svg"
        parts.append(pages.text_of(study_of(name), results, picture, level=2))
    if missing:
        parts.append(
            f"## Not here yet\n\nNo tables of these are in `results/`: {', '.join(missing)}.\n"
        )
    return "\n".join([*parts, TAIL])


def study_pages() -> dict[Path, str]:
    """The pages beside the tables, which the command wrote as its words were then."""
    return {
        TABLES / name / f"{name}.md": pages.text_of(study_of(name), results, f"{name}.svg")
        for name in NAMES
        if (results := results_of(name)) is not None
    }


def readme_table() -> str:
    """How many of the paper's claims are seen, figure by figure."""
    lines = []
    for name in NAMES:
        results = results_of(name)
        if results is None:
            continue
        study = study_of(name)
        claims = study.describe(results).claims
        seen = sum(claim.seen is True for claim in claims)
        others = [
            "; ".join(claim.text for claim in claims if claim.seen is verdict) or pages.DASH
            for verdict in (False, None)
        ]
        lines.append([study.title, f"{seen} of {len(claims)}", *others])
    header = ["figure or table", "claims of the paper that are seen", "not seen", "not decided"]
    return f"{BEGIN}\n\n{pages.table(header, lines)}\n\n{END}"


def readme() -> str:
    """README with its table of results made anew."""
    text = README.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{README.name} has no lines {BEGIN!r} and {END!r}.")
    return before + readme_table() + after


def main() -> None:
    """Write the pages, or check them."""
    parser = argparse.ArgumentParser(description="Make the page of results and README's table.")
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    stale = []
    for path, text in {PAGE: page(), README: readme(), **study_pages()}.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if not check:
                path.write_text(text, encoding="utf-8")
    if check and stale:
        sys.exit(
            f"{' and '.join(stale)} do not say what results/ does: run python docs/make_results.py"
        )


if __name__ == "__main__":
    main()
