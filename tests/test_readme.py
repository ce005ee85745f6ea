"""What the README and the docstrings show is what happens."""

import doctest
import re
from pathlib import Path

import pytest

import ibp.estimators.meibp
import ibp.registry

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


@pytest.mark.parametrize("module", [ibp.estimators.meibp, ibp.registry])
def test_docstring_examples(module):
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
