"""What all kernels have in common."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ibp

SOURCE = Path(ibp.__file__).parent
MOST_ARGUMENTS = 9
# Records would cost speed here, as the functions themselves say.
FLAT = {"shift", "moved"}


def functions():
    for folder in ("kernels", "submodular"):
        for path in sorted((SOURCE / folder).glob("*.py")):
            for node in ast.parse(path.read_text()).body:
                if isinstance(node, ast.FunctionDef) and node.decorator_list:
                    yield pytest.param(node, id=f"{folder}/{path.stem}.{node.name}")


@pytest.mark.parametrize("function", list(functions()))
def test_arguments_that_belong_together_are_records(function):
    if function.name in FLAT:
        pytest.skip("flat for speed")
    assert len(function.args.args) <= MOST_ARGUMENTS


@pytest.mark.parametrize("function", list(functions()))
def test_no_record_is_addressed_by_position(function):
    """A parameter that is a record is not indexed by a number, as in ``search[1]``."""
    parameters = {argument.arg for argument in function.args.args}
    records = {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    } & parameters
    by_number = {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and isinstance(node.slice, ast.Constant)
    }
    arrays = {
        node.value.id
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in ("shape", "size", "dtype", "T")
    }
    assert not (records - arrays) & by_number
