"""What the README and the docstrings show is what happens."""

import doctest
import re
from pathlib import Path

import pytest

import ibp.estimators.meibp

README = Path(__file__).resolve().parents[1] / "README.md"


@pytest.mark.filterwarnings("ignore:The variances of X's columns")
def test_the_readmes_python_runs(tmp_path, monkeypatch, capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    for block in blocks:
        assert len(block.strip().splitlines()) <= 11
        exec(compile(block, str(README), "exec"), {})
    assert "features, evidence" in capsys.readouterr().out
    assert ibp.load(tmp_path / "digits.ibp").n_components_ > 0


def test_docstring_examples():
    result = doctest.testmod(ibp.estimators.meibp)
    assert result.attempted > 0
    assert result.failed == 0
