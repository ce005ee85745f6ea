"""``ibp simulate``: data made from known features, to try things on."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ibp.cli import options
from ibp.cli.data import check_files
from ibp.cli.problems import session
from ibp.cli.progress import Console
from ibp.errors import InputError

EXAMPLES = (
    "ibp simulate -o blocks.npy",
    "ibp simulate -o data.csv --kind binary-factors --rows 1000 --columns 50 --features 8",
    "ibp simulate -o holes.csv --missing 0.2 --truth truth.npz",
)
BLOCK_SHAPE = (6, 6)


class Kind(StrEnum):
    """What data can be made."""

    BLOCKS = "blocks"
    BINARY_FACTORS = "binary-factors"


def simulate(
    output: Annotated[
        Path, options.output("Where the data go: .csv, .tsv, .parquet, .npz or .npy.")
    ],
    kind: Annotated[
        Kind, typer.Option("--kind", help="Four overlapping 6x6 images, or random sets of columns.")
    ] = Kind.BLOCKS,
    rows: Annotated[int, options.count("--rows", help="How many rows.")] = 500,
    columns: Annotated[
        int | None, options.count("--columns", help="How many columns.", show_default="36")
    ] = None,
    features: Annotated[
        int | None, options.count("--features", help="How many features.", show_default="4")
    ] = None,
    noise: Annotated[
        float,
        typer.Option("--noise", metavar="N", min=0.0, help="Standard deviation of the noise."),
    ] = 0.3,
    missing: Annotated[
        float,
        typer.Option(
            "--missing", metavar="FRACTION", help="Share of entries to leave out, at random."
        ),
    ] = 0.0,
    seed: options.Seed = 0,
    truth: Annotated[
        Path | None,
        options.file("--truth", help="Also write the true assignments and factors, a .npz file."),
    ] = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Make data from known features, to try things on."""
    with session(quiet=quiet, json=json) as reporter:
        import numpy as np

        from ibp.atomic_files import atomic
        from ibp.files.write import TABLE_ENDINGS

        check_files((), ((output, TABLE_ENDINGS), (truth, (".npz",))), force=force)
        if not 0 <= missing < 1:
            raise InputError("--missing must be at least 0 and less than 1, such as 0.1.")
        reporter.stage("Drawing the data")
        draw, shape = _draw(kind, rows, columns, features, noise, seed)
        _write(output, draw, shape, missing, seed, force)
        reporter.wrote(output)
        if truth is not None:
            with atomic(truth, force=force) as file:
                np.savez(file, assignments=draw.assignments, factors=draw.factors)
            reporter.wrote(truth)
        n_columns, n_features = draw.factors.shape[1], draw.factors.shape[0]

        def show(console: Console) -> None:
            from ibp.cli.summary import print_path, quoted, show_next_steps

            console.print(f"{rows:,} rows, {n_columns:,} columns, {n_features} true features")
            console.print()
            print_path(console, "Data", output)
            if truth is not None:
                print_path(console, "Truth", truth)
            console.print()
            image = "" if shape is None else f" --image-shape {shape[0]}x{shape[1]}"
            show_next_steps(
                console, {f"ibp fit {quoted(output)}{image}": "find them from the data alone"}
            )

        sizes = {"rows": rows, "columns": n_columns, "features": n_features}
        reporter.result({"data": output, "truth": truth} | sizes, show, output)


def _draw(
    kind: Kind, rows: int, columns: int | None, features: int | None, noise: float, seed: int
) -> tuple[Any, tuple[int, int] | None]:
    """The data with their truth, and the shape of their images."""
    from ibp.datasets import make_binary_factors, make_block_images

    if kind is Kind.BLOCKS:
        if columns not in (None, 36) or features not in (None, 4):
            raise InputError(
                "The blocks have 36 columns and 4 features; for other numbers use "
                "--kind binary-factors."
            )
        return make_block_images(rows, noise_std=noise, random_state=seed), BLOCK_SHAPE
    draw = make_binary_factors(
        rows, columns or 36, features or 4, noise_std=noise, random_state=seed
    )
    return draw, None


def _write(
    path: Path, draw: Any, shape: tuple[int, int] | None, missing: float, seed: int, force: bool
) -> None:
    import numpy as np

    from ibp.files.table import Table
    from ibp.files.write import write_table

    data = draw.data
    if missing:
        gaps = np.random.default_rng([seed, 1]).random(data.shape) < missing
        data = np.where(gaps, np.nan, data)
    names = [f"column {j}" for j in range(1, data.shape[1] + 1)]
    write_table(path, Table(data, None, names, shape, path.name), force=force)
