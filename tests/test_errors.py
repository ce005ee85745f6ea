"""Errors as data: their fields, the sentences made of them, and what the command line does."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import ibp
from ibp import errors
from ibp.cli.app import run
from ibp.cli.data import places_named
from ibp.cli.problems import session
from ibp.files import Table, read_table
from ibp.validation import spreads_apart, spreads_too_far_apart


def caught(kind, call, *arguments):
    with pytest.raises(kind) as found:
        call(*arguments)
    return found.value


def test_a_sentence_is_made_of_the_fields():
    error = errors.InputError(
        f"has an infinity in {errors.PLACE}", "Remove the row", about="X", row=4, columns=[2]
    )
    assert (error.row, error.column, error.file, error.cure) == (4, 2, None, "Remove the row")
    assert str(error) == "X has an infinity in row 4, column 2. Remove the row."
    error.names = ["a", "b", "c"]
    assert str(error) == "X has an infinity in row 4, column 2 ('c'). Remove the row."
    error.read_from("data.csv", error.names)
    error.cure = "leave it empty"
    assert str(error) == 'data.csv has an infinity in row 5, column "c"; leave it empty.'
    assert error.file == "data.csv"


def test_a_place_without_words_for_it_follows_the_file():
    error = errors.DataFileError('holds "x"', file="a.csv", row=1, line=3, columns=[0])
    assert str(error) == 'a.csv, row 2 (line 3), column 1, holds "x".'
    assert str(errors.DataFileError("is empty", "is it b.csv?", file="a.csv")) == (
        "a.csv is empty; is it b.csv?"
    )


def test_what_a_cell_says_stays_as_it_is(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n3,{place}\n")
    assert 'column "b", holds "{place}"' in str(caught(errors.DataFileError, read_table, path))


def test_no_full_stop_is_put_behind_an_address():
    error = errors.InputError("X is wrong, see https://example.org/a")
    assert str(error).endswith("/a")


def test_many_columns_are_counted():
    error = errors.InputError(f"has gaps in {errors.PLACE}", about="X", columns=range(8))
    assert str(error).endswith("column 3, column 4 and 3 more.")
    assert error.columns == list(range(8))


def test_another_file_does_not_take_an_error_over():
    error = errors.DataFileError("cannot be written", file="out.csv")
    error.read_from("data.csv", None)
    assert str(error) == "out.csv cannot be written."
    setting = errors.InvalidValueError("alpha is -1")
    setting.read_from("data.csv", None)
    assert setting.file is None and str(setting) == "alpha is -1."


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (errors.InvalidValueError, ValueError),
        (errors.InvalidTypeError, TypeError),
        (errors.DataFileError, ValueError),
        (errors.ModelFileError, ValueError),
        (errors.MissingPackageError, ImportError),
    ],
)
def test_errors_have_a_type_of_python_and_survive_pickling(kind, base):
    error = kind(
        f"is {errors.PLACE}", "mend it", file="a.csv", row=0, columns=[1], names=["u", "v"]
    )
    assert isinstance(error, base) and isinstance(error, errors.InputError)
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == 'a.csv is row 1, column "v"; mend it.'
    assert vars(copy) == vars(error)


def test_validation_of_x_fills_the_fields():
    X = np.ones((6, 3))
    X[4, 1] = np.inf
    for data in (X, sparse.csr_array(X)):
        error = caught(errors.InvalidValueError, ibp.MEIBP().fit, data)
        assert (error.row, error.columns, error.file) == (4, [1], None)
        assert error.cure.startswith("Replace it by NaN")
    error = caught(ValueError, ibp.MEIBP().fit, pd.DataFrame({"n": [1.0, 2.0], "w": ["3", "x"]}))
    assert (error.row, error.column, list(error.names)) == (1, 1, ["n", "w"])
    X[:, 1:] = np.nan
    assert caught(errors.InvalidValueError, ibp.MEIBP().fit, X).columns == [1, 2]
    with pytest.raises(errors.InvalidTypeError) as refused:
        ibp.MEIBP().fit(X, sample_weight=[1] * 6)
    assert refused.value.cure == "For integer sample weights repeat the rows"


def test_what_scikit_learn_refuses_is_ours():
    error = caught(errors.InvalidValueError, ibp.MEIBP().fit, np.ones(3))
    assert "Expected 2D array" in str(error)
    assert isinstance(
        caught(errors.InvalidTypeError, ibp.MEIBP().fit, [[{}, 1.0], [1.0, 2.0]]), TypeError
    )


def test_files_fill_the_fields(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b\n1,2\n\n3,x\n")
    error = caught(errors.DataFileError, read_table, path)
    assert (error.file, error.row, error.line, error.column) == ("data.csv", 1, 4, 1)
    assert error.names[error.column] == "b" and error.cure.startswith("correct it")
    np.save(tmp_path / "data.npy", [[0.0, 1.0], [2.0, -np.inf]])
    error = caught(errors.DataFileError, read_table, tmp_path / "data.npy")
    assert (error.file, error.row, error.column) == ("data.npy", 1, 1)


def test_model_files_fill_the_fields(tmp_path):
    path = tmp_path / "model.ibp"
    path.write_bytes(b"no model")
    error = caught(errors.ModelFileError, ibp.load, path)
    assert error.file == str(path) and "fit and save the model anew" in error.cure


def test_warnings_carry_fields_too():
    X = np.random.default_rng(0).normal(size=(30, 3)) * [1.0, 1.0, 1e4]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        ibp.MEIBP(
            2, fit_intercept=False, noise="shared", max_iter=1, init="random", random_state=0
        ).fit(X)
    told = {type(warning.message): warning.message for warning in seen}
    negative, unequal = told[errors.NegativeEntriesWarning], told[errors.UnequalScalesWarning]
    assert X[negative.row, negative.column] < 0 and (X.ravel() < 0).argmax() == (
        3 * negative.row + negative.column
    )
    assert unequal.column == 2
    assert any(issubclass(kind, errors.EndingWarning | ConvergenceWarning) for kind in told)


def test_the_command_line_counts_and_names_as_the_file_does(capsys):
    table = Table(np.ones((3, 2)), None, ["first", "second"], None, "numbers.csv")
    with (
        pytest.raises(BaseException) as left,
        session(quiet=False, json=False),
        places_named(table),
    ):
        warnings.warn(errors.DataWarning(f"See {errors.PLACE}", columns=[0]), stacklevel=1)
        ibp.MEIBP().fit(np.where(np.eye(3, 2) == 1, np.inf, 1.0))
    assert left.value.exit_code == 2
    note, error = capsys.readouterr().err.splitlines()
    assert note == 'note: See column "first".'
    assert error.startswith('error: numbers.csv has an infinity in row 1, column "first". Replace')


def test_a_column_without_values_can_be_dropped(tmp_path, capsys):
    (tmp_path / "gap.csv").write_text("a,b,c\n1,,2\n3,,4\n5,,7\n")
    assert run(["fit", str(tmp_path / "gap.csv")]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == (
        'error: gap.csv has no observed value in column "b", so nothing can be learned of it. '
        "Leave such columns out with --drop b."
    )


@pytest.mark.parametrize("module", ["ibp.validation", "ibp.files.read", "sklearn.utils.validation"])
@pytest.mark.parametrize("kind", ["ValueError", "TypeError", "ImportError"])
def test_a_bug_stays_a_bug_whichever_module_it_is_raised_in(module, kind):
    with pytest.raises(Exception, match="a bug") as left, session(quiet=True, json=False):
        exec(f"raise {kind}('a bug')", {"__name__": module})
    assert left.type.__name__ == kind


def test_a_bug_in_validation_is_shown_with_its_traceback(monkeypatch, tmp_path):
    def broken(*arguments, **more):
        raise ValueError("operands could not be broadcast")

    monkeypatch.setattr("ibp.estimators.fitting.check_range", broken)
    (tmp_path / "data.csv").write_text("a,b\n1,2\n3,4\n5,7\n")
    with pytest.raises(ValueError, match="operands"):
        run(["fit", str(tmp_path / "data.csv")])


def test_sparse_matrices_that_contradict_themselves():
    broken = sparse.csr_array(np.eye(5))
    broken.indices[2] = 99
    listed = sparse.coo_array(np.eye(5))
    listed.coords[1][2] = 99
    for X in (broken, listed):
        words = "is a sparse matrix that is not consistent"
        with pytest.raises(errors.InvalidValueError, match=words):
            ibp.MEIBP().fit(X)


def test_columns_of_one_name_in_a_data_frame():
    X = pd.DataFrame(np.eye(4), columns=["a", "b", "a", "c"])
    words = r"X has several columns of one name: column 0 \('a'\), column 2 \('a'\). Rename them"
    with pytest.raises(errors.InvalidValueError, match=words):
        ibp.MEIBP().fit(X)


def test_how_far_apart_spreads_may_be_is_decided_in_one_place():
    shared, own = SimpleNamespace(noise_std_=1.0), SimpleNamespace(noise_std_=np.ones(3))
    near, far = [0.0, 1e-4, 0.99], [0.0, 1e-4, 1.01]
    assert spreads_apart(near) is None and spreads_apart([0.0]) is None
    assert spreads_apart(far) == pytest.approx(np.sqrt(1.01e4))
    assert spreads_too_far_apart(shared, far, images=False) == spreads_apart(far)
    assert spreads_too_far_apart(shared, far, images=True) is None
    assert spreads_too_far_apart(own, far, images=False) is None


def test_what_people_pass_for_data():
    for name in ("data.csv", Path("data.csv"), b"data.csv"):
        error = caught(errors.InvalidValueError, ibp.MEIBP().fit, name)
        assert "data.csv" in str(error) and "is a name" in str(error)
        assert "pandas.read_csv" in error.cure
    error = caught(errors.InvalidValueError, ibp.MEIBP().fit, np.zeros((4, 3, 2)))
    assert "dim 3" in str(error) and "X.reshape(len(X), -1)" in error.cure
