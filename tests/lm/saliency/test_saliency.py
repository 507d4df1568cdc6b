"""Saliency: exact for every architecture, by oracles that share nothing with it."""

from __future__ import annotations

import itertools
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import captum.attr
import numpy as np
import pytest
import torch
from tests.lm.tiny_lms import (
    CAUSAL,
    CLASSIFIERS,
    ENCODER_DECODER,
    MASK,
    MASKED,
    MORE,
    PAD,
    TINY,
    smol,
    tiny,
    tokenizer,
)
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError, MemoryLimitError
from cutaway.lm.attention.weights import attention_weights
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.saliency.memory import Growth, memory_cost
from cutaway.lm.saliency.rollout import AttentionStep, attention_steps, flow, rollout
from cutaway.lm.saliency.target_groups import group_targets
from cutaway.results.lm.generation import Generation
from cutaway.results.lm.saliency import METHODS, Saliency

ALL = [*CAUSAL, *ENCODER_DECODER, *MASKED, *CLASSIFIERS]
GRADIENTS = ("gradient", "grad_x_input")
SLACK = 2e-6


def made(name: str, model: Any = None) -> Generation:
    model = tiny(name) if model is None else model
    if name in MASKED:
        return cutaway.lm.fill(model, tokenizer(), "the <mask> sat on <mask> mat")
    if name in CLASSIFIERS:
        return cutaway.lm.classify(model, tokenizer(), "the cat sat on the mat")
    return cutaway.generate(model, tokenizer(), "the cat sat", max_new_tokens=3, text=" on the mat")


def embedded(model: Any, ids: Any) -> torch.Tensor:
    return model.get_input_embeddings()(torch.tensor(np.asarray(ids))[None]).detach().requires_grad_()


def by_hand(gen: Generation, model: Any, target: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The logit of one target and the embeddings it depends on: one forward for one prefix, by transformers alone."""
    row, chosen = int(gen.rows[target]), int(gen.target_ids[target])
    if gen.kind == "encoder-decoder":
        assert gen.source is not None
        source, read = embedded(model, gen.source.ids), embedded(model, gen.token_ids[: row + 1])
        return model(inputs_embeds=source, decoder_inputs_embeds=read).logits[0, -1, chosen], [source, read]
    n = row + 1 if gen.kind == "causal" else len(gen.token_ids)
    leaf = embedded(model, gen.token_ids[:n])
    logits = model(inputs_embeds=leaf).logits[0]
    return (logits[chosen] if logits.dim() == 1 else logits[row, chosen]), [leaf]


@pytest.mark.parametrize("name", [*ALL, *MORE])
def test_gradients_are_those_of_one_backward_for_each_prefix(name: str) -> None:
    model = tiny(name)
    gen = made(name)
    plain, times = (gen.saliency(method, target="logit") for method in GRADIENTS)
    for target in range(len(gen)):
        value, leaves = by_hand(gen, model, target)
        grads = torch.autograd.grad(value, leaves)
        assert plain.values[target] == pytest.approx(value.item(), abs=1e-5)
        for found, parts in (
            (plain, [g[0] for g in grads]),
            (times, [(g * leaf)[0] for g, leaf in zip(grads, leaves, strict=True)]),
        ):
            merge_groups = torch.cat(parts).double().detach().numpy()
            norms = np.linalg.norm(merge_groups, axis=1)
            n = len(norms)
            size = max(1.0, float(np.abs(merge_groups).max()))
            assert np.abs(found.scores[target, :n] - norms / norms.sum()).max() < SLACK
            assert np.abs(found.signed[target, :n] - merge_groups.sum(1)).max() < 5 * SLACK * size
            assert np.isnan(found.scores[target, n:]).all()
            assert np.isnan(found.signed[target, n:]).all()


@pytest.mark.parametrize("name", ["gpt2", "mamba", "mixtral"])
@pytest.mark.parametrize("method", [*GRADIENTS, "integrated_gradients"])
def test_targets_in_groups_are_explained_as_they_are_alone(name: str, method: str) -> None:
    """A long text goes back in groups, each through its own part of the text; in any order that is asked for."""
    gen = cutaway.generate(tiny(name), tokenizer(), "the", text=" cat sat on the mat and it" * 5)
    order = [*range(1, len(gen), 2), *range(0, len(gen), 2)]
    assert len(group_targets(gen.rows[order].tolist(), 1024)) > 1
    options = {"steps": 3} if method == "integrated_gradients" else {}
    together = gen.saliency(method, only=order, contrast=gen.target_ids[::-1][order].tolist(), **options)
    assert [np.isfinite(row).sum() for row in together.scores] == [gen.rows[i] + 1 for i in order]
    for row in (0, len(order) // 2, -1):
        alone = gen.saliency(method, only=order[row], contrast=int(gen.target_ids[::-1][order[row]]), **options)
        assert together.targets[row] == alone.targets[0]
        assert together.values[row] == pytest.approx(alone.values[0], abs=1e-5)
        assert np.allclose(together.scores[row], alone.scores[0], atol=SLACK, equal_nan=True)
        assert np.allclose(together.signed[row], alone.signed[0], atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", ALL)
def test_every_method_runs_on_every_architecture_and_rows_sum_to_one(name: str) -> None:
    gen = made(name)
    asked: list[tuple[str, dict[str, Any]]] = [
        ("integrated_gradients", {"steps": 4, "baseline": "pad"}),
        ("occlusion", {"baseline": "mask", "target": "logprob"}),
        ("occlusion", {"baseline": "unseen", "target": "probability"}),
        *([] if name == "mamba" else [("rollout", {}), ("flow", {})]),
    ]
    n = len(gen.token_ids) + (0 if gen.source is None else len(gen.source))
    for method, options in asked:
        found = gen.saliency(method, **options)
        assert found.scores.shape == found.signed.shape == (len(gen), n)
        assert np.nansum(found.scores, 1) == pytest.approx(1)
        is_past = ~np.isnan(found.scores)
        assert np.isfinite(found.signed[is_past]).all()
        if gen.kind in ("causal", "encoder-decoder"):
            n_source = n - len(gen.token_ids)
            assert is_past.sum(1).tolist() == [n_source + int(row) + 1 for row in gen.rows]
        else:
            assert is_past.all()
    if name == "mamba":
        with pytest.raises(InputError, match="has no attention"):
            gen.saliency("rollout")


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "mixtral", "t5", "bert", "llama_classifier"])
def test_the_model_is_the_same_afterwards(name: str) -> None:
    model = TINY[name]()
    gen = made(name, model)
    for method in ("grad_x_input", "integrated_gradients", "occlusion", "rollout"):
        with unchanged(model):
            gen.saliency(method, **({"steps": 3} if method == "integrated_gradients" else {}))


# captum


def gpt2_forward(model: Any, gen: Generation, target: int) -> Any:
    row, chosen = int(gen.rows[target]), int(gen.target_ids[target])

    def forward(embeds: torch.Tensor) -> torch.Tensor:
        return model(inputs_embeds=embeds).logits[:, row].softmax(-1)[:, chosen]

    return forward


def scored(attributed: torch.Tensor) -> np.ndarray:
    norms = attributed[0].norm(dim=-1)
    return (norms / norms.sum()).detach().numpy()


@pytest.mark.parametrize("name", ["gpt2", "phi", "opt"])
def test_gradients_and_integrated_gradients_are_captums(name: str) -> None:
    model, gen = tiny(name), made(name)
    plain, times = (gen.saliency(method, target="probability") for method in GRADIENTS)
    integrated = gen.saliency("integrated_gradients", target="probability", steps=20)
    assert integrated.delta is not None
    for target in range(len(gen)):
        n = int(gen.rows[target]) + 1
        leaf, forward = embedded(model, gen.token_ids[:n]), gpt2_forward(model, gen, target)
        assert np.abs(scored(captum.attr.Saliency(forward).attribute(leaf)) - plain.scores[target, :n]).max() < SLACK
        theirs = captum.attr.InputXGradient(forward).attribute(leaf)
        assert np.abs(scored(theirs) - times.scores[target, :n]).max() < SLACK
        theirs, delta = captum.attr.IntegratedGradients(forward).attribute(
            leaf, n_steps=20, method="gausslegendre", return_convergence_delta=True
        )
        assert np.abs(scored(theirs) - integrated.scores[target, :n]).max() < SLACK
        assert np.abs(theirs[0].sum(-1).detach().numpy() - integrated.signed[target, :n]).max() < SLACK
        assert integrated.delta[target] == pytest.approx(float(delta), abs=SLACK)


def test_integrated_gradients_from_a_token_are_those_of_captums_layer_method() -> None:
    model, gen = tiny("gpt2"), made("gpt2")
    found = gen.saliency("integrated_gradients", baseline="pad", steps=16, only=[2], target="logit")
    n, chosen = int(gen.rows[2]) + 1, int(gen.target_ids[2])
    ids = torch.tensor(gen.token_ids[:n])[None]
    layer = captum.attr.LayerIntegratedGradients(
        lambda given: model(input_ids=given).logits[:, -1, chosen], model.transformer.wte
    )
    theirs = layer.attribute(ids, baselines=torch.full_like(ids, PAD), n_steps=16, method="gausslegendre")
    assert np.abs(scored(theirs) - found.scores[0, :n]).max() < SLACK


def test_occlusion_is_captums_feature_ablation() -> None:
    model, gen = tiny("gpt2"), made("gpt2")
    found = gen.saliency("occlusion", target="probability")
    for target in range(len(gen)):
        n = int(gen.rows[target]) + 1
        leaf, forward = embedded(model, gen.token_ids[:n]), gpt2_forward(model, gen, target)
        mask = torch.arange(n)[None, :, None].expand_as(leaf)
        theirs = captum.attr.FeatureAblation(forward).attribute(leaf, feature_mask=mask)[0, :, 0]
        assert np.abs(theirs.detach().numpy() - found.signed[target, :n]).max() < SLACK


# other oracles


@pytest.mark.parametrize(
    ("name", "slack"), [("gpt2", 1e-6), ("phi", 1e-6), ("llama", 3e-3), ("mamba", 3e-3), ("t5", 3e-3)]
)
def test_the_signed_sum_is_the_change_by_scaling_a_token_up(name: str, slack: float) -> None:
    model = TINY[name]().double()
    gen = made(name, model)
    found = gen.saliency(target="logprob")
    run, step = PromptRun.of(gen), 1e-4 if slack < 1e-3 else 1e-3  # the norms of some compute in single precision
    own = run.embeddings()
    n_source = len(own.get("encoder", ()))
    for role, value in own.items():
        for at in range(len(value)):
            sides = value.repeat(2, 1, 1)
            sides[0, at] *= 1 + step
            sides[1, at] *= 1 - step
            with torch.no_grad():
                up, down = run.forward(embeds={role: sides}).logits.log_softmax(-1)
            slope = (up - down)[torch.arange(len(gen)), run.classes].numpy() / (2 * step)
            row = found.signed[:, at + (0 if role == "encoder" or len(own) == 1 else n_source)]
            seen = ~np.isnan(row)
            assert np.abs(row[seen] - slope[seen]).max(initial=0) < slack
            assert np.abs(slope[~seen]).max(initial=0) < 1e-9  # nothing comes from the future


@pytest.mark.parametrize("name", ["gpt2", "qwen3", "bart", "roberta", "bert_tagger"])
def test_occlusion_is_one_forward_for_each_token_replaced(name: str) -> None:
    model, gen = tiny(name), made(name)
    found = gen.saliency("occlusion", baseline=MASK, target="logit")
    run = PromptRun.of(gen)
    whole = run.logits()[torch.arange(len(gen)), run.classes]
    at = 0
    for role in run.roles:
        own = "decoder_input_ids" if role == "decoder" and len(run.roles) > 1 else "input_ids"
        for i in range(len(run.ids(role))):
            ids = run.inputs[own].clone()
            ids[0, i] = MASK
            with torch.no_grad():
                logits = model(**{**run.inputs, own: ids}).logits[0]
            logits = logits[None] if logits.dim() == 1 else logits[run.rows]
            lost = (whole - logits[torch.arange(len(gen)), run.classes]).double().numpy()
            seen = ~np.isnan(found.signed[:, at])
            assert np.abs(found.signed[seen, at] - lost[seen]).max(initial=0) < 1e-5
            at += 1
    assert at == found.signed.shape[1]


@pytest.mark.parametrize("name", ["gpt2", "phi", "bart", "bert"])
@pytest.mark.parametrize("baseline", ["zero", "pad", 7, "vector"])
def test_integrated_gradients_are_complete_within_their_delta(name: str, baseline: Any) -> None:
    gen = made(name)
    given = np.linspace(-0.1, 0.1, 24) if baseline == "vector" else baseline
    found = gen.saliency("integrated_gradients", baseline=given, steps=40)
    assert found.delta is not None
    assert found.baseline_values is not None
    sums = np.nansum(found.signed, 1)
    assert sums - (found.values - found.baseline_values) == pytest.approx(found.delta, abs=1e-9)
    assert np.abs(found.delta).max() < 2e-3
    assert not found.notes


def test_integrated_gradients_that_do_not_converge_say_so() -> None:
    found = made("t5_gated").saliency("integrated_gradients", steps=2)  # from zero, where its norm has a jump
    assert found.notes[0].startswith("Not converged for ")


def test_probability_and_logprob_give_the_same_scores_and_a_contrast_the_same_sums() -> None:
    gen = made("gpt2")
    by = {name: gen.saliency(target=name) for name in ("logit", "logprob", "probability")}
    np.testing.assert_allclose(by["logprob"].scores, by["probability"].scores, atol=SLACK)
    assert np.nanmax(np.abs(by["logit"].scores - by["logprob"].scores)) > 1e-4
    against = [gen.saliency(target=name, contrast=" the") for name in ("logit", "logprob")]
    np.testing.assert_allclose(against[0].signed, against[1].signed, atol=1e-5)
    assert against[0].contrast == (" the",) * 3
    other = tokenizer()(" the", add_special_tokens=False)["input_ids"][0]
    both = gen.saliency(target=lambda logits, ids: logits[..., other].clone())
    np.testing.assert_allclose(against[0].signed, by["logit"].signed - both.signed, atol=1e-5)
    np.testing.assert_array_equal(gen.saliency().scores, by["logprob"].scores)
    label = made("bert_classifier").saliency(contrast="LABEL_0")
    assert label.contrast == ("LABEL_0",)


def test_a_model_that_is_sure_has_a_saliency_too() -> None:
    gen = made("gpt2")
    lead = 23 * torch.nn.functional.one_hot(torch.tensor(gen.target_ids), 320)

    def sure(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        return (logits + lead).log_softmax(-1).gather(-1, ids.expand(len(logits), -1)[..., None])[..., 0]

    found = gen.saliency(target=sure)
    assert found.values.max() < 0
    assert found.values.max() > -1e-7
    model = TINY["gpt2"]().double()
    exact = made("gpt2", model).saliency(target=sure)
    np.testing.assert_allclose(found.scores, exact.scores, atol=SLACK)


def test_a_contrast_with_itself_has_no_saliency_and_says_so() -> None:
    gen = made("gpt2")
    found = gen.saliency(contrast=[int(gen.target_ids[0]), " the", " the"])
    assert found.scores[0, : gen.n_prompt].tolist() == [0.0] * gen.n_prompt
    assert "No token changes the logprob of target 0" in found.notes[0]


@pytest.mark.parametrize("name", ["gpt2", "mixtral", "t5", "bert"])
@pytest.mark.parametrize("method", ["grad_x_input", "integrated_gradients", "occlusion"])
def test_small_chunks_give_the_same(name: str, method: str) -> None:
    gen = made(name)
    options = {"baseline": "pad", "steps": 5} if method == "integrated_gradients" else {}
    whole = gen.saliency(method, **options)
    costs = memory_cost(PromptRun.of(gen), 2**30)
    tight = gen.saliency(method, limit=int(2.2 * (costs.saved + costs.transient)), **options)
    np.testing.assert_allclose(whole.scores, tight.scores, atol=SLACK)
    one = gen.saliency(method, only=-1, **options)
    np.testing.assert_allclose(one.scores[0], whole.scores[-1], atol=SLACK)
    assert one.targets == whole.targets[-1:]


def test_prompts_of_a_batch_have_the_saliency_that_they_have_alone() -> None:
    model, prompts = tiny("llama"), ["the cat", "1, 2, 3, 4,"]
    several = cutaway.generate(model, tokenizer(), prompts, max_new_tokens=3)
    for prompt, gen in zip(prompts, several, strict=True):
        alone = cutaway.generate(model, tokenizer(), prompt, max_new_tokens=3).saliency()
        np.testing.assert_array_equal(gen.saliency().scores, alone.scores)


def test_memory_is_told_before_anything_is_run() -> None:
    gen = made("gpt2")
    with pytest.raises(MemoryLimitError, match=r"over 5 tokens need about .* limit=1 \* 2\*\*30"):
        gen.saliency(limit=1000)
    small, large = Growth.fit((2, 2 * 3 + 4 * 5), (6, 6 * 3 + 36 * 5)), Growth(3, 5)
    assert small(100) == pytest.approx(large(100))


# merged


def test_words_and_segments_keep_all_sums() -> None:
    template = cutaway.lm.Template("{question} she likes {answer}", question="the cat sat", answer="near water")
    gen = cutaway.generate(tiny("gpt2"), tokenizer(), template, max_new_tokens=4)
    found = gen.saliency()
    words, segments = found.words(), found.segments()
    for merged in (words, segments):
        np.testing.assert_allclose(np.nansum(merged.scores, 1), 1)
        np.testing.assert_allclose(np.nansum(merged.signed, 1), np.nansum(found.signed, 1))
    assert words.positions[:3] == ("the", "cat", "sat")
    assert segments.positions == ("question", "answer", "(rest)", "(written)")
    question = gen.read.segments[0]
    np.testing.assert_allclose(segments.scores[:, 0], found.scores[:, question.start : question.end].sum(1))
    assert np.isnan(segments.scores[0, 3])
    assert not np.isnan(segments.scores[1, 3])
    with pytest.raises(InputError, match="no segments"):
        made("gpt2").saliency().segments()
    with pytest.raises(InputError, match="on the saliency of tokens"):
        words.words()


def test_the_source_of_an_encoder_decoder_comes_first() -> None:
    gen = made("t5")
    found = gen.saliency()
    assert gen.source is not None
    assert found.positions == gen.source.pieces + gen.read.pieces
    assert found.roles == ("encoder",) * len(gen.source) + ("decoder",) * len(gen.read)
    assert found.words().roles[0] == "encoder"
    assert [found.positions[at] for at in found.places] == list(gen.targets.pieces)


# attention


def test_rollout_is_the_product_of_mean_attention_and_the_residual() -> None:
    gen = made("gpt2")
    with torch.no_grad():
        model = TINY["gpt2"]()
        model.set_attn_implementation("eager")
        weights = model(torch.tensor(gen.token_ids)[None], output_attentions=True).attentions
    mixed = np.eye(len(gen.token_ids))
    for each in weights:
        mixed = (0.5 * each[0].mean(0).double().numpy() + 0.5 * np.eye(len(mixed))) @ mixed
    found = gen.saliency("rollout").scores
    n = found.shape[1]
    for target, row in enumerate(gen.rows.tolist()):
        np.testing.assert_allclose(found[target, : row + 1], mixed[row, : row + 1], atol=1e-6)
        assert np.isnan(found[target, row + 1 : n]).all()


def test_rollout_mixes_what_the_encoder_gave_through_cross_attention() -> None:
    gen = made("t5")
    run = PromptRun.of(gen)
    parts = [("encoder", False), ("decoder", False), ("decoder", True)]
    below, own, cross = (attention_weights(run, role, is_cross=c).double().numpy().mean(1) for role, c in parts)
    encoder = np.eye(below.shape[-1])
    for each in below:
        encoder = (each + np.eye(len(encoder))) / 2 @ encoder
    n, n_source = own.shape[-1], len(encoder)
    mixed = np.concatenate([np.zeros((n, n_source)), np.eye(n)], 1)
    for attended, looked in zip(own, cross, strict=True):
        mixed = (attended + np.eye(n)) / 2 @ mixed
        mixed = mixed / 2 + looked @ np.concatenate([encoder, np.zeros((n_source, n))], 1) / 2
    found = gen.saliency("rollout")
    np.testing.assert_allclose(found.scores[-1, : n_source + n - 1], mixed[gen.rows[-1], : n_source + n - 1], atol=1e-6)


def cheapest_cut(steps: list[AttentionStep], row: int, token: int) -> float:
    """The most that flows, as the least cut: all ways to part the nodes are tried."""
    n = len(steps[0].own)
    free = [(d, i) for d in range(len(steps) + 1) for i in range(n) if (d, i) not in ((len(steps), row), (0, token))]
    best = np.inf
    for chosen in itertools.product([False, True], repeat=len(free)):
        near = {(len(steps), row): True, (0, token): False} | dict(zip(free, chosen, strict=True))
        cut = sum(
            step.own[i, j]
            for d, step in enumerate(steps)
            for i in range(n)
            for j in range(n)
            if near[(d + 1, i)] and not near[(d, j)]
        )
        best = min(best, cut)
    return best


def test_flow_is_the_least_cut() -> None:
    weights = np.random.default_rng(0).dirichlet(np.ones(3), (2, 1, 3))  # (layer, head, row, position)
    steps = attention_steps(weights)
    found = flow(steps, [0, 2])
    for i, row in enumerate([0, 2]):
        for token in range(3):
            assert found[i, token] == pytest.approx(cheapest_cut(steps, row, token), abs=1e-5)
    assert rollout(steps).sum(1) == pytest.approx(1)


# asked wrongly


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"method": "grad_x_inputs"}, "Did you mean 'grad_x_input'?"),
        ({"target": "logits"}, "Did you mean 'logit'?"),
        ({"contrast": "the cat"}, "tokens: "),
        ({"contrast": [5, 6]}, "2 tokens for 3 targets"),
        ({"only": [3]}, "has 3 targets"),
        ({"method": "rollout", "contrast": 5}, "attention alone"),
        ({"method": "integrated_gradients", "steps": 0}, "1 or more"),
        ({"method": "integrated_gradients", "baseline": "unseen"}, "is for method='occlusion'"),
        ({"method": "occlusion", "baseline": "mean"}, "give 'zero', 'pad', 'mask'"),
        ({"method": "occlusion", "baseline": 5000}, "has 320 tokens"),
        ({"method": "occlusion", "baseline": [1.0, 2.0]}, "an embedding has (24,)"),
        ({"target": lambda logits, ids: logits[0, 0]}, "one value per target"),
        ({"target": lambda logits, ids: logits[..., 0], "contrast": 5}, "takes no contrast="),
    ],
)
def test_what_cannot_be_done_is_told_in_a_sentence(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        made("gpt2").saliency(**asked)


# the result


def test_a_saliency_can_be_shown_and_saved(tmp_path: Path) -> None:
    found = made("t5").saliency("integrated_gradients", steps=4, contrast=" the")
    assert "rather than" in found.text()
    assert "For and against" in found.page()._repr_html_()
    assert len(found.table()) == int((~np.isnan(found.scores)).sum())
    found.save(tmp_path / "saliency")
    again = cutaway.load(tmp_path / "saliency")
    assert isinstance(again, Saliency)
    np.testing.assert_array_equal(again.scores, found.scores)
    np.testing.assert_array_equal(again.delta, found.delta)
    assert again.positions == found.positions
    assert repr(again) == repr(found)


def test_two_results_share_nothing_and_cannot_be_written_to() -> None:
    gen = made("gpt2")
    one, two = gen.saliency(), gen.saliency()
    assert not np.shares_memory(one.scores, two.scores)
    with pytest.raises(ValueError, match="read-only"):
        one.scores[0, 0] = 1
    np.testing.assert_array_equal(one.scores, two.scores)


@pytest.mark.slow
def test_the_subject_and_not_the_noun_beside_the_verb_decides_its_number() -> None:
    model, own = smol()
    gen = cutaway.generate(model, own, "The keys to the cabinet", text=" are")
    words = gen.saliency("occlusion", target="logit", contrast=" is", baseline="pad").words()
    by_name = dict(zip(words.positions, words.signed[0], strict=True))
    assert by_name["keys"] > by_name["cabinet"]
    assert by_name["keys"] > 0


@pytest.mark.parametrize(
    ("method", "options", "why"),
    [
        ("grad_x_input", {"steps": 5}, "does not use steps=, which is for integrated_gradients"),
        ("gradient", {"baseline": "pad"}, "does not use baseline=, which is for integrated_gradients and occlusion"),
        ("occlusion", {"steps": 5}, "does not use steps=, which is for integrated_gradients"),
        ("grad_x_input", {"contrast": 320}, "token 320 is unknown"),
    ],
)
def test_options_that_a_method_does_not_know_are_refused(method: str, options: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        made("llama").saliency(method, **options)


def test_every_method_of_the_table_has_a_function_and_a_summary() -> None:
    for name, method in METHODS.items():
        module, _, function = method.place.partition(":")
        assert callable(getattr(import_module(module), function)), name
        assert method.summary.endswith("."), name


def test_targets_can_be_a_slice() -> None:
    gen = made("llama")
    assert gen.saliency(only=slice(1, None)).targets == gen.saliency(only=[1, 2]).targets


def test_a_model_that_has_changed_since_is_told() -> None:
    model = TINY["llama"]()
    gen = made("llama", model)
    asked = (gen.saliency, gen.lens, gen.logit_attribution)
    assert [ask().notes for ask in asked] == [(), (), ()]
    with torch.no_grad():
        model.lm_head.weight.mul_(1.5)
    for ask in asked:
        assert any("has changed since this was generated" in note for note in ask().notes)
