"""The sweep: its cases are made small, its verdicts are true, and a bad case costs only itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.sweep import pool, table
from benchmarks.sweep.__main__ import main
from benchmarks.sweep.checks import Verdict, examine
from benchmarks.sweep.families import Case
from benchmarks.sweep.shrinking import VOCABULARY, shrunk
from torch import nn


def test_three_architectures_are_traced_and_written_down(tmp_path: Path) -> None:
    found = main(["--only", "^(gpt2|convnext|t5)$", "--workers", "1", "--to", str(tmp_path)])
    assert {v.name: v.outcome for v in found} == {"gpt2": "traced", "convnext": "traced", "t5": "traced"}
    assert all(v.n_proven > 20 and v.plain_seconds > 0 and not v.constants for v in found)
    assert len(json.loads((tmp_path / "sweep.json").read_text())["verdicts"]) == 3
    assert "3 of 3 runnable architectures traced" in (tmp_path / "sweep.md").read_text()


def test_a_worker_that_dies_or_hangs_costs_one_case(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    class Fragile:
        n_cases = 0

        def __init__(self, family: str) -> None:
            made.append(1)

        def judge(self, name: str, seconds: float) -> Verdict:
            return Verdict(name, "crashed" if name == "bad" else "traced")

        def end(self) -> None:
            pass

    monkeypatch.setattr(pool, "_Worker", Fragile)
    found = list(pool.verdicts("zoo", ["good", "bad", "better"], workers=1))
    assert [v.outcome for v in found] == ["traced", "crashed", "traced"]
    assert len(made) == 2


def test_a_configuration_becomes_small_and_stays_consistent() -> None:
    settings = {
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 4,
        "layer_types": ["linear", "linear", "linear", "full"],
        "eos_token_id": 50256,
        "vision_config": {"image_size": 336, "patch_size": 14, "hidden_size": 1024},
    }
    small = shrunk(settings, "small")
    assert small["layer_types"] == ["linear", "full"]
    assert small["num_hidden_layers"] == 2
    assert small["hidden_size"] % small["num_attention_heads"] == 0
    assert small["num_attention_heads"] % small["num_key_value_heads"] == 0
    assert small["eos_token_id"] < VOCABULARY
    assert small["vision_config"]["image_size"] % 14 == 0


class Moody(nn.Module):
    """Gives something else when it is watched."""

    def forward(self, x: Any) -> Any:
        return x * 2 if torch._C._len_torch_function_stack() == 0 else x * 3


def test_a_model_that_behaves_differently_when_traced_is_found_out() -> None:
    verdict = examine("moody", Case(Moody(), (torch.ones(2),)))
    assert verdict.outcome == "outputs differ"


def test_failures_are_grouped_by_reason() -> None:
    found = [
        Verdict("a", "traced"),
        Verdict("b", "plain forward fails", "no input"),
        Verdict("c", "replay differs", "mul"),
    ]
    assert table.counted(found).startswith("1 of 2 runnable architectures traced")
    assert "replay differs (1)\n  c: mul" in table.text(found)
    assert os.linesep in table.markdown(found)
