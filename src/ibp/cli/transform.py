"""``ibp transform``: which rows of a data file have which features of a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from ibp.cli import options
from ibp.cli.data import (
    check_files,
    load_model,
    match_columns,
    names_known,
    note_scales,
    places_named,
)
from ibp.cli.problems import session
from ibp.cli.progress import Console
from ibp.cli.reading import Reading, read_data
from ibp.cli.words import printable
from ibp.errors import InputError, counted

EXAMPLES = (
    "ibp transform model.ibp new.csv -o features.csv",
    "ibp transform model.ibp new.csv -o features.parquet --confidence sure.parquet",
    "ibp transform model.ibp holes.csv -o features.npz --impute filled.csv",
)


def transform(
    model: options.ModelFile,
    data: options.DataFile,
    output: Annotated[
        Path, options.output("Where the features go: .csv, .tsv, .csv.gz, .parquet, .npz or .npy.")
    ],
    confidence: Annotated[
        Path | None,
        options.file(
            "--confidence", help="Also write how sure each entry is, in nats: near 0 it is not."
        ),
    ] = None,
    impute: Annotated[
        Path | None, options.file("--impute", help="Also write the data with the gaps filled.")
    ] = None,
    header: options.Header = None,
    index: options.Index = None,
    drop: options.Drop = None,
    key: options.Key = None,
    names: options.Names = None,
    transpose: options.Transpose = False,
    decimal: options.Decimal = None,
    missing_chunks: options.MissingChunks = None,
    stream: options.Stream = None,
    jobs: options.Jobs = None,
    force: options.Force = False,
    quiet: options.Quiet = False,
    json: options.Json = False,
) -> None:
    """Write which rows of a data file have which features of a model.

    Of weighted codes, how much of it: 0 where a row lacks a feature, and about 1 where it has it.
    Columns are matched to the model by name where both have names.
    """
    if impute is not None and stream is None:
        stream = False  # what is filled in is as large as the data
    reading = Reading(header, index, drop, key, names, transpose, decimal, missing_chunks, stream)
    with session(quiet=quiet, json=json) as reporter:
        from ibp.files.write import CODE_ENDINGS, TABLE_ENDINGS, write_codes, write_table

        targets = ((output, CODE_ENDINGS), (confidence, CODE_ENDINGS), (impute, TABLE_ENDINGS))
        check_files((model, data), targets, force=force)
        if impute is not None and stream:
            raise InputError(
                "--impute writes data as large as those that were read, which must fit in memory",
                "Leave out --stream",
            )
        fitted = load_model(reporter, model)
        table = read_data(reporter, data, reading, keep=names_known(fitted))
        if jobs is not None:
            fitted.set_params(n_jobs=jobs)
        if confidence is not None and not hasattr(fitted, "confidence"):
            raise InputError(
                f"is a {type(fitted).__name__}, whose rows have a feature to some degree: there is "
                "no --confidence to write",
                file=model.name,
            )
        table = match_columns(reporter, table, fitted, model)
        rows: dict[str, Any] = {"row_names": table.row_names, "index_name": table.index_name}
        reporter.stage(f"Placing {counted(table.shape[0], 'row')}")
        with places_named(table):
            codes = _codes_of(fitted, table.values)
        write_codes(output, codes, **rows, force=force)
        reporter.wrote(output)
        written = {"codes": output}
        if confidence is not None:
            write_codes(confidence, fitted.confidence(table.values), **rows, force=force)
            reporter.wrote(confidence)
            written["confidence"] = confidence
        if impute is not None:
            note_scales(reporter, fitted, table, model)
            filled = replace(table, values=fitted.impute(table.values))
            write_table(impute, filled, force=force)
            reporter.wrote(impute)
            written["imputed"] = impute
        from ibp.report.codes import features_per_row

        per_row = features_per_row(fitted, codes)

        def show(console: Console) -> None:
            console.print(
                f"{counted(codes.shape[0], 'row')}, {counted(codes.shape[1], 'feature')}"
                + ("" if per_row is None else f", {per_row:.1f} per row on average")
            )
            console.print()
            for what, path in written.items():
                console.print(f"  {what:<10}  {printable(str(path))}", soft_wrap=True)

        sizes = {"rows": codes.shape[0], "features": codes.shape[1], "features_per_row": per_row}
        reporter.result(written | sizes, show, output)


def _codes_of(fitted: Any, values: Any) -> Any:
    """Codes of rows; those that the fit found, if it was fitted to these."""
    from ibp.data.source import is_source
    from ibp.evaluate import ROWS_AT_ONCE, training_codes_of
    from ibp.parallel import ranges

    n_rows = values.shape[0]
    blocks: Any = [(slice(0, n_rows), values)]
    if is_source(values):
        blocks = ((rows, values.rows(rows)) for rows in ranges(n_rows, ROWS_AT_ONCE))
    own = training_codes_of(fitted, n_rows, blocks)
    return fitted.transform(values) if own is None else own
