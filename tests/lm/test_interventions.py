"""Edits change what is written: with a cache or without, at the positions of the text that are meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.lm.tiny_lms import CAUSAL, ENCODER_DECODER, TINY, D, smol, tiny, tokenizer
from torch import Tensor

import cutaway
from cutaway.core.errors import EditError

PROMPT = "the cat sat on 1, 2, 3,"
OTHER = "this house stands near the water"
NEW = 6


def written(name: str, **more: Any) -> Any:
    return cutaway.generate(tiny(name), tokenizer(), PROMPT, **{"max_new_tokens": NEW, **more})


def by_hand(name: str, module: Any, change: Callable[[Tensor], Tensor], *, is_input: bool = False) -> list[int]:
    """Greedy, the whole text read anew at each step, with a hook of our own."""
    model, ids = tiny(name), list(written(name).token_ids[: written(name).n_prompt])

    def into(_: Any, args: Any) -> Any:
        return (change(args[0]), *args[1:])

    def out(_: Any, __: Any, result: Any) -> Any:
        return (change(result[0]), *result[1:]) if isinstance(result, tuple) else change(result)

    handle = module.register_forward_pre_hook(into) if is_input else module.register_forward_hook(out)
    for _ in range(NEW):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids]), use_cache=False).logits[0, -1].argmax()))
    handle.remove()
    return ids


VECTOR = torch.linspace(-3, 3, D)


def only(*positions: int) -> Callable[[Tensor], Tensor]:
    def change(value: Tensor) -> Tensor:
        value = value.clone()
        for position in positions:
            if position < value.shape[1]:
                value[:, position] = value[:, position] + VECTOR
        return value

    return change


@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize(
    ("edit", "change"),
    [
        ({"to": 0}, torch.zeros_like),
        ({"to": cutaway.edit.scale(-2)}, lambda v: v * -2),
        ({"to": lambda v: v + VECTOR}, lambda v: v + VECTOR),
        ({"to": lambda v: v + VECTOR, "positions": 2}, only(2)),
        ({"to": lambda v: v + VECTOR, "positions": [1, 12]}, only(1, 12)),  # one given, one written
        ({"to": lambda v: v + VECTOR, "positions": -1}, only(10)),  # the last that was given
        ({"to": lambda v: v + VECTOR, "positions": slice(-2, None)}, only(*range(9, 40))),
        ({"to": lambda v: v + VECTOR, "positions": slice(11, None)}, only(*range(11, 40))),  # all that is written
        ({"to": lambda v: v + VECTOR, "positions": slice(3)}, only(0, 1, 2)),
    ],
)
def test_what_is_written_is_what_a_hook_makes_it_write(edit: dict[str, Any], change: Any, use_cache: bool) -> None:
    model = tiny("llama")
    plain = written("llama")
    assert plain.n_prompt == 11
    with cutaway.edit(model, at="model.layers.1", **edit):
        gen = written("llama", **({} if use_cache else {"use_cache": False}))
    assert gen.token_ids.tolist() == by_hand("llama", model.model.layers[1], change)
    assert (gen.steps.ranks == 1).all()  # the scores are those of the edited model
    assert not np.allclose(gen.steps.logits, plain.steps.logits)
    assert np.array_equal(written("llama").steps.logits, plain.steps.logits)  # and it is as it was


@pytest.mark.parametrize("name", [*CAUSAL, *ENCODER_DECODER])
def test_all_feed_forward_neurons_of_a_layer_at_zero_change_logits_and_text(name: str) -> None:
    """Ecco changed the last position of an analysis pass, and nothing that was written."""
    plain = written(name)
    rows = cutaway.lm.anatomy(tiny(name))
    site = "backbone.layers.1.mixer.out_proj@in.0" if name == "mamba" else rows.units()[1].site
    with cutaway.edit(tiny(name), at=site, to=0):
        gen = written(name)
    assert not np.allclose(gen.steps.logits[0], plain.steps.logits[0], atol=1e-4)
    assert (gen.steps.ranks == 1).all()
    if name not in ("bloom", "mamba", "bart"):  # their untrained heads repeat the last token, whatever is in between
        with cutaway.edit(tiny(name), at=[c.site for block in rows.blocks for c in block.of("mlp")], to=0):
            assert written(name).token_ids.tolist() != plain.token_ids.tolist()


@pytest.mark.parametrize("name", CAUSAL)
def test_cached_steps_and_the_whole_text_agree_at_every_position(name: str) -> None:
    site = cutaway.lm.anatomy(tiny(name)).stack.stream[2]
    with cutaway.edit(tiny(name), at=site, to=cutaway.edit.scale(-1.5), positions=[2, -1, 12, 14]):
        gen = written(name)
    assert (gen.steps.ranks == 1).all()


def test_a_single_head_is_switched_off_while_writing() -> None:
    row = cutaway.lm.anatomy(tiny("llama")).table().iloc[1]
    with cutaway.edit(tiny("llama"), at=row["heads"], to=0, heads=1, n_heads=int(row["n_heads"])):
        gen = written("llama")

    def without(value: Tensor) -> Tensor:
        value = value.clone()
        value[..., 8:16] = 0
        return value

    module = tiny("llama").model.layers[1].self_attn.o_proj
    assert gen.token_ids.tolist() == by_hand("llama", module, without, is_input=True)


def test_values_of_another_prompt_stand_at_its_positions_and_leave_the_rest() -> None:
    model = tiny("llama")
    ids = torch.tensor([tokenizer()(OTHER)["input_ids"]])
    trace = cutaway.trace(model, ids, use_cache=False)
    there = trace["model.layers.0"].value
    assert not isinstance(there, tuple)
    n = there.shape[1]

    def patched(*positions: int) -> Callable[[Tensor], Tensor]:
        def change(value: Tensor) -> Tensor:
            value = value.clone()
            for position in positions:
                if position < value.shape[1]:
                    value[:, position] = there[:, position]
            return value

        return change

    module = model.model.layers[0]
    for to in (trace, trace["model.layers.0"], there.detach()):
        with cutaway.edit(model, at="model.layers.0", to=to, positions=[1, 4]):
            gen = written("llama")
        assert gen.token_ids.tolist() == by_hand("llama", module, patched(1, 4))
        assert (gen.steps.ranks == 1).all()
    with cutaway.edit(model, at="model.layers.0", to=trace):
        gen = written("llama")
    assert gen.token_ids.tolist() == by_hand("llama", module, patched(*range(n)))


def test_a_batch_and_beams_are_changed_as_one_text_is() -> None:
    model = tiny("llama")
    with cutaway.edit(model, at="model.layers.1", to=lambda v: v + VECTOR, positions=-1):
        together = cutaway.generate(model, tokenizer(), [PROMPT, OTHER], max_new_tokens=4)
        alone = [cutaway.generate(model, tokenizer(), prompt, max_new_tokens=4) for prompt in (PROMPT, OTHER)]
        beams = written("llama", num_beams=3)
        forced = cutaway.generate(model, tokenizer(), PROMPT, text=beams.token_ids[beams.n_prompt :])
    for one, other in zip(together, alone, strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        assert np.allclose(one.steps.logits, other.steps.logits)
    assert np.allclose(forced.steps.logits, beams.steps.logits)


def test_encoder_and_decoder_count_from_zero() -> None:
    model = tiny("t5")
    stacks = cutaway.lm.anatomy(model).stacks
    plain = written("t5")
    for stack, position in ((stacks[0], 3), (stacks[1], 0), (stacks[1], 3)):
        with cutaway.edit(model, at=stack.stream[2], to=cutaway.edit.scale(-3), positions=position):
            gen = written("t5")
        assert (gen.steps.ranks == 1).all()
        n = position if stack.role == "decoder" else 0
        assert np.allclose(gen.steps.logits[:n], plain.steps.logits[:n], atol=1e-4)
        assert not np.allclose(gen.steps.logits[n], plain.steps.logits[n], atol=1e-4)
    with (
        pytest.raises(EditError, match="count from 0 during generation"),
        cutaway.edit(model, at=stacks[0].stream[1], to=0, positions=-1),
    ):
        written("t5")


def test_analyses_inside_the_block_see_the_same_positions() -> None:
    """What was written inside it is explained inside it: the last given token is -1 there, too."""
    model = tiny("llama")
    with cutaway.edit(model, at="model.layers.1", to=lambda v: v + VECTOR, positions=-1):
        gen = written("llama")
        inside = gen.factors(2, layers=2)
    ids = torch.tensor(gen.token_ids[None, :-1])
    seen: list[Tensor] = []
    hooks = [
        model.model.layers[1].register_forward_hook(lambda _, __, out: only(10)(out)),
        model.model.layers[2].mlp.down_proj.register_forward_pre_hook(lambda _, args: seen.append(args[0][0])),
    ]
    with torch.no_grad():
        model(ids, use_cache=False)
    for hook in hooks:
        hook.remove()
    assert np.allclose(inside.transform(seen[0].numpy()), inside.weights, atol=0.02 * inside.weights.max())


@pytest.mark.parametrize("position", [-1, -5, -10])
@pytest.mark.parametrize("only_some", [None, [5, 2]])
def test_saliency_inside_the_block_is_that_of_the_changed_model(position: int, only_some: list[int] | None) -> None:
    """Also of a model that nobody has asked anything before, and of a part of what was written."""
    model = TINY["llama"]()
    with cutaway.edit(model, at="model.layers.1", to=lambda v: v + VECTOR, positions=position):
        gen = cutaway.generate(model, tokenizer(), PROMPT, max_new_tokens=NEW)
        found = gen.saliency(target="logit", only=only_some)
    hook = model.model.layers[1].register_forward_hook(lambda _, __, out: only(11 + position)(out))
    leaf = model.get_input_embeddings()(torch.tensor(gen.token_ids[None])).detach().requires_grad_()
    logits = model(inputs_embeds=leaf, use_cache=False).logits[0]
    hook.remove()
    for row, target in enumerate(only_some or range(NEW)):
        (g,) = torch.autograd.grad(logits[gen.rows[target], gen.target_ids[target]], leaf, retain_graph=True)
        seen = ~np.isnan(found.signed[row])
        assert seen.sum() == gen.rows[target] + 1
        assert np.allclose(found.signed[row][seen], (g * leaf).sum(-1)[0].detach().numpy()[seen], atol=1e-5)


def test_positions_that_cannot_be_meant_say_so() -> None:
    model = tiny("llama")
    for positions, why in (
        (-12, "the prompt has 11 tokens, and -1 is the last"),
        (slice(9, 1, -1), "step must be positive"),
    ):
        with (
            pytest.raises(EditError, match=why),
            cutaway.edit(model, at="model.layers.1", to=0, positions=positions),
        ):
            written("llama")


@pytest.mark.slow
def test_a_direction_that_is_added_steers_what_a_real_model_writes() -> None:
    model, tokens = smol()
    prompt = "I think that this film is"
    ids = [
        tokens(text, return_tensors="pt").input_ids for text in ("I love it, it is wonderful", "I hate it, it is awful")
    ]
    site = "model.layers.14"
    good, bad = (cutaway.trace(model, each, save=site, use_cache=False)[site].value[0, -1] for each in ids)
    found = {}
    for factor in (-4.0, 4.0):
        with cutaway.edit(model, at=site, to=lambda v, k=factor: v + k * (good - bad).to(v)):
            found[factor] = cutaway.generate(model, tokens, prompt, max_new_tokens=8)
    assert found[-4.0].text != found[4.0].text
    words = [tokens.encode(word)[0] for word in (" wonderful", " awful")]

    def preference(gen: Any) -> float:
        forced = [cutaway.generate(model, tokens, prompt, text=[word]).steps.logprobs[0] for word in words]
        return float(forced[0] - forced[1])

    scores = []
    for factor in (-4.0, 0.0, 4.0):
        with cutaway.edit(model, at=site, to=lambda v, k=factor: v + k * (good - bad).to(v)):
            scores.append(preference(None))
    assert scores[0] < scores[1] < scores[2]
