"""Values of one prompt in the run of another: as one edit after the other would put them, but many at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.lm.tiny_lms import CAUSAL, CLASSIFIERS, ENCODER_DECODER, HEADS, LAYERS, MASKED, TINY, D, smol, tiny
from tests.lm.tiny_lms import tokenizer as words
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError
from cutaway.lm import patching
from cutaway.lm.patching import patch

CLEAN, CORRUPTED = [30, 40, 4, 60, 71], [30, 99, 4, 61, 71]
PARTS = ["stream", "attention", "mlp", "heads"]


def swept(name: str, at: str, **more: Any) -> Any:
    is_label = name in CLASSIFIERS
    options = {"target": 1 if is_label else 20, "contrast": 2 if is_label else 60, **more}
    return patch(tiny(name), words(), clean=CLEAN, corrupted=CORRUPTED, at=at, **options)  # type: ignore[arg-type]


def logits(name: str, ids: list[int]) -> Any:
    model = tiny(name)
    given = {"input_ids": torch.tensor([ids])}
    if name in ENCODER_DECODER:
        given["decoder_input_ids"] = torch.tensor([[model.generation_config.decoder_start_token_id]])
    found = model(**given, **({"use_cache": False} if name in CAUSAL else {})).logits
    row = {**dict.fromkeys(CAUSAL, -1), **dict.fromkeys(MASKED, 2)}.get(name, 0)
    return found[0] if name in CLASSIFIERS else found[0, row]


SWEPT = [name for name in TINY if name not in ("mamba", "bert_tagger")]
BOTH = [(name, at) for name in ("gpt_neox", "gemma2", "mixtral", "bart", "albert") for at in ("attention", "mlp")]


@pytest.mark.parametrize(("name", "at"), [*((name, "stream") for name in SWEPT), *BOTH])
def test_a_sweep_is_that_of_single_edits(name: str, at: str) -> None:
    found = swept(name, at)
    target, contrast = (1, 2) if name in CLASSIFIERS else (20, 60)
    with torch.no_grad():
        one_by_one = cutaway.studies.patch(
            tiny(name),
            lambda out: out[target] - out[contrast],
            clean=lambda: logits(name, CLEAN),
            corrupted=lambda: logits(name, CORRUPTED),
            at=list(found.sites),
            positions="each",
        )
    assert one_by_one.sites == found.sites
    assert np.allclose(found.clean, one_by_one.clean, atol=1e-5)
    assert np.allclose(found.corrupted, one_by_one.corrupted, atol=1e-5)
    assert np.allclose(found.scores, one_by_one.scores, atol=1e-4)
    assert found.scores.shape == (LAYERS, len(CLEAN))


@pytest.mark.parametrize("name", ["gpt2", "llama", "gemma3", "t5", "albert"])
def test_heads_are_parts_of_what_enters_the_projection(name: str) -> None:
    found = swept(name, "heads")
    assert found.scores.shape == (LAYERS * HEADS, len(CLEAN))
    assert found.heads.tolist() == [*range(HEADS)] * LAYERS
    clean = cutaway.trace(tiny(name), **_inputs(name, CLEAN))
    for row, column in [(1, 1), (4, 3), (8, 4)]:
        head, site = int(found.heads[row]), found.sites[row]
        width = D // HEADS
        units = list(range(head * width, (head + 1) * width))
        with torch.no_grad(), cutaway.edit(tiny(name), at=site, to=clean, positions=column, units=units):
            out = logits(name, CORRUPTED)
        assert found.scores[row, column] == pytest.approx(float(out[20] - out[60]), abs=1e-4)


def _inputs(name: str, ids: list[int]) -> dict[str, Any]:
    given: dict[str, Any] = {"input_ids": torch.tensor([ids])}
    if name in ENCODER_DECODER:
        given["decoder_input_ids"] = torch.tensor([[tiny(name).generation_config.decoder_start_token_id]])
    return given


@pytest.mark.parametrize("n", [1, 7, 16, 4096])
def test_how_many_run_at_once_makes_no_difference(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = swept("llama", "heads")
    monkeypatch.setattr(patching, "_TOKENS_AT_ONCE", n)
    assert np.allclose(swept("llama", "heads").scores, whole.scores, atol=1e-5)


def test_tokens_before_the_first_difference_recover_nothing_and_the_last_layer_all_of_it() -> None:
    found = swept("llama", "stream")
    assert np.allclose(found.recovered[:, 0], 0, atol=1e-5)
    assert np.allclose(found.recovered[-1], [0, 0, 0, 0, 1], atol=1e-5)
    whole = swept("llama", "stream", positions=None)
    assert whole.positions.tolist() == [-1]
    assert np.allclose(whole.recovered, 1, atol=1e-4)
    some = swept("llama", "stream", positions=[-1, 1])
    assert some.positions.tolist() == [4, 1]
    assert np.allclose(some.scores, found.scores[:, [4, 1]], atol=1e-5)


def test_what_was_asked_stands_in_the_answer(tmp_path: Path) -> None:
    tokens = words()
    found = patch(tiny("llama"), tokens, clean="the cat sat", corrupted="the mat sat", target=" the", contrast=",")
    assert found.about["target"] == " the"
    assert found.about["clean"] == "the cat sat"
    assert "".join(found.clean_pieces) == "the cat sat"
    assert "".join(found.corrupted_pieces) == "the mat sat"
    assert "for" in repr(found)
    found.save(tmp_path / "patching")
    again: Any = cutaway.load(tmp_path / "patching")
    assert np.array_equal(again.scores, found.scores)
    assert again.text() == found.text()
    assert again.page().topic == "language"
    table = found.table()
    assert list(table["piece"])[: len(found.positions)] == list(found.clean_pieces)


def test_without_a_target_it_is_what_the_model_would_write() -> None:
    model, tokens = tiny("gpt2"), words()
    clean, corrupted = "the cat sat on", "she likes reading and"
    first = [cutaway.generate(model, tokens, prompt, max_new_tokens=1).target_ids[0] for prompt in (clean, corrupted)]
    ids = [tokens(prompt)["input_ids"] for prompt in (clean, corrupted)]
    n = min(map(len, ids))
    found = patch(model, tokens, clean=ids[0][-n:], corrupted=ids[1][-n:], contrast=int(first[1]))
    best = cutaway.generate(model, tokens, ids[0][-n:], max_new_tokens=1)
    assert found.about["target"] == best.targets.pieces[0]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (
            {"corrupted": "the"},
            "has 2 tokens, the| cat, but the corrupted one has 1, the: choose words with the same number",
        ),
        ({"at": "embedding"}, "stream, attention, mlp, heads; cutaway.studies.patch takes any site"),
        ({"target": " the", "contrast": " the"}, "target and contrast are both ' the'"),
        ({"corrupted": "the cat"}, "both prompts lead to"),
        ({"target": "no single token"}, "no single token"),
        ({"positions": [2]}, "the prompts have 2 tokens, counted from 0"),
        ({"positions": "all"}, 'give "each", a list of positions, or None'),
        ({"positions": []}, "positions= is empty"),
        ({"clean": ""}, "the prompt is empty"),
    ],
)
def test_what_cannot_be_compared_says_why(options: dict[str, Any], why: str) -> None:
    given: dict[str, Any] = {"clean": "the cat", "corrupted": "the mat", **options}
    if "corrupted" not in options and "contrast" not in options:
        given = {"contrast": ",", **given}
    with pytest.raises(InputError) as caught:
        patch(tiny("llama"), words(), **given)
    assert why in str(caught.value)


def test_models_without_the_part_say_so() -> None:
    with pytest.raises(InputError, match="MambaForCausalLM has none: no softmax over positions"):
        swept("mamba", "attention")
    with pytest.raises(InputError, match="labels each token"):
        swept("bert_tagger", "stream")
    with pytest.raises(InputError, match="each prompt needs exactly one mask"):
        patch(tiny("bert"), words(), clean="the cat", corrupted="the mat")
    with pytest.raises(InputError, match="masks are at positions 0 and 1"):
        patch(tiny("bert"), words(), clean=[4, 30], corrupted=[30, 4])


def test_nothing_of_the_model_is_changed() -> None:
    model = TINY["llama"]()
    with unchanged(model):
        patch(model, words(), clean=CLEAN, corrupted=CORRUPTED, target=20, contrast=60, at="heads")


@pytest.mark.slow
def test_the_country_is_read_where_it_stands_and_moved_to_the_end() -> None:
    model, tokens = smol()
    found = cutaway.lm.patch(
        model,
        tokens,
        clean="The capital of France is",
        corrupted="The capital of Italy is",
        target=" Paris",
        contrast=" Rome",
    )
    assert found.clean > 3
    assert found.corrupted < -3
    assert (found.share[:15, 3] > 0.9).all()  # at ' France'
    assert (found.share[25:, 4] > 0.9).all()  # at ' is'
    assert (np.abs(found.share[:, :3]) < 0.01).all()
