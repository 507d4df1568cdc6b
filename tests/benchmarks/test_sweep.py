"""The sweep: its cases are made small, its verdicts are true, and a bad case costs only itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmarks.peers.environments import ROOT
from benchmarks.sweep import packages, pool, table
from benchmarks.sweep.__main__ import main
from benchmarks.sweep.attempts import Attempt, first_that_runs
from benchmarks.sweep.checks import Verdict, examine
from benchmarks.sweep.families import CannotRun, CannotShrink, Case
from benchmarks.sweep.reduction import VOCABULARY, shrunk
from benchmarks.sweep.small import Small
from torch import Tensor, nn

FIRST_OF_FIELD = list({name.split("/")[0]: name for name in reversed(Small().names())}.values())


def test_three_architectures_are_traced_drawn_and_written_down(tmp_path: Path) -> None:
    only = ["--family", "transformers", "--only", "^(gpt2|convnext|t5)$"]
    found = main([*only, "--workers", "1", "--to", str(tmp_path), "--gallery", str(tmp_path / "gallery")])
    assert {v.name: v.outcome for v in found} == {"gpt2": "traced", "convnext": "traced", "t5": "traced"}
    assert all(v.n_proven > 20 and v.plain_seconds > 0 and v.validated_seconds > 0 for v in found)
    assert all(v.family == "transformers" and v.n_felt > 20 and not v.constants for v in found)
    assert len(json.loads((tmp_path / "sweep.json").read_text())["verdicts"]) == 3
    assert "| transformers | 3 | 3 | 3 |" in (tmp_path / "sweep.md").read_text()
    assert main(["--read", str(tmp_path)]) == found
    assert {v.name: v.picture for v in found}["gpt2"] == "gpt2.svg"
    page = (tmp_path / "gallery" / "index.html").read_text()
    for verdict in found:
        picture = f"transformers/{verdict.picture}"
        assert (tmp_path / "gallery" / picture).read_text().startswith("<svg")
        assert picture in page
    assert "{{" not in page


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


def test_a_value_that_does_not_come_out_again_is_found_out() -> None:
    with torch.library._scoped_library("sweep_test", "FRAGMENT") as library:
        calls: list[int] = []

        def counted(x: Tensor) -> Tensor:
            calls.append(1)
            return x + len(calls)

        library.define("counted(Tensor x) -> Tensor")
        library.impl("counted", counted, "CPU")

        class Counting(nn.Module):
            def forward(self, x: Tensor) -> Tensor:
                return torch.ops.sweep_test.counted(x) * 2

        verdict = examine("counting", Case(Counting(), (torch.ones(2),)))
    assert verdict.outcome == "not valid"
    assert "two plain runs differ" in " ".join(verdict.notes)


@pytest.mark.parametrize("name", FIRST_OF_FIELD)
def test_a_small_model_of_each_field_is_traced_and_validated(name: str) -> None:
    verdict = examine(name, Small().make(name))
    assert (verdict.outcome, verdict.reason) == ("traced", "")
    assert verdict.n_proven > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(Small().names()) - set(FIRST_OF_FIELD)))
def test_every_small_model_is_traced_and_validated(name: str) -> None:
    verdict = examine(name, Small().make(name))
    assert (verdict.outcome, verdict.reason) == ("traced", "")


def test_small_models_repeat_under_one_seed() -> None:
    for name in FIRST_OF_FIELD:
        one, other = Small().make(name), Small().make(name)
        assert all(torch.equal(a, b) for a, b in zip(one.model.parameters(), other.model.parameters(), strict=True))


def test_only_layers_that_are_left_keep_their_own_settings() -> None:
    settings = {
        "num_hidden_layers": 6,
        "layer_types": ["sliding"] * 5 + ["full"],
        "per_layer_config": {"05": {"head_dim": 512}, "03": {"head_dim": 256}},
    }
    small = shrunk(settings, "small")
    assert small["layer_types"] == ["sliding", "full"]
    assert list(small["per_layer_config"]) == ["1"]
    assert small["per_layer_config"]["1"]["head_dim"] < 512


def test_the_first_attempt_that_runs_is_taken_and_reasons_are_told_once() -> None:
    def attempt(words: str, shape: tuple[int, ...]) -> Attempt:
        return words, lambda: nn.Linear(3, 2), lambda: (torch.ones(shape),)

    assert first_that_runs([attempt("wide", (1, 4)), attempt("right", (1, 3))]).how == "right"
    with pytest.raises(CannotRun) as error:
        first_that_runs([attempt("wide", (1, 4)), attempt("wide again", (1, 4))])
    assert str(error.value).count("RuntimeError") == 1
    with pytest.raises(CannotShrink):
        first_that_runs([("none", lambda: nn.Linear(-1, 2), tuple)])


def test_boxes_are_suppressed_as_by_comparing_all_pairs() -> None:
    torch.manual_seed(0)
    low = torch.rand(40, 2) * 10
    boxes, scores = torch.cat([low, low + torch.rand(40, 2) * 6], dim=1), torch.rand(40)

    def overlap(a: list[float], b: list[float]) -> float:
        wide, high = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
        common = max(wide, 0) * max(high, 0)
        return common / (sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)) - common)

    kept: list[int] = []
    for i in sorted(range(40), key=lambda i: -scores[i].item()):
        if all(overlap(boxes[i].tolist(), boxes[j].tolist()) <= 0.3 for j in kept):
            kept.append(i)
    assert 5 < len(kept) < 35
    assert packages._nms(boxes, scores, 0.3).tolist() == kept
    assert packages._nms(boxes[:0], scores[:0], 0.3).tolist() == []


needs_packages = pytest.mark.skipif(not (packages.FOLDER / "timm").is_dir(), reason="`make sweep` was not run yet")


@needs_packages
def test_the_list_of_timm_has_one_member_of_every_family() -> None:
    script = """
from benchmarks.sweep import packages
from benchmarks.sweep.timm_models import Timm, family
file_of = packages.of("timm.models._registry")._model_to_module
listed = [family(name, file_of[name]) for name in Timm().names()]
known = {family(name, file_of[name]) for name in packages.of("timm").list_models(exclude_filters="test_*")}
assert len(set(listed)) == len(listed) and set(listed) == known, known ^ set(listed)
"""
    subprocess.run([sys.executable, "-c", script], check=True, cwd=ROOT)


@needs_packages
@pytest.mark.slow
@pytest.mark.parametrize("family", ["timm", "torchvision", "torchaudio"])
def test_models_of_other_libraries_are_traced(family: str, tmp_path: Path) -> None:
    only = "^(resnet10t|convnextv2_atto|ssdlite320|raft_small|quantized_shuf|conformer|wav2letter)"
    found = main(["--family", family, "--only", only, "--workers", "1", "--to", str(tmp_path)])
    assert len(found) >= 2
    assert {v.outcome for v in found} == {"traced"}


def test_the_page_counts_each_family_and_groups_what_cannot_run() -> None:
    found = [
        Verdict("a", "traced", family="small", n_ops=10, n_proven=9, n_opaque=1, plain_seconds=1, traced_seconds=2),
        Verdict("b", "plain forward fails", "X requires the natten library", family="transformers"),
        Verdict("c", "cannot be made small", "X requires the scipy library", family="transformers"),
        Verdict("d", "not valid", "mul | add", family="transformers"),
    ]
    page = table.page(found)
    assert "| small | 1 | 1 | 1 | 10 | 9 | 2.0 | – |" in page
    assert "| transformers | 3 | 1 | 0 |" in page
    assert "| needs a package that cannot be had here | b, c |" in page
    assert "| transformers d | not valid | mul \\| add |" in page


def test_failures_are_grouped_by_reason() -> None:
    found = [
        Verdict("a", "traced"),
        Verdict("b", "plain forward fails", "no input"),
        Verdict("c", "not valid", "mul"),
    ]
    assert table.counted(found).startswith("1 of 2 runnable architectures traced")
    assert "not valid (1)\n  c: mul" in table.text(found)


def test_what_was_swept_again_counts_as_it_came_out_last():
    slow, fine = Verdict("a", "too slow", family="small"), Verdict("a", "traced", family="small")
    other = Verdict("a", "traced", family="zoo")
    assert table.joined([[slow, other], [fine]]) == [fine, other]
