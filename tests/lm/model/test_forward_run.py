"""A reading runs the model on exactly its ids, and gives what the model itself would."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from tests.lm.model.test_anatomy import read
from tests.lm.tiny_lms import CAUSAL, ENCODER_DECODER, LAYERS, TINY, D, tiny, tokenizer
from tests.lm.unchanged_model import unchanged

import cutaway
from cutaway.core.errors import InputError
from cutaway.lm.model.forward_run import PromptRun


def own_logits(one: PromptRun) -> torch.Tensor:
    """The model called by hand, without anything of ours."""
    with torch.no_grad():
        logits = one.model(**one.inputs).logits[0]
    return logits[None] if logits.dim() == 1 else logits[one.rows]


@pytest.mark.parametrize("name", TINY)
def test_logits_are_the_models_own(name: str) -> None:
    one = read(name)
    torch.testing.assert_close(one.logits(), own_logits(one), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", TINY)
def test_its_own_embeddings_give_its_own_logits_also_as_a_batch(name: str) -> None:
    one = read(name)
    embeds: Any = {role: value.repeat(3, 1, 1) for role, value in one.embeddings().items()}
    torch.testing.assert_close(one.logits_of(embeds), one.logits().expand(3, -1, -1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", TINY)
def test_gradients_by_embeddings_are_those_of_the_embedding_matrix(name: str) -> None:
    """Summed over the positions of a token, they are the gradient of its row, as torch gives it by the weights."""
    model = TINY[name]()
    one = read(name, model)
    leaves: Any = {role: value[None].clone().requires_grad_() for role, value in one.embeddings().items()}
    grads = torch.autograd.grad(one.logits_of(leaves)[0, :, 1].sum(), list(leaves.values()))
    modules = dict(model.named_modules())
    tables = {role: modules[one.anatomy.part(role).embedding] for role in one.roles}
    copies = {role: torch.nn.Parameter(table.weight.detach().clone()) for role, table in tables.items()}
    scale = float(getattr(next(iter(tables.values())), "embed_scale", 1.0))
    for role, table in tables.items():  # apart from the head and from each other, where they are tied
        table.weight = copies[role]
    logits = model(**one.inputs).logits[0]
    (logits[None] if logits.dim() == 1 else logits[one.rows])[:, 1].sum().backward()
    for role, grad in zip(leaves, grads, strict=True):
        expected = torch.zeros_like(copies[role]).index_add(0, one.ids(role), grad[0]) * scale
        found = copies[role].grad
        assert found is not None
        if table_pads(tables[role]) is not None:
            expected[table_pads(tables[role])] = 0  # torch gives none to padding
        torch.testing.assert_close(expected, found, rtol=1e-4, atol=1e-5)


def table_pads(table: Any) -> Any:
    return table.padding_idx


@pytest.mark.parametrize("name", CAUSAL)
def test_a_causal_reading_has_no_gradient_on_later_tokens(name: str) -> None:
    one = read(name)
    leaf = one.embeddings()["decoder"][None].clone().requires_grad_()
    (grad,) = torch.autograd.grad(one.logits_of({"decoder": leaf})[0, 0].sum(), leaf)
    row = int(one.rows[0])
    assert grad[0, : row + 1].abs().sum() > 0
    assert grad[0, row + 1 :].abs().max() == 0


@pytest.mark.parametrize("name", ENCODER_DECODER)
def test_encoder_and_decoder_have_their_own_embeddings(name: str) -> None:
    one = read(name)
    own = one.embeddings()
    assert {role: len(value) for role, value in own.items()} == {"encoder": 8, "decoder": 5}
    changed = one.logits_of({"encoder": own["encoder"][None] * 0})
    assert not torch.allclose(changed[0], one.logits())


def test_values_and_logits_come_from_one_forward() -> None:
    one = read("gpt2")
    calls = []
    handle = one.model.register_forward_hook(lambda *_: calls.append(1))
    seen = one.forward([one.anatomy.blocks[0].output, one.anatomy.blocks[1].output])
    handle.remove()
    assert len(calls) == 1
    assert [tuple(value.shape) for value in seen.values.values()] == [(1, 8, D)] * 2
    torch.testing.assert_close(seen.logits[0], own_logits(one))


def test_positions_are_apart_from_samples_where_a_model_joins_them() -> None:
    one = read("opt")
    site = one.anatomy.units()[0].site
    assert one.forward([site], n=2).values[site].shape[:2] == (2, 8)


def test_a_value_can_be_changed_at_a_site() -> None:
    one = read("llama")
    site = one.anatomy.blocks[0].output
    changed = one.forward(changes={site: lambda value: value * 0}).logits
    with cutaway.edit(one.model, at=site, to=0), torch.no_grad():
        expected = one.model(**one.inputs).logits[0, one.rows]
    torch.testing.assert_close(changed[0], expected)
    assert not torch.allclose(changed[0], one.logits())


def test_other_inputs_run_as_a_batch() -> None:
    one = read("gpt2")
    ids = one.inputs["input_ids"].repeat(3, 1)
    ids[1, 0] = 50
    found = one.forward([one.anatomy.blocks[2].output], inputs={"input_ids": ids})
    torch.testing.assert_close(found.logits[0], found.logits[2])
    assert not torch.allclose(found.logits[0], found.logits[1])
    assert found.values[one.anatomy.blocks[2].output].shape == (3, 8, D)


def test_a_site_that_ran_several_times_asks_for_its_pass() -> None:
    one = read("albert")
    address = one.anatomy.blocks[0].address
    with pytest.raises(InputError, match="ran more than once: choose a pass"):
        one.values([address])
    values = one.values([f"{address}:{i}" for i in (1, 2, 3)])
    assert len({float(value.sum()) for value in values.values()}) == 3


def test_only_the_rows_that_are_asked_for_go_through_the_head() -> None:
    one = read("llama")
    shapes = []
    handle = one.model.lm_head.register_forward_hook(lambda module, args, out: shapes.append(tuple(out.shape)))
    one.logits()
    handle.remove()
    assert shapes == [(1, one.n_targets, 320)]


def test_a_model_without_a_head_says_so() -> None:
    with pytest.raises(InputError, match=r"GPT2Model has no head: it returns no logits\. Load the model with its head"):
        cutaway.generate(tiny("gpt2").transformer, tokenizer(), "the cat")


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "mixtral", "t5", "bart", "albert", "mamba", "llama_classifier"])
def test_nothing_of_the_model_is_changed(name: str) -> None:
    model = TINY[name]()
    one = read(name, model)
    with unchanged(model):
        one.logits()
        assert len(one.hidden()) == LAYERS + 1
        leaves: Any = {role: value[None].clone().requires_grad_() for role, value in one.embeddings().items()}
        torch.autograd.grad(one.logits_of(leaves).sum(), list(leaves.values()))
        with pytest.raises(ZeroDivisionError):
            one.forward(changes={one.anatomy.blocks[0].output: lambda value: value * (1 / 0)})


def test_a_reading_works_inside_inference_mode_and_no_grad() -> None:
    one = read("gpt2")
    leaf = one.embeddings()["decoder"][None].clone().requires_grad_()
    with torch.no_grad():
        found = one.logits_of({"decoder": leaf})
    assert found.requires_grad


def test_a_compiled_model_is_read_by_its_eager_source() -> None:
    gen: Any = cutaway.generate(torch.compile(tiny("gpt2")), tokenizer(), "the cat", max_new_tokens=2)
    assert PromptRun.of(gen).model is tiny("gpt2")


def test_every_analysis_leaves_a_model_that_caches_and_counts_as_it_was() -> None:
    def built() -> Any:
        torch.manual_seed(0)
        model = tiny("llama")
        model.n_calls, model.lengths, own = 0, [], model.forward

        @functools.wraps(own)
        def forward(*args: Any, **given: Any) -> Any:
            model.n_calls += 1
            model.lengths.append(1)
            model.model.rotary_emb.max_seq_len_cached += 1
            return own(*args, **given)

        model.forward = forward
        return model

    model, twin = built(), built()
    model.load_state_dict(twin.state_dict())
    before = model.model.rotary_emb.max_seq_len_cached
    gen = cutaway.generate(model, tokenizer(), "1, 2, 3, the cat", max_new_tokens=3)
    gen.saliency()
    gen.lens()
    gen.attention()
    gen.logit_attribution()
    gen.factors(n=2)
    cutaway.lm.patch(model, tokenizer(), clean="1, 2", corrupted="1, 3", target=4, contrast=5)
    assert (model.n_calls, model.lengths, model.model.rotary_emb.max_seq_len_cached) == (0, [], before)
    ids = torch.arange(5)[None]
    with torch.no_grad():
        assert torch.equal(model(ids).logits, twin(ids).logits)
