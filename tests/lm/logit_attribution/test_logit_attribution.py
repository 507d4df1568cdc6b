"""The parts sum to the model's own logit, and each is what taking it away by hand takes away."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.lm.tiny_lms import CLASSIFIERS, HEADS, LAYERS, MASKED, MORE, TINY, UNITS, D, smol, tiny, tokenizer
from tests.lm.unchanged_model import unchanged
from torch import nn

import cutaway
from cutaway.core.errors import InputError, MemoryLimitError
from cutaway.lm.logit_attribution.logit_attribution import LEVELS
from cutaway.lm.model.frozen_norms import frozen_norm
from cutaway.results.lm.logit_attribution import LogitAttribution

POST_NORM = {"bart", "bert", "roberta", "albert", "bert_classifier", "bert_tagger"}
RESIDUAL = sorted(set(TINY) - POST_NORM)
N_UNITS = {
    "qwen2_moe": LAYERS * (4 * 16 + 20),
    "deepseek_v3": UNITS + (LAYERS - 1) * 5 * 16,
    "gpt_oss": LAYERS * 4 * UNITS,
}
"""Experts, and one that is always asked."""
WHOLE = sorted(set(RESIDUAL) - {"mamba"})


def wrote(name: str, model: Any = None) -> Any:
    return _wrote(name, model) if model is not None else _known(name)


@cache
def _known(name: str) -> Any:
    return _wrote(name, tiny(name))


def _wrote(name: str, asked: Any) -> Any:
    if name in MASKED:
        return cutaway.lm.fill(asked, tokenizer(), "the <mask> sat")
    if name in CLASSIFIERS:
        return cutaway.lm.classify(asked, tokenizer(), "the cat sat")
    return cutaway.generate(asked, tokenizer(), "the cat sat on", max_new_tokens=4)


def sums(found: LogitAttribution, within: float = 1e-5) -> None:
    np.testing.assert_allclose(found.total, found.logits, rtol=within, atol=within * np.abs(found.logits).max())
    np.testing.assert_allclose(found.gap, found.total - found.logits)


@pytest.mark.parametrize("name", [*RESIDUAL, *MORE])
def test_the_parts_sum_to_the_logit_of_the_model(name: str) -> None:
    gen = wrote(name)
    found = gen.logit_attribution("component")
    sums(found)
    is_capped = name == "gemma2"
    assert found.is_capped is is_capped
    expected = gen.steps.logits
    own = 5.0 * np.tanh(found.logits / 5.0) if is_capped else found.logits  # the cap of the tiny Gemma 2
    np.testing.assert_allclose(own, expected, rtol=1e-4, atol=1e-5)
    layers = gen.logit_attribution("layer")
    sums(layers)
    np.testing.assert_allclose(layers.of("layer")[:, :, 0], found.layers(), atol=1e-6)


@pytest.mark.parametrize("name", WHOLE)
def test_heads_sum_to_their_attention_and_neurons_to_their_feed_forward(name: str) -> None:
    gen = wrote(name)
    whole, heads, neurons = (gen.logit_attribution(by) for by in ("component", "head", "neuron"))
    for parts, kind, within in ((heads, "head", "attention"), (neurons, "neuron", "mlp")):
        sums(parts)
        expected = whole.of(within)[:, :, 0]  # type: ignore[arg-type]
        total = parts.of(kind).sum(-1)  # type: ignore[arg-type]
        biases = [i for i, group in enumerate(parts.groups) if group.kind == "bias" and group.layer >= 0]
        starts = np.cumsum([0, *(group.n for group in parts.groups)])
        if biases:
            total = total + np.stack([parts.values[:, starts[i]] for i in biases], 1)
        np.testing.assert_allclose(total, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())
    assert heads.of("head").shape[2] == HEADS
    width = {"bloom": 4 * D, "mixtral": 4 * UNITS}.get(name, UNITS)
    assert neurons.of("neuron").shape[1:] == (LAYERS, width)


@pytest.mark.parametrize("name", MORE)
def test_heads_and_neurons_of_others_sum_to_the_logit(name: str) -> None:
    gen = wrote(name)
    heads, neurons = (gen.logit_attribution(by) for by in ("head", "neuron"))
    sums(heads)
    sums(neurons)
    n_heads = sum(group.n for group in heads.groups if group.kind == "head")
    n_neurons = sum(group.n for group in neurons.groups if group.kind == "neuron")
    assert n_heads == LAYERS * HEADS
    assert n_neurons == N_UNITS.get(name, LAYERS * UNITS)


@pytest.mark.parametrize("name", ["gpt2", "opt", "phi", "gpt_neox"])
def test_biases_are_terms_of_their_own(name: str) -> None:
    gen = wrote(name)
    assert gen.logit_attribution("component").groups[-1].name == "final bias"
    names = [group.name for group in gen.logit_attribution("head").groups]
    assert "1 attention bias" in names
    assert "1 mlp bias" in [group.name for group in gen.logit_attribution("neuron").groups]


def test_llama_by_hand() -> None:
    """Everything from the weights, written out in NumPy: RMS norm, o_proj, down_proj, unembedding."""
    model = tiny("llama")
    gen = wrote("llama")
    seen: dict[str, np.ndarray] = {}
    handles = []
    for i, layer in enumerate(model.model.layers):
        for key, module in ((f"o{i}", layer.self_attn.o_proj), (f"d{i}", layer.mlp.down_proj)):
            handles.append(module.register_forward_hook(_noted(seen, key)))
    handles.append(model.model.norm.register_forward_hook(_noted(seen, "norm")))
    with torch.no_grad():
        model(torch.tensor(gen.token_ids)[None])
    for handle in handles:
        handle.remove()
    rows, ids = gen.rows, gen.target_ids
    stream = seen["norm"][rows]
    eps = model.config.rms_norm_eps
    scale = 1 / np.sqrt((stream**2).mean(-1, keepdims=True) + eps)
    u = scale * _array(model.model.norm.weight) * _array(model.lm_head.weight)[ids]
    heads, neurons = gen.logit_attribution("head").of("head"), gen.logit_attribution("neuron").of("neuron")
    for i, layer in enumerate(model.model.layers):
        z, a = seen[f"o{i}"][rows], seen[f"d{i}"][rows]
        wo, wd = _array(layer.self_attn.o_proj.weight), _array(layer.mlp.down_proj.weight)
        by_hand = (z * (u @ wo)).reshape(len(rows), HEADS, -1).sum(-1)
        np.testing.assert_allclose(heads[:, i], by_hand, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(neurons[:, i], a * (u @ wd), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["gpt2", "llama", "phi", "t5"])
def test_taking_a_neuron_away_takes_away_what_it_added(name: str) -> None:
    """Switched off by the name that is printed, in the last layer; the final norm is held at the scale it had."""
    model = tiny(name)
    gen = wrote(name)
    found = gen.logit_attribution("neuron")
    group = [each for each in found.groups if each.kind == "neuron"][-1]
    start = sum(each.n for each in found.groups[: found.groups.index(group)])
    unit = int(np.argmax(np.abs(found.values[0, start : start + group.n])))
    run = cutaway.lm.model.forward_run.PromptRun.of(gen)  # type: ignore[attr-defined]
    before = run.hidden()[-1][run.rows]
    with cutaway.edit(model, at=group.part(unit), to=0):
        after = run.forward([run.anatomy.stack.stream[-1]]).values[run.anatomy.stack.stream[-1]][0][run.rows]
    norm = dict(model.named_modules())[run.anatomy.stack.final_norm]
    with torch.no_grad():
        lost = _held(norm, before, before) - _held(norm, after, before)
        scale = D**-0.5 if name == "t5" and model.config.tie_word_embeddings else 1.0
        weights = model.get_output_embeddings().weight.double()[run.classes]
        expected = (lost * weights * scale).sum(-1)
    np.testing.assert_allclose(found.values[:, start + unit], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", ["gemma2", "gemma3"])
def test_a_head_behind_a_norm_is_judged_with_that_norm_held_still(name: str) -> None:
    """The norm behind attention is replaced by hand by its weight over the scale it had."""
    model = tiny(name)
    gen = wrote(name)
    found = gen.logit_attribution("head")
    layer = model.model.layers[1]
    seen: dict[str, np.ndarray] = {}
    hooked = ((layer.self_attn.o_proj, "z"), (layer.post_attention_layernorm, "o"), (model.model.norm, "h"))
    handles = [module.register_forward_hook(_noted(seen, key)) for module, key in hooked]
    with torch.no_grad():
        model(torch.tensor(gen.token_ids)[None])
    for handle in handles:
        handle.remove()
    eps, rows = model.config.rms_norm_eps, gen.rows

    def gain(module: nn.Module, x: np.ndarray) -> np.ndarray:
        return (1 + _array(module.weight)) / np.sqrt((x**2).mean(-1, keepdims=True) + eps)

    u = gain(model.model.norm, seen["h"][rows]) * _array(model.lm_head.weight)[gen.target_ids]
    u = u * gain(layer.post_attention_layernorm, seen["o"][rows])
    by_hand = (seen["z"][rows] * (u @ _array(layer.self_attn.o_proj.weight))).reshape(len(rows), HEADS, -1).sum(-1)
    np.testing.assert_allclose(found.of("head")[:, 1], by_hand, rtol=1e-4, atol=1e-5)


def test_a_contrast_is_the_difference_of_two() -> None:
    gen = wrote("gpt2")
    one = gen.logit_attribution()
    ids = [int(each) for each in gen.steps.candidates[:, 1]]
    other = gen.logit_attribution(contrast=ids)
    sums(other)
    assert other.contrast == tuple(gen.steps.candidate_pieces[i][1] for i in range(4))
    run = cutaway.lm.model.forward_run.PromptRun.of(gen)  # type: ignore[attr-defined]
    logits = run.logits().numpy()
    expected = [logits[i, a] - logits[i, b] for i, (a, b) in enumerate(zip(gen.target_ids, ids, strict=True))]
    np.testing.assert_allclose(other.logits, expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(one.values, other.values)


def test_a_scale_behind_the_head_is_part_of_it() -> None:
    from transformers import GraniteConfig, GraniteForCausalLM

    torch.manual_seed(0)
    sizes = {"hidden_size": D, "intermediate_size": UNITS, "num_hidden_layers": 2, "num_attention_heads": 3}
    scales = {"logits_scaling": 4.0, "residual_multiplier": 0.3, "embedding_multiplier": 2.0}
    config = GraniteConfig(vocab_size=320, num_key_value_heads=3, pad_token_id=0, eos_token_id=2, **sizes, **scales)
    model = GraniteForCausalLM(config).eval()
    gen = cutaway.generate(model, tokenizer(), "the cat", max_new_tokens=3)
    for by in LEVELS:
        found = gen.logit_attribution(by)
        sums(found, 1e-4)
        assert not found.is_capped


def test_nothing_of_the_model_changes_and_targets_can_be_chosen() -> None:
    model = TINY["opt"]()
    gen = wrote("opt", model)
    whole = gen.logit_attribution("neuron")
    with unchanged(model):
        some = gen.logit_attribution("neuron", only=[-1, 0])
    np.testing.assert_allclose(some.values, whole.values[[3, 0]], rtol=1e-4, atol=1e-5)
    assert some.targets == (gen.targets.pieces[3], gen.targets.pieces[0])
    assert gen.logit_attribution(only=[0] * 40).values.shape[0] == 40, "more of them than there are tokens"


def test_half_precision_sums_up_to_its_rounding() -> None:
    model = deepcopy(tiny("llama")).bfloat16()
    found = wrote("llama", model).logit_attribution("head")
    assert np.abs(found.gap).max() < 0.05 * np.abs(found.logits).max()


def test_a_custom_model_without_a_norm_is_attributed_too() -> None:
    from tests.lm.model.test_anatomy import Written

    from cutaway.lm.logit_attribution.direction import direction
    from cutaway.lm.model.forward_run import prompt_run
    from cutaway.lm.saliency.targets import Objective

    torch.manual_seed(0)
    model = Written().eval()
    one = prompt_run(model, "causal", {"input_ids": torch.tensor([[1, 2, 3, 4]])}, [2, 3], [7, 9])
    found = direction(one, Objective("logit", one.classes), one.hidden()[-1])
    np.testing.assert_allclose(found.u, _array(model.out.weight)[[7, 9]], rtol=1e-5)
    np.testing.assert_allclose(found.constant, _array(model.out.bias)[[7, 9]], rtol=1e-5)


@pytest.mark.parametrize(
    ("norm", "is_one"),
    [(nn.LayerNorm(9), True), (nn.RMSNorm(9), True), (nn.LayerNorm(9, bias=False), True), (nn.Tanh(), False)],
)
def test_norms_are_known_by_what_they_do(norm: nn.Module, is_one: bool) -> None:
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in norm.parameters():
            weight.normal_()
    x = torch.randn(4, 9) + 2
    found = frozen_norm(norm, x)
    assert (found is not None) is is_one
    if found is None:
        return
    with torch.no_grad():
        torch.testing.assert_close(found(x), norm(x), rtol=1e-5, atol=1e-5)
    u = torch.randn(4, 9)
    moved = found(x + 0.1) - found(x)  # affine: what changes does not depend on where
    torch.testing.assert_close(moved, found(2 * x + 0.1) - found(2 * x), rtol=1e-4, atol=1e-5)
    back = (found.pull_back(u) * x.double()).sum(-1) + (u.double() * found.bias).sum(-1)
    torch.testing.assert_close(back.float(), (u * found(x)).sum(-1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", sorted(POST_NORM))
def test_a_norm_in_the_stream_is_refused_in_one_sentence(name: str) -> None:
    with pytest.raises(InputError, match=r"has norms in its residual stream.* use gen\.saliency\(\) instead"):
        wrote(name).logit_attribution()


def test_bad_questions_are_told() -> None:
    gen = wrote("llama")
    for call, message in (
        (lambda: gen.logit_attribution("neurons"), "Did you mean 'neuron'"),
        (lambda: gen.logit_attribution(only=[4]), "only has 4: the generation has 4 targets"),
        (lambda: wrote("mamba").logit_attribution("head"), "MambaForCausalLM has no attention"),
        (lambda: wrote("mamba").logit_attribution("neuron"), "has no feed-forward neurons"),
        (lambda: gen.logit_attribution("layer").of("head"), "call it with by='head'"),
        (lambda: gen.logit_attribution("layer").name(99), "there is no part 99"),
    ):
        with pytest.raises(InputError, match=message):
            call()
    with pytest.raises(MemoryLimitError, match=r"120 neurons .* only=\[-1\], or give limit=3840"):
        gen.logit_attribution("neuron", limit=1000)


@pytest.mark.parametrize("by", LEVELS)
def test_it_is_shown_and_saved(by: str, tmp_path: Path) -> None:
    found = wrote("t5").logit_attribution(by)
    page = found.page()
    assert page.topic == "language"
    text = found.text()
    assert "By layer" in text
    assert found.top(0, 1)[0][0] in found.names
    assert len(found.names) == found.n_parts == len(found.table()) // 4
    if by == "neuron":
        assert "decoder.block.0.layer.2.DenseReluDense.wo@in.0#" in found.text(160)
    found.save(tmp_path / by)
    again = cutaway.load(tmp_path / by)
    np.testing.assert_array_equal(again.values, found.values)
    assert (again.groups, again.text()) == (found.groups, text)


@pytest.mark.slow
def test_a_real_model_sums_to_its_logits() -> None:
    gen = cutaway.generate(*smol(), "1, 2, 3,", max_new_tokens=6)
    for by in LEVELS:
        found = gen.logit_attribution(by)
        sums(found, 1e-5)
        np.testing.assert_allclose(found.logits, gen.steps.logits, rtol=1e-4)


def _noted(seen: dict[str, np.ndarray], key: str) -> Any:
    return lambda module, args, result: seen.update({key: _array(args[0][0])})


def _array(tensor: Any) -> np.ndarray:
    found: np.ndarray = tensor.detach().double().numpy()
    return found


def _held(norm: nn.Module, x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Layer norm or RMS norm of x, with the scale that it has elsewhere; the bias left out."""
    x, at = x.double(), at.double()
    eps = getattr(norm, "eps", None) or getattr(norm, "variance_epsilon", 0.0)
    if isinstance(norm, nn.LayerNorm):
        scale = 1 / (at.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
        return (x - x.mean(-1, keepdim=True)) * scale * norm.weight.double()
    weight: torch.Tensor = norm.weight  # type: ignore[assignment]
    return x / (at.square().mean(-1, keepdim=True) + eps).sqrt() * weight.double()
