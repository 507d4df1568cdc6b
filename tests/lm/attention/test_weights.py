"""Weights of attention are those that the model's own eager code makes; rollout and flow are what their authors say."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.lm.model.test_anatomy import Written, read
from tests.lm.tiny_lms import ENCODER_DECODER, HEADS, LAYERS, MORE, TINY, tiny, tokenizer
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError, MemoryLimitError
from cutaway.lm.attention.weights import attention_weights
from cutaway.lm.model.forward_run import prompt_run
from cutaway.results.lm.attention import Attention


def eager_weights(name: str) -> dict[tuple[str, bool], torch.Tensor]:
    """(role, is_cross) → (layer, head, query, key), from the model's own output."""
    model = deepcopy(tiny(name))
    model.set_attn_implementation("eager")
    with torch.no_grad():
        out = read(name, model).call(output_attentions=True)
    own = out.decoder_attentions if name in ENCODER_DECODER else out.attentions
    found = {("decoder", False): own}
    if name in ENCODER_DECODER:
        found |= {("encoder", False): out.encoder_attentions, ("decoder", True): out.cross_attentions}
    return {key: torch.cat(list(layers)) for key, layers in found.items()}


@pytest.mark.parametrize("name", sorted({*TINY, *MORE} - {"mamba", "falcon"}))
def test_weights_are_those_of_the_eager_model(name: str) -> None:
    """Falcon is left out: it cannot be switched to eager code."""
    one = read(name)
    for (role, is_cross), expected in eager_weights(name).items():
        found = attention_weights(one, role, is_cross=is_cross)  # type: ignore[arg-type]
        torch.testing.assert_close(found, expected, rtol=5e-5, atol=5e-6)


@pytest.mark.parametrize("name", ["llama", "gemma2", "bloom", "t5"])
def test_layers_and_rows_can_be_chosen_and_nothing_changes(name: str) -> None:
    one = read(name)
    whole = attention_weights(one)
    with unchanged(one.model):
        part = attention_weights(one, layers=[2, 0], rows=[3, 1], dtype=torch.float16)
    assert part.dtype == torch.float16
    assert torch.equal(part, whole[[2, 0]][:, :, [3, 1]].half())


def test_a_model_switched_to_eager_gives_the_same() -> None:
    model = deepcopy(tiny("qwen3"))  # with fewer keys than queries
    fused = attention_weights(read("qwen3", model))
    model.set_attn_implementation("eager")
    torch.testing.assert_close(attention_weights(read("qwen3", model)), fused, rtol=1e-5, atol=1e-6)


def test_a_fast_path_of_torch_is_looked_into() -> None:
    torch.manual_seed(0)
    model = Written().eval()
    ids = torch.tensor([[1, 2, 3, 4]])
    found = attention_weights(prompt_run(model, "causal", {"input_ids": ids}, [3], [1]))
    with torch.no_grad():
        x = model.embed(ids)
        mix: Any = model.body[0].mix
        expected = mix(x, x, x, average_attn_weights=False)[1][0]
    torch.testing.assert_close(found[0], expected)
    assert torch.backends.mha.get_fastpath_enabled()


def test_a_model_without_attention_says_so() -> None:
    with pytest.raises(InputError, match="MambaForCausalLM has no attention"):
        attention_weights(read("mamba"))


# gen.attention()


@pytest.fixture(scope="module")
def llama() -> tuple[Any, Attention]:
    gen = cutaway.generate(tiny("llama"), tokenizer(), "the cat sat", max_new_tokens=4)
    return gen, gen.attention()


def test_rows_of_targets_are_where_each_was_written(llama: tuple[Any, Attention]) -> None:
    gen, found = llama
    n = len(gen.token_ids)
    assert found.weights.shape == (LAYERS, HEADS, n, n)
    assert found.weights.dtype == np.float32
    np.testing.assert_allclose(found.weights.sum(-1), 1, rtol=1e-5)
    assert not np.triu(found.weights, 1).any(), "nobody looks ahead"
    np.testing.assert_array_equal(found.of_targets(), found.weights[:, :, gen.rows])
    some = gen.attention(rows="targets", layers=[1])
    np.testing.assert_array_equal(gen.attention(layers=slice(-2, None)).weights, found.weights[-2:])
    np.testing.assert_allclose(some.of_targets(), found.of_targets()[[1]], rtol=1e-6)
    np.testing.assert_allclose(some.previous, [[some.weights[0, h, range(4), gen.rows - 1].mean() for h in range(3)]])


def test_what_heads_are_like_is_counted_by_hand(llama: tuple[Any, Attention]) -> None:
    found = llama[1]
    w = found.weights.astype(float)
    n = w.shape[2]
    for layer, head in product(range(LAYERS), range(HEADS)):
        own = w[layer, head]
        assert found.first[layer, head] == pytest.approx(np.mean([own[q, 0] for q in range(1, n)]))
        assert found.previous[layer, head] == pytest.approx(np.mean([own[q, q - 1] for q in range(1, n)]))
        assert found.itself[layer, head] == pytest.approx(np.mean([own[q, q] for q in range(1, n)]))
        entropies = [-sum(p * np.log(p) for p in row if p > 0) for row in own]
        assert found.entropy[layer, head] == pytest.approx(np.mean(entropies))
    assert np.allclose(found.mean(), w.mean(1))
    assert len(found.table()) == LAYERS * HEADS


def test_rollout_multiplies_the_layers(llama: tuple[Any, Attention]) -> None:
    found = llama[1]
    n = found.weights.shape[2]
    expected = np.eye(n)
    for layer in found.weights.astype(float):
        expected = (0.5 * layer.mean(0) + 0.5 * np.eye(n)) @ expected
    np.testing.assert_allclose(found.rollout(), expected, atol=1e-7)
    np.testing.assert_allclose(found.rollout().sum(1), 1, rtol=1e-6)


def test_flow_is_the_least_cut() -> None:
    """By the max-flow min-cut theorem: of all ways to part source from sink, the narrowest."""
    generator = np.random.default_rng(3)
    n, n_layers = 3, 3
    weights = np.tril(generator.random((n_layers, 2, n, n)) + 0.05)
    weights /= weights.sum(-1, keepdims=True)
    found = small(weights).flow(queries=range(n))
    mixed = 0.5 * weights.mean(1) + 0.5 * np.eye(n)
    inner = [(depth, at) for depth in range(1, n_layers) for at in range(n)]
    for row, sink in product(range(n), range(n)):
        cuts = []
        bottom = [(0, at) for at in range(n) if at != sink]  # other tokens lead nowhere
        for sides in product([True, False], repeat=len(inner) + len(bottom)):
            on_source = {node for node, side in zip([*inner, *bottom], sides, strict=True) if side}
            on_source.add((n_layers, row))
            cuts.append(
                sum(
                    mixed[depth - 1, at, below]
                    for depth, at in on_source
                    if depth
                    for below in range(n)
                    if (depth - 1, below) not in on_source
                )
            )
        assert found[row, sink] == pytest.approx(min(cuts), abs=1e-5)


def small(weights: np.ndarray) -> Attention:
    n_layers, _, n, _ = weights.shape
    names = tuple(f"t{i}" for i in range(n))
    return Attention(
        weights=weights,
        layers=np.arange(n_layers),
        sites=("",) * n_layers,
        queries=names,
        keys=names,
        positions=np.arange(n),
        rows=np.array([n - 1]),
        targets=("x",),
        n_layers=n_layers,
    )


def test_an_encoder_decoder_has_three_kinds() -> None:
    gen = cutaway.generate(tiny("t5"), tokenizer(), "the cat sat on", max_new_tokens=3)
    n, m = len(gen.source), len(gen.read)
    encoder, own, cross = gen.attention(role="encoder"), gen.attention(), gen.attention(cross=True)
    assert [each.weights.shape[2:] for each in (encoder, own, cross)] == [(n, n), (m, m), (m, n)]
    assert cross.keys == gen.source.pieces
    assert cross.of_targets().shape == (LAYERS, HEADS, 3, n)
    assert encoder.rollout().shape == (n, n)
    for call, message in (
        (cross.rollout, "combines all kinds of attention"),
        (lambda: cross.previous, "keys are those of the encoder"),
        (encoder.of_targets, "an encoder predicts no targets"),
        (lambda: gen.attention(role="encoder", rows="targets"), "an encoder predicts no targets"),
        (lambda: gen.attention(role="encoder", cross=True), "leave out role="),
    ):
        with pytest.raises(InputError, match=message):
            call()
    for each in (encoder, own, cross):
        assert each.page().topic == "language"
        assert each.text()


def test_a_written_token_chooses_its_target(llama: tuple[Any, Attention]) -> None:
    _, found = llama
    blocks = [block for section in found.page().sections for block in section.blocks if block.kind == "text"]
    (text,) = blocks[0].texts
    chosen = {place: channel for place, channel in enumerate(text.chooses) if channel >= 0}
    assert chosen
    assert set(chosen) == set(text.marks)
    assert all(text.tokens[place] == found.targets[channel] for place, channel in chosen.items())
    assert not any(text.chooses for text in blocks[1].texts)


def test_the_limit_is_told_before_anything_runs(llama: tuple[Any, Attention]) -> None:
    gen, found = llama
    size = found.weights.size
    half = gen.attention(limit=2 * size)
    assert half.weights.dtype == np.float16
    np.testing.assert_allclose(half.weights, found.weights, atol=1e-3)
    assert "float16" in half.text()
    with pytest.raises(MemoryLimitError, match=rf"rows='targets', fewer layers=, or limit={2 * size}"):
        gen.attention(limit=2 * size - 1)
    assert gen.attention(limit=2 * size - 1, layers=[0]).weights.shape[0] == 1


def test_one_head_is_picked_shown_and_saved(llama: tuple[Any, Attention], tmp_path: Path) -> None:
    gen, found = llama
    one = found.pick(layer=1, head=2)
    np.testing.assert_array_equal(one.weights[0, 0], found.weights[1, 2])
    assert "Layer 1, head 2" in one.text()
    assert "Attention by head" in found.text()
    one.save(tmp_path / "head")
    again = cutaway.load(tmp_path / "head")
    np.testing.assert_array_equal(again.weights, one.weights)
    assert (again.layers.tolist(), again.heads, again.text()) == ([1], (2,), one.text())
    for call, message in (
        (lambda: found.pick(layer=7), "there is no layer 7"),
        (lambda: one.rollout(), "needs all layers"),
        (lambda: gen.attention(layers=[3]), "layers has 3: there are 3 layers"),
        (lambda: gen.attention(rows="some"), "give 'all', or 'targets'"),
        (lambda: gen.attention(cross=True), "LlamaForCausalLM has no encoder"),
        (lambda: gen.attention(role="encoder"), "LlamaForCausalLM has 'decoder'"),
        (lambda: found.flow(queries=[99]), "queries has 99"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(ValueError, match="read-only"):
        found.weights[0] = 0


def test_masked_models_and_classifiers_are_looked_at_too() -> None:
    filled = cutaway.lm.fill(tiny("bert"), tokenizer(), "the <mask> sat").attention()
    assert np.triu(filled.weights, 1).any(), "such a model looks ahead"
    labeled = cutaway.lm.classify(tiny("bert_classifier"), tokenizer(), "the cat").attention()
    for each in (filled, labeled):
        assert each.of_targets().shape[2] == len(each.targets)
        assert each.text()
