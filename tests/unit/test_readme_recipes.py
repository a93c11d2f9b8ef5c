"""What the README shows for Python runs as it stands there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from schedlab.policies.presets import find_preset
from schedlab.policies.registry import build
from tests.unit.replay_helpers import small_trace

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
RECIPES = [code for code in re.findall(r"```python\n(.*?)```", README, re.DOTALL) if "schedlab.replay" in code]
PRINTED = (r"stop +60\n", r"request_id +waited_ms(.|\n)*\n(\d+ +.*\n?){5}", r"1 1\.0\n", r"fifo \d.*\nslai \d.*\n")


def test_there_are_as_many_as_are_looked_at() -> None:
    assert len(RECIPES) == len(PRINTED)


@pytest.mark.parametrize(("code", "printed"), list(zip(RECIPES, PRINTED, strict=False)))
def test_it_prints_what_it_is_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], code: str, printed: str
) -> None:
    monkeypatch.chdir(tmp_path)
    small_trace(tmp_path / "trace.csv")
    exec(compile(code, "README.md", "exec"), {})
    out = capsys.readouterr().out
    assert re.search(printed, out), out


def test_an_argument_of_init_is_a_parameter_as_the_readme_says(tmp_path: Path) -> None:
    assert "`def __init__(self, config, bonus: int = 3)`" in README and "`--set bonus=5`" in README
    (tmp_path / "with_bonus.py").write_text(
        "from schedlab.policies.base import StaticPolicy\n\n\n"
        "class Bonus(StaticPolicy):\n"
        "    def __init__(self, config, bonus: int = 3):\n"
        "        super().__init__(config)\n"
        "        self.bonus = bonus\n"
    )
    name, preset = f"{tmp_path / 'with_bonus.py'}:Bonus", find_preset("vllm")
    _, policy, parameters = build(preset, name, {"bonus": "5"}, num_blocks=100, max_model_len=512)
    assert (policy.bonus, parameters) == (5, {"bonus": 5})  # type: ignore[attr-defined]
