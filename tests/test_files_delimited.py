"""Delimited text: what is detected, what is missing, and where trouble is."""

from __future__ import annotations

import gzip
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ibp.files import DataFileError, Table, delimited, read_table, write_table
from ibp.files.options import Options
from ibp.files.read import describe_file

NAN = np.nan


def write(folder, content, name="data.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refusal(path, **options):
    """The sentence with which a file is refused."""
    with pytest.raises(DataFileError) as caught:
        read_table(path, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith((".", "?"))
    assert path.name in sentence
    return sentence


# Content, values, names of rows, names of columns.
DETECTED = {
    "header": ("a,b\n1,2\n3,4\n", [[1, 2], [3, 4]], None, ["a", "b"]),
    "no header": ("1,2\n3,4\n", [[1, 2], [3, 4]], None, None),
    "one row": ("1,2\n", [[1, 2]], None, None),
    "one column": ("a\n1\n2\n", [[1], [2]], None, ["a"]),
    "one column, no header": ("1\n2\n", [[1], [2]], None, None),
    "no header, first row with gaps": (",2\n3,4\n", [[NAN, 2], [3, 4]], None, None),
    "no header, first row all gaps": (",\n3,4\n", [[NAN, NAN], [3, 4]], None, None),
    "pandas": (",a,b\n0,1,2\n1,3,4\n", [[1, 2], [3, 4]], ["0", "1"], ["a", "b"]),
    "pandas, numbered": (",0,1\n0,5,6\n1,7,8\n", [[5, 6], [7, 8]], ["0", "1"], ["0", "1"]),
    "pandas, numbered, no index": ("0,1,2\n5,6,7\n", [[5, 6, 7]], None, ["0", "1", "2"]),
    "counting on": ("0,1,2\n3,4,5\n", [[0, 1, 2], [3, 4, 5]], None, None),
    "two numbers": ("0,1\n5,6\n", [[0, 1], [5, 6]], None, None),
    "numbers for names": (",7,9\nr,1,2\n", [[1, 2]], ["r"], ["7", "9"]),
    "R": ('"a","b"\n"r",1,2\n"s",3,4\n', [[1, 2], [3, 4]], ["r", "s"], ["a", "b"]),
    "R, numbered rows": ('"a","b"\n"1",5,6\n"2",7,8\n', [[5, 6], [7, 8]], ["1", "2"], ["a", "b"]),
    "names": ("id,a\nu,1\nv,2\n", [[1], [2]], ["u", "v"], ["a"]),
    "names like numbers": ("id,a\n11,1\n12,2\n", [[11, 1], [12, 2]], None, ["id", "a"]),
    "names, no header": ("u,1\nv,2\n", [[2]], ["v"], ["1"]),
    "semicolon": ("a;b\n1.5;2\n", [[1.5, 2]], None, ["a", "b"]),
    "decimal comma": ("a;b\n1,5;2\n3;,25\n", [[1.5, 2], [3, 0.25]], None, ["a", "b"]),
    "tabs in a .csv": ("a\tb\n1\t2\n", [[1, 2]], None, ["a", "b"]),
    "spaces": ("a b\n1 2\n", [[1, 2]], None, ["a", "b"]),
    "spaces, a gap": ("a b c\n1  3\n4 5 6\n", [[1, NAN, 3], [4, 5, 6]], None, ["a", "b", "c"]),
    "semicolons in names": ("id,a,b\nx;1,1,2\ny;2,3,4\n", [[1, 2], [3, 4]], ["x;1", "y;2"], None),
    "spaces in names": ("id,a,b\nJo Z,1,2\nAl Y,3,4\n", [[1, 2], [3, 4]], ["Jo Z", "Al Y"], None),
    "space after comma": ("a, b\n1, 2\n3, NA\n", [[1, 2], [3, NAN]], None, None),
    "mark of byte order": ("\ufeffa,b\n1,2\n", [[1, 2]], None, ["a", "b"]),
    "mark of byte order, no header": ("\ufeff1,2\n3,4\n", [[1, 2], [3, 4]], None, None),
    "CRLF": ("a,b\r\n1,2\r\n3,4\r\n", [[1, 2], [3, 4]], None, ["a", "b"]),
    "no line end": ("a,b\n1,2", [[1, 2]], None, ["a", "b"]),
    "blank lines": ("\na,b\n\n1,2\n\n3,4\n\n\n", [[1, 2], [3, 4]], None, ["a", "b"]),
    "quotes": ('"a,1","b ""2""","c\nd"\n"1",2,"3"\n', [[1, 2, 3]], None, ["a,1", 'b "2"', "c\nd"]),
    "line end in a name": ('id,a\n"u\nv",1\n"w",2\n', [[1], [2]], ["u\nv", "w"], ["a"]),
    "two without a name": ("a,,\n1,2,3\n", [[1, 2, 3]], None, ["a", "", ""]),
    "a title": ("Sales\na,b,c\n1,2,3\n", [[1, 2, 3]], None, ["a", "b", "c"]),
    "a title of one cell": ("Sales,,\na,b,c\n1,2,3\n", [[1, 2, 3]], None, ["a", "b", "c"]),
    "a title over two columns": ("Sales\nx,y\n1,2\n3,4\n", [[1, 2], [3, 4]], None, ["x", "y"]),
    "titles in quotes": ('"Sales,\nnet"\n\nEuro\na,b,c\n1,2,3\n', [[1, 2, 3]], None, list("abc")),
    "a title and no names": ("Sales\n1,2,3\n4,5,6\n", [[1, 2, 3], [4, 5, 6]], None, None),
    "a title and named rows": (
        "T\nid,b,c\nu,1,2\nv,3,4\n",
        [[1, 2], [3, 4]],
        ["u", "v"],
        ["b", "c"],
    ),
    "empty cells above": (",,\n,,\na,b,c\n1,2,3\n", [[1, 2, 3]], None, ["a", "b", "c"]),
    "a line of spaces above": ("  \na,b\n1,2\n", [[1, 2]], None, ["a", "b"]),
    "one name, R": ("x\nu,1\nv,2\n", [[1], [2]], ["u", "v"], ["x"]),
    "a row with gaps and a name": ("u,,\nv,1,2\nw,3,4\n", [[1, 2], [3, 4]], ["v", "w"], ["", ""]),
    "truth values": ("a,b\nTRUE,1\nfalse,2\n,3\n", [[1, 1], [0, 2], [NAN, 3]], None, ["a", "b"]),
    "no header, truth values": ("yes,1\nno,2\nyes,3\n", [[1, 1], [0, 2], [1, 3]], None, None),
    "truth values below names": ("yes,b\nno,2\nno,3\n", [[0, 2], [0, 3]], None, ["yes", "b"]),
    "truth values and digits": ("a,b\nTrue,5\n0,5\n1,5\n", [[1, 5], [0, 5], [1, 5]], None, None),
    "signs": ("a,b\n+1,-2e-3\n.5,1E2\n", [[1, -0.002], [0.5, 100]], None, ["a", "b"]),
    "a word among numbers is no index": ("a,b\n1,2\n?,3\n", [[1, 2], [NAN, 3]], None, ["a", "b"]),
    "names that mean missing": ("id,a\nu,1\nNA,2\nw,3\n", [[1], [2], [3]], ["u", "NA", "w"], ["a"]),
}
# What Arrow may refuse, and the slow reader then copes with.
BEYOND_ARROW = {"signs", "space after comma"}


@pytest.mark.parametrize("case", DETECTED)
def test_detection(case, tmp_path):
    content, values, row_names, column_names = DETECTED[case]
    table = read_table(write(tmp_path, content))
    np.testing.assert_array_equal(table.values, values)
    assert table.values.dtype == np.float64
    assert table.row_names == row_names
    if column_names is not None or case.startswith("no header"):
        assert table.column_names == column_names


@pytest.mark.parametrize("case", DETECTED)
def test_the_slow_reader_agrees_with_the_quick_one(case, tmp_path):
    path = write(tmp_path, DETECTED[case][0])
    layout = delimited._detect(path, Options(), [])
    values, names = delimited._read_slowly(path, layout)
    quick = delimited._read_quickly(path, layout)
    if quick is None:
        assert case in BEYOND_ARROW
    else:
        np.testing.assert_array_equal(values, quick[0])
        assert names == quick[1]


@pytest.mark.parametrize(
    ("content", "row_names", "column_names"),
    [
        ("  1    2\n 30   4\n", None, None),
        ("a     b\n1.0   2\n30    4\n", None, ["a", "b"]),
        ("    a  b\nr   1  2\nst 30  4\n", ["r", "st"], ["a", "b"]),
        ("1 2 \n30 4 \n", None, None),
    ],
)
@pytest.mark.parametrize("n_blank", [0, 300])
def test_columns_lined_up_with_spaces(content, row_names, column_names, n_blank, tmp_path):
    table = read_table(write(tmp_path, content + n_blank * " \n", "data.txt"))
    np.testing.assert_array_equal(table.values, [[1, 2], [30, 4]])
    assert (table.row_names, table.column_names) == (row_names, column_names)


def test_names_in_quotes_may_hold_spaces(tmp_path):
    content = 'name a b\n"one  two" 1 2\n"three  four" 30 4\n'
    table = read_table(write(tmp_path, content, "data.txt"))
    np.testing.assert_array_equal(table.values, [[1, 2], [30, 4]])
    assert table.row_names == ["one  two", "three  four"]  # nothing is lined up here


def test_a_header_that_cannot_be_split(tmp_path):
    path = write(tmp_path, f'"{"x" * 200_000}",b\n1,2\n3,4\n')
    sentence = refusal(path)
    assert "data.csv cannot be split into cells from line 1 on" in sentence
    assert "look for a quote that is not closed" in sentence


def test_with_little_memory_left_a_file_is_read_slowly(tmp_path, monkeypatch):
    path = write(tmp_path, "a,b\n1,\n3,4\n")  # with a gap, which NumPy does not read
    asked = []

    def has_room(n_bytes):
        asked.append(n_bytes)
        return n_bytes < 10**6

    monkeypatch.setattr(delimited, "has_room", has_room)
    monkeypatch.setattr(delimited, "_read_quickly", None)
    np.testing.assert_array_equal(read_table(path).values, [[1, NAN], [3, 4]])
    assert len(asked) == 2
    monkeypatch.setattr(delimited, "has_room", lambda n_bytes: False)
    assert "memory" in refusal(path)


def test_the_place_of_a_bad_cell_among_spaces(tmp_path):
    path = write(tmp_path, "  a   b\n  1   2\n 30   x\n", "data.txt")
    assert 'row 2 (line 3), column "b", holds "x"' in refusal(path)


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are text elsewhere")
def test_a_name_that_is_no_text(tmp_path):
    path = tmp_path / os.fsdecode(b"\xff.csv")
    path.write_text("a,b\n1,2\n")
    np.testing.assert_array_equal(read_table(path).values, [[1, 2]])


def test_all_words_for_missing(tmp_path):
    words = ["", "NA", "NaN", "nan", "null", "NULL", "None", "N/A", "n/a", "-", "?"]
    lines = [f"1,{word},2" for word in words]
    table = read_table(write(tmp_path, "a,b,c\n" + "\n".join(lines) + "\n"))
    assert table.shape == (len(words), 3)
    assert np.isnan(table.values[:, 1]).all()
    assert table.n_missing == len(words)


def test_a_column_may_be_missing_altogether(tmp_path):
    table = read_table(write(tmp_path, "a,b\n1,\n2,\n"))
    np.testing.assert_array_equal(table.values, [[1, NAN], [2, NAN]])


def test_digits_are_kept(tmp_path):
    numbers = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-100, 100)
    table = read_table(write(tmp_path, "\n".join(map(repr, numbers.tolist()))))
    np.testing.assert_array_equal(table.values[:, 0], numbers)


@pytest.mark.parametrize("name", ["data.tsv", "DATA.TSV", "data.tsv.gz", "data.csv.gz", "data.txt"])
def test_endings(name, tmp_path):
    content = b"a\tb\n1\t2\n"
    path = write(tmp_path, gzip.compress(content) if name.endswith(".gz") else content, name)
    table = read_table(path)
    assert table.values.tolist() == [[1, 2]]
    assert table.column_names == ["a", "b"]
    assert table.source == name


def test_tsv_keeps_commas_in_names(tmp_path):
    table = read_table(write(tmp_path, "a,1\tb,2\n1\t2\n", "data.tsv"))
    assert table.column_names == ["a,1", "b,2"]


def test_header_as_told(tmp_path):
    path = write(tmp_path, "1,2\n3,4\n")
    assert read_table(path, header=True).column_names == ["1", "2"]
    path = write(tmp_path, "0,1,2\n5,6,7\n")
    assert read_table(path, header=False).shape == (2, 3)
    path = write(tmp_path, "u,1\nv,2\n")
    table = read_table(path, header=False)
    assert table.row_names == ["u", "v"]
    assert table.values.tolist() == [[1], [2]]
    assert 'holds "x", which is not a number' in refusal(
        write(tmp_path, "x,a\n1,2\n3,4"), header=False
    )


@pytest.mark.parametrize("index", ["id", 2, "2"])
def test_index_as_told(index, tmp_path):
    table = read_table(write(tmp_path, "a,id,b\n1,11,2\n3,12,4\n"), index=index)
    assert table.row_names == ["11", "12"]
    assert table.column_names == ["a", "b"]
    assert table.values.tolist() == [[1, 2], [3, 4]]


def test_no_index_as_told(tmp_path):
    path = write(tmp_path, ",a\n0,1\n1,2\n")
    assert read_table(path).row_names == ["0", "1"]
    assert read_table(path, index=0).values.tolist() == [[0, 1], [1, 2]]


def test_columns_can_be_dropped(tmp_path):
    path = write(tmp_path, "a,kind,b\n1,x,2\n3,y,4\n")
    sentence = refusal(path)
    assert 'has a column without numbers: "kind" ("x", "y")' in sentence
    assert "--drop kind," in sentence
    table = read_table(path, drop=["kind"])
    assert table.column_names == ["a", "b"]
    assert table.values.tolist() == [[1, 2], [3, 4]]
    sentence = refusal(path, drop=["kimd"])
    assert 'no column "kimd" (did you mean "kind"?)' in sentence
    assert '"a", "kind" and "b"' in sentence
    assert "no column left that is data; leave out fewer" in refusal(path, drop=["a", "kind", "b"])
    assert "keep one with --index 0" in refusal(write(tmp_path, "a\n1\n2\n"), index="a")


def test_columns_without_names_are_dropped_by_number(tmp_path):
    path = write(tmp_path, "1,2,3\n4,5,6\n")
    assert read_table(path, drop=["2"]).values.tolist() == [[1, 3], [4, 6]]
    assert "a number from 1 to 3" in refusal(path, drop=["4"])


# Trouble


def rows_with(number, cell):
    """A file of 30 rows with a cell in column b of one of them."""
    rows = [[str(i), f"{i}.5", "0"] for i in range(1, 31)]
    rows[number - 1][1] = cell
    return "a,b,c\n" + "".join(",".join(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("oops", "which is not a number"),
        ("1.2.3", "which is not a number"),
        ("1_000", "which is not a number"),
        ("TRUE", "which is not a number"),
        ("inf", "which is not finite"),
        ("-Infinity", "which is not finite"),
        ("1e999", "which is too large"),
    ],
)
def test_the_place_of_a_bad_cell(cell, reason, tmp_path):
    sentence = refusal(write(tmp_path, rows_with(17, cell)))
    assert 'row 17 (line 18), column "b"' in sentence
    assert f'holds "{cell}", {reason}' in sentence
    assert "drop the column" in sentence


def test_the_place_of_a_bad_cell_without_header(tmp_path):
    assert 'row 2 (line 2), column 2, holds "x"' in refusal(write(tmp_path, "1,2\n3,x\n4,5\n"))


def test_lines_count_blank_ones_and_those_within_cells(tmp_path):
    content = '"a\nb",c\n\n1,2\n\n3,x\n'
    assert 'row 2 (line 6), column "c"' in refusal(write(tmp_path, content))


def test_the_place_far_down(tmp_path):
    lines = ["a,b"] + ["1,2"] * 50_000 + ["1,z"] + ["1,2"] * 10
    assert 'row 50001 (line 50002), column "b", holds "z"' in refusal(
        write(tmp_path, "\n".join(lines))
    )


@pytest.mark.parametrize(
    ("row", "what"),
    [("3", "only 1 cell"), ("3,4", "only 2 cells"), ("3,4,5,6", "4 cells"), ("3,4,5,", "4 cells")],
)
def test_ragged_rows(row, what, tmp_path):
    content = "a,b,c\n1,2,3\n1,2,3\n" + row + "\n1,2,3\n"
    assert f"row 3 (line 4), has {what} where 3 are expected" in refusal(write(tmp_path, content))


def test_ragged_first_row_and_header(tmp_path):
    assert "row 1 (line 2), has 4 cells where 3 are expected" in refusal(
        write(tmp_path, "a,b,c\n1,2,3,4\n1,2,3\n1,2,3\n")
    )
    assert "has 5 names in its header (line 1), but 3 cells in its rows" in refusal(
        write(tmp_path, "a,b,c,d,e\n1,2,3\n1,2,3\n")
    )
    assert "has 2 names in its header (line 1), but 3 cells in its rows" in refusal(
        write(tmp_path, "a,b\n1,2,\n3,4,\n")
    )


def test_a_number_far_down_a_column_of_truth_values(tmp_path):
    lines = ["a,b"] + ["TRUE,2"] * 300 + ["2,2"]
    sentence = refusal(write(tmp_path, "\n".join(lines)))
    assert 'row 301 (line 302), column "a", holds "2", which is neither yes nor no' in sentence


def test_long_and_unprintable_cells_are_shown_safely(tmp_path):
    sentence = refusal(write(tmp_path, "a,b\n1,\x1b[31m" + "x" * 500 + "\n"))
    assert "\x1b" not in sentence
    assert "…" in sentence
    assert len(sentence) < 300


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "is empty"),
        ("\n \n", "is empty"),
        ("a,b\n", "has a header but no rows"),
        ("a,b\n\n\n", "has a header but no rows"),
        ("é,b\n1,2\n".encode("latin-1"), "is not UTF-8 text: line 1 has the byte 0xe9"),
        ("n,b\nx,2\né,3\n".encode("latin-1"), "is not UTF-8 text: line 3 has the byte 0xe9"),
        ("a,b\n1,2\n".encode("utf-16"), "is in UTF-16"),
        (b"PK\x03\x04\0\0\0\0", "is not text"),
        ('a,b\n1,2\n"3,4\n' + "5,6\n" * 50_000, "a quote that is not closed"),
    ],
)
def test_files_that_are_no_tables(content, what, tmp_path):
    assert what in refusal(write(tmp_path, content))


def test_truncated_archive(tmp_path):
    rng = np.random.default_rng(0)
    text = "\n".join(",".join(map(str, row)) for row in rng.normal(size=(1000, 3)))
    packed = gzip.compress(text.encode())
    for length in (5, 15, len(packed) // 2, len(packed) - 4):
        assert "damaged, cut short" in refusal(write(tmp_path, packed[:length], "data.csv.gz"))
    assert "damaged, cut short, or not a .csv.gz file" in refusal(
        write(tmp_path, text, "data.csv.gz")
    )


def test_key_has_no_meaning(tmp_path):
    assert '"key" does not apply' in refusal(write(tmp_path, "1,2\n"), key="a")


# Round trips

names = st.text(
    st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=8
) | st.sampled_from(["a,b", 'say "so"', "two\nlines", "=cmd()", "ü", "NA", "1", " x ", "a\r\nb"])
numbers = st.floats(allow_infinity=False, allow_nan=True, width=64)


@st.composite
def tables(draw):
    n_rows, n_columns = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    values = draw(
        st.lists(
            st.lists(numbers, min_size=n_columns, max_size=n_columns),
            min_size=n_rows,
            max_size=n_rows,
        )
    )
    row_names = draw(st.none() | st.lists(names, min_size=n_rows, max_size=n_rows))
    spaceless = names.map(lambda name: name.strip(" ")).filter(bool)  # no part of a name
    unique = st.lists(spaceless, min_size=n_columns, max_size=n_columns, unique=True)
    column_names = draw(st.none() | unique)
    return Table(np.array(values), row_names, column_names)


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
@given(table=tables())
def test_round_trip(ending, table):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"data{ending}"
        write_table(path, table)
        named = table.column_names is not None or table.row_names is not None
        # Names that look like numbers leave nothing to detect.
        index = 0 if table.row_names is None else 1
        back = read_table(path, header=named, index=index)
    np.testing.assert_array_equal(back.values, table.values)
    assert back.row_names == table.row_names
    if table.column_names is not None:
        assert back.column_names == table.column_names


@pytest.mark.parametrize("index", [True, False])
@pytest.mark.parametrize("columns", [None, ["a", "b c", "d,e"]])
def test_what_pandas_writes(index, columns, tmp_path):
    values = np.random.default_rng(0).normal(size=(5, 3))
    values[2, 1] = np.nan
    pd.DataFrame(values, columns=columns).to_csv(tmp_path / "data.csv", index=index)
    table = read_table(tmp_path / "data.csv")
    np.testing.assert_array_equal(table.values, values)
    assert table.column_names == (columns or ["0", "1", "2"])
    assert table.row_names == ([str(i) for i in range(5)] if index else None)


def test_what_numpy_writes(tmp_path):
    values = np.random.default_rng(0).normal(size=(5, 3))
    np.savetxt(tmp_path / "data.txt", values)
    np.testing.assert_array_equal(read_table(tmp_path / "data.txt").values, values)


def test_a_column_taken_for_names_is_told(tmp_path):
    path = tmp_path / "prices.csv"
    path.write_text("price,b,c\n$5,1,2\n$6,3,4\n")
    (told,) = read_table(path).guesses
    assert 'The column "price" holds text, such as "$5", so it names the rows' in told
    assert "--drop price" in told
    assert read_table(path, index="price").guesses == ()  # it was asked for
    path.write_text(",b,c\nu,1,2\nv,3,4\n")
    assert read_table(path).guesses == ()  # as frames are written


@pytest.mark.parametrize(
    ("content", "words", "settled"),
    [
        ("2001,2002,2003\n1,2,3\n4,5,6\n", "(2001, 2002, 2003) holds numbers only", "header"),
        ("2001,2002,2003\n1,2,3\n4,5,6\n", "--header says that it holds names", "header"),
        ("0,1,2\n5,6,7\n", "as the names of the columns; --no-header says", "header"),
        (",b\n1.5,2\n2.5,4\n", "The first column has no name, so it names the rows", "index"),
        (",b\n1.5,2\n2.5,4\n", "--index 0 makes it data", "index"),
        (",b\n5%,2\n6%,4\n", "leave it out with --drop 1", "index"),
        ('x,b\n"1,000",2\n"2,000",4\n', 'such as "1,000"', "index"),
        ("u,1\nv,2\nw,3\n", "--index 1 says that this is meant", "index"),
        ("id,b\n7,2\n3,4\n5,1\n8,1\n", '"id" has another whole number in every row', "index"),
        (
            "id,b\n1,2\n2,4\n3,1\n4,1\n",
            "goes up by 1 from row to row, and is taken as data",
            "index",
        ),
        ("b,id\n1,2\n2,3\n2,4\n2,5\n", "--index id makes it the names", "index"),
        ("b,id\n1,2\n2,3\n2,4\n2,5\n", "--drop id leaves it out", "index"),
    ],
)
def test_guesses_are_told_with_the_option_that_undoes_them(content, words, settled, tmp_path):
    path = write(tmp_path, content)
    header = False if content.startswith("u,") else None
    assert words in " ".join(read_table(path, header=header).guesses)
    answers = {"header": {"header": True}, "index": {"index": 1, "header": header}}[settled]
    assert words not in " ".join(read_table(path, **answers).guesses)


@pytest.mark.parametrize(("delimiter", "ending"), [("\t", "tsv"), (";", "csv")])
def test_commas_within_numbers_are_told_and_may_part_thousands(delimiter, ending, tmp_path):
    content = "a,b\n1.250,2.500\n3.100,4.900\n".replace(",", delimiter).replace(".", ",")
    path = write(tmp_path, content, f"data.{ending}")
    table = read_table(path)
    (told,) = table.guesses
    assert "1,250 is read as 1.25, but all of them stand before three digits" in told
    assert table.values[0].tolist() == [1.25, 2.5]
    assert "--decimal ." in told  # which is then done
    thousands = read_table(path, decimal=".")
    assert thousands.values.tolist() == [[1250, 2500], [3100, 4900]]
    assert thousands.guesses == ()
    meant = read_table(path, decimal=",")
    assert (meant.values == table.values).all()
    assert meant.guesses == ()
    (told,) = read_table(write(tmp_path, "a;b\n1,5;2\n3,25;4\n")).guesses
    assert "thousands, --decimal ," in told
    assert "three digits" not in told


def test_signs_as_told(tmp_path):
    path = write(tmp_path, 'a,b\n"1.234,5","2,5"\n"3","4"\n')
    assert read_table(path, decimal=",").values.tolist() == [[1234.5, 2.5], [3, 4]]
    path = write(tmp_path, 'a,b\n"1,234.5",2\n"1,234,567",4\n')
    assert read_table(path, decimal=".").values.tolist() == [[1234.5, 2], [1234567, 4]]
    assert "not a number" in refusal(write(tmp_path, 'a,b\n"1,23",2\n3,4\n5,6\n'), decimal=".")


def test_no_first_row_is_lost_in_silence(tmp_path):
    path = write(tmp_path, "5.0,3.0,x\n5.1,3.1,y\n5.2,3.2,x\n")
    table = read_table(path, drop=["3"])
    assert table.shape == (3, 2)  # labels come back, names do not
    assert "--header says that it holds names" in table.guesses[0]
    path = write(tmp_path, "r0,0,,5\nr1,3,,1\nr2,1,,4\n")
    table = read_table(path)
    assert table.shape == (2, 3)
    assert "--no-header says that it is a row of data" in table.guesses[0]
    assert read_table(path, header=False).shape == (3, 3)
    assert not any("first line" in told for told in read_table(path, header=False).guesses)
    path = write(tmp_path, "name,a,b,7\nu,1,2,3\nv,4,5,6\n")
    assert not any("first line" in told for told in read_table(path).guesses)


def test_columns_keep_the_numbers_of_the_file(tmp_path):
    path = write(tmp_path, "r0,0,5,1\nr1,3,6,2\n")
    table = read_table(path, header=False, drop=["3"])
    assert table.labels == ["column 2", "column 4"]
    assert "column 4" in refusal(write(tmp_path, "r0,0,5,inf\nr1,3,6,2\n"), header=False)
    np.save(tmp_path / "data.npy", [[1.0, 2.0, np.inf]])
    assert "column 3" in refusal(tmp_path / "data.npy", drop=["1"])


@pytest.mark.parametrize(
    ("content", "dropped"),
    [("price,b,c\n$5,1,2\n$6,3,4\n", "price"), (",b,c\n5%,1,2\n6%,3,4\n", "1")],
)
def test_a_column_taken_for_names_can_be_left_out_as_advised(content, dropped, tmp_path):
    path = write(tmp_path, content)
    (told,) = read_table(path).guesses
    assert f"--drop {dropped}." in told
    table = read_table(path, drop=[dropped])
    assert (table.row_names, table.column_names, table.guesses) == (None, ["b", "c"], ())
    frame = pd.DataFrame({"price": ["$5", "$6"], "b": [1, 3], "c": [2, 4]})
    frame.to_parquet(tmp_path / "data.parquet")
    table = read_table(tmp_path / "data.parquet", drop=["price"])
    assert (table.row_names, table.column_names) == (None, ["b", "c"])


def test_identifiers_are_told_beside_names_gaps_and_in_parquet(tmp_path):
    path = write(tmp_path, "name,id,b\nu,7,1\nv,3,2\nw,5,2\nx,8,1\n")
    assert any("--drop id leaves it out" in told for told in read_table(path).guesses)
    path = write(tmp_path, "id,b\n7,1\n3,2\n,2\n5,1\n8,1\n")
    assert any("--drop id leaves it out" in told for told in read_table(path).guesses)
    pd.DataFrame({"id": [7, 3, 5, 8], "b": [1, 2, 2, 1]}).to_parquet(tmp_path / "data.parquet")
    (told,) = read_table(tmp_path / "data.parquet").guesses
    assert "--drop id leaves it out" in told
    assert read_table(write(tmp_path, "id\n1\n2\n3\n4\n")).guesses == ()  # all that there is


def test_ordinary_files_need_no_guess(tmp_path):
    assert read_table(write(tmp_path, "a,b\n1,2\n3,4\n5,6\n5,9\n")).guesses == ()
    assert read_table(write(tmp_path, ",b\n0,2\n1,4\n2,6\n3,9\n")).guesses == ()
    assert read_table(write(tmp_path, "id,b\n0.5,2\n1,4\n2,6\n3,9\n")).guesses == ()


def test_all_columns_of_text_are_named_at_once(tmp_path):
    path = write(tmp_path, "x,class,y,the note\n1,a,2,hm\n2,b,3,\n3,a,?,so\n")
    sentence = refusal(path)
    assert '2 columns without numbers: "class" ("a", "b") and "the note" ("hm", "so")' in sentence
    assert "--drop class --drop 'the note'" in sentence


def test_the_columns_that_a_model_knows_are_read_and_no_others(tmp_path):
    path = write(tmp_path, "x,class,y\n1,a,2\n2,b,3\n")
    assert read_table(path, keep=["y", "x"]).column_names == ["x", "y"]
    sentence = refusal(path, keep=["x", "z", "w"])
    assert 'lacks 2 columns that the model was fitted to: "z" and "w"' in sentence
    assert 'Its columns are "x", "class" and "y"' in sentence
    nameless = write(tmp_path, "1,2\n2,3\n")
    assert read_table(nameless, keep=["x"]).shape == (2, 2)


def test_the_name_of_the_index_column_survives(tmp_path):
    table = read_table(write(tmp_path, "flower,x\na,1\nb,2\n"))
    assert table.index_name == "flower"
    for ending in (".csv", ".csv.gz", ".tsv.gz", ".parquet"):
        write_table(tmp_path / f"copy{ending}", table)
        again = read_table(tmp_path / f"copy{ending}")
        assert (again.index_name, again.row_names) == ("flower", ["a", "b"])


def test_rows_and_columns_can_change_places(tmp_path):
    path = write(tmp_path, "gene,cell1,cell2\ng1,1,2\ng2,3,4\ng3,5,6\n")
    table = read_table(path, transpose=True)
    assert table.values.tolist() == [[1, 3, 5], [2, 4, 6]]
    assert (table.row_names, table.column_names) == (["cell1", "cell2"], ["g1", "g2", "g3"])


@pytest.mark.parametrize(
    "content",
    [
        "1,2\n3,4\n",
        "a,b\n1,2\n\n3,4",
        "a;b\r\n1.5;-2e-3\r\n+.5;4.\r\n",
        "\ufeffa\tb\n1\t2\n",
        "1\n2\n3\n",
        "a,b\n1,\n3,4\n",
        "a,b\n1,nan\n3,NA\n",
        "n,a\nu,1\nv,2\n",
        'a,b\n"1",2\n3,"4"\n',
        "a,b\n 1 , 2\n3,4\n",
    ],
)
def test_small_files_are_read_as_large_ones_are(content, tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text(content, encoding="utf-8", newline="")
    small = read_table(path)
    monkeypatch.setattr("ibp.files.delimited.SMALL", -1)
    large = read_table(path)
    np.testing.assert_array_equal(small.values, large.values)
    assert small.values.dtype == large.values.dtype and small.values.flags.c_contiguous
    assert (small.row_names, small.column_names) == (large.row_names, large.column_names)


@pytest.mark.parametrize(
    "content",
    ["a,b\n1,2\n3\n", "a,b\n1,2\n3,4,5\n", "a,b\n1,x\n", "a,b\n1,inf\n", "a,b\n1,1e999\n"],
)
def test_small_files_are_refused_as_large_ones_are(content, tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    path.write_text(content)
    with pytest.raises(DataFileError) as small:
        read_table(path)
    monkeypatch.setattr("ibp.files.delimited.SMALL", -1)
    with pytest.raises(DataFileError) as large:
        read_table(path)
    assert str(small.value) == str(large.value)


def test_cures_that_leave_something(tmp_path):
    path = write(tmp_path, 'a,b,c\n"6,94","5,85","7,33"\n"5,20","4,63","2,87"\n')
    sentence = refusal(path)
    assert "has no column of numbers" in sentence
    assert "--decimal ," in sentence
    assert "--drop" not in sentence
    assert read_table(path, decimal=",").values[0].tolist() == [6.94, 5.85, 7.33]
    assert "semicolons, tabs, spaces or bars" in refusal(write(tmp_path, "a:b\n1:2\n3:4\n"))


def test_lines_above_the_data(tmp_path):
    path = write(tmp_path, "a,b,c\nm,kg,s\n1,2,3\n4,5,6\n7,8,9\n")
    assert "words in line 2, where columns hold numbers below it; remove that line" in refusal(path)
    sentence = refusal(write(tmp_path, "sep=;\na;b\n1;2\n3;4\n"))
    assert 'begins with "sep=;"' in sentence
    assert "remove that line" in sentence
    (told,) = read_table(write(tmp_path, ",,\n1,2,4\n3,4,4\n5,9,2\n")).guesses
    assert "neither names nor numbers" in told


def test_what_stands_above_a_table_is_told(tmp_path):
    path = write(tmp_path, "Sales\na,b,c\n1,2,3\n4,5,7\n")
    (told,) = read_table(path).guesses
    assert told.startswith('Line 1 ("Sales") stands above the table, and is left out; --header')
    assert "--no-header" in told
    assert "has 1 name in its header (line 1)" in refusal(path, header=True)
    assert "only 1 cell where 3 are expected" in refusal(path, header=False)
    (told,) = read_table(write(tmp_path, "\nSales\n\nnet,,\na,b,c\n1,2,3\n4,5,7\n")).guesses
    assert told.startswith('Lines 1 to 4 ("Sales", ...) stand above the table, and are left out')
    (told,) = read_table(write(tmp_path, ",,\na,b,c\n1,2,3\n4,5,7\n")).guesses
    assert told.startswith("Line 1 (empty cells) stands above the table")
    assert read_table(write(tmp_path, "   \na,b\n1,2\n4,7\n")).guesses == ()
    above, first = read_table(write(tmp_path, "Sales\n2001,2002,2003\n1,2,3\n4,5,7\n")).guesses
    assert above.startswith("Line 1 (")
    assert first.startswith("Line 2 (2001, 2002, 2003) holds numbers only")
    # Where the table has more to say of itself, lines are counted as in the file.
    sentence = refusal(write(tmp_path, "Sales\na,b,c\n1,2,3\n4,x,7\n"))
    assert "row 2 (line 4), column" in sentence


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_columns_of_one_name_are_refused(ending, tmp_path):
    values, names = np.arange(10.0).reshape(2, 5), ["a", "b", "a", "", ""]
    path = tmp_path / f"data{ending}"
    if ending == ".csv":
        path.write_text("a,b,a,,\n0,1,2,3,4\n5,6,7,8,9\n")
    elif ending == ".npz":
        np.savez(path, values=values, column_names=names)
    else:
        table = pa.Table.from_arrays([pa.array(column) for column in values.T], names=names)
        pa.parquet.write_table(table, path)
    sentence = refusal(path)
    assert 'has several columns of one name: "a" (columns 1 and 3). Rename them, or' in sentence
    assert sentence.endswith("leave out all but one with --drop 3.")
    table = read_table(path, drop=["3"])
    assert table.column_names == ["a", "b", "", ""]
    np.testing.assert_array_equal(table.values, values[:, [0, 1, 3, 4]])
    assert read_table(path, keep=["b"]).column_names == ["b"]


def test_columns_of_one_name_that_no_number_tells_apart(tmp_path):
    sentence = refusal(write(tmp_path, "2,2,x\n1,3,2\n4,5,6\n"), header=True)
    assert sentence.endswith('one name: "2" (columns 1 and 2). Rename them.')
    path = write(tmp_path, "id,x,y\nu,1,1\nu,2,3\nv,3,3\n")
    sentence = refusal(path, transpose=True)
    assert sentence.endswith("leave out the column that holds these names with --drop.")
    assert read_table(path, transpose=True, drop=["id"]).column_names is None
    names = ",".join("abcdefg" * 2)
    sentence = refusal(write(tmp_path, f"{names}\n{',' * 13}\n"))
    assert sentence.endswith("--drop 8 --drop 9 --drop 10 --drop 11 --drop 12 and so on.")


def test_infinities_are_no_text(tmp_path):
    path = write(tmp_path, "a,b,c\n1,inf,inf\n2,-Infinity,1e999\nx,3,4\n,5,6\n")
    a, b, c = describe_file(path).columns
    assert (a.holds, b.holds, c.holds) == (
        "whole numbers and 1 cell of text",
        "whole numbers and 2 infinite cells",
        "whole numbers and 2 infinite cells",
    )
    path = write(tmp_path, "a,b,c\n1,inf,x\n2,inf,3\n3,inf,inf\n4,4,5\n")
    assert [column.holds for column in describe_file(path).columns][1:] == [
        "whole numbers and 3 infinite cells",
        "whole numbers, 1 infinite cell and 1 cell of text",
    ]
    sentence = refusal(path)
    assert 'column "b", holds "inf", which is not finite' in sentence
    (only,) = describe_file(write(tmp_path, "a\ninf\n-inf\n")).columns
    assert only.holds == "2 infinite cells"


@pytest.mark.parametrize(
    ("content", "guess"),
    [
        ("a;b\n1,5;2\n2,5;x\n3,5;1\n", "Commas stand before decimals"),
        ("2001,2002\n1,2\n3,4\n5,z\n", "holds numbers only, so it is taken as a row of data"),
        ("T\na,b,c\n1,2,3\n1,2,inf\n", "stands above the table"),
        ("0,1,2\n7,4,5\n5,6,x\n", "is taken as the names of the columns"),
        ("id,a,a\n1,2,3\n2,4,4\n3,1,1\n4,1,2\n", "goes up by 1"),
    ],
)
def test_guesses_are_told_of_a_file_that_is_refused(content, guess, tmp_path):
    with pytest.raises(DataFileError) as caught:
        read_table(write(tmp_path, content))
    assert guess in " ".join(caught.value.guesses)
    assert guess not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said", "cure"),
    [
        ('a,b\n1,"2\n3,4\n5,6\n', "cannot be split into cells from line 2 on", "not closed"),
        ("a,b,c\n1,2,3\n4,5,6\n\nSource: us\n", "row 3 (line 5), has only 1 cell", "a remark"),
        ("<!DOCTYPE html>\n<p>404</p>\n", "is a web page", "download"),
        ('\n[{"a": 1},\n{"a": 2}]\n', "is in JSON", "a line for each row"),
        ("<?xml?>\n<a>1</a>\n", "is in XML", "a line for each row"),
    ],
)
def test_what_people_take_for_a_table(content, said, cure, tmp_path):
    sentence = refusal(write(tmp_path, content))
    assert said in sentence and cure in sentence


def test_what_people_write_in_tables(tmp_path):
    table = read_table(write(tmp_path, "a, b, c\n1, 2, yes\n\N{MINUS SIGN}3, 4, No\n5, 6, 1\n"))
    assert table.column_names == ["a", "b", "c"]
    assert table.values.tolist() == [[1, 2, 1], [-3, 4, 0], [5, 6, 1]]
    table = read_table(write(tmp_path, "a|b\n1.5|2\n3|4\n"))
    assert table.column_names == ["a", "b"] and table.values.tolist() == [[1.5, 2], [3, 4]]
    assert read_table(write(tmp_path, "a|b\n1,5|2\n3|4\n")).values[0].tolist() == [1.5, 2]


def test_points_that_may_part_thousands_are_told(tmp_path):
    path = write(tmp_path, "a;b\n1.200;2\n12.345;1\n999;3\n")
    (told,) = read_table(path).guesses
    assert told.startswith("Points stand before decimals, so 1.200 is read as a little more than 1")
    assert read_table(path, decimal=",").values[:, 0].tolist() == [1200, 12345, 999]
    assert read_table(path, decimal=".").guesses == ()
    for content in ("a;b\n1.200;2\n0.345;1\n", "a;b\n1.20;2\n", "a,b\n1.200,2\n", "a;b\n1;2\n"):
        assert read_table(write(tmp_path, content)).guesses == ()
