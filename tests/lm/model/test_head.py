"""The tail is the model's own: what it makes of its last hidden state are its logits."""

from __future__ import annotations

import pytest
import torch
from tests.lm.model.test_anatomy import read
from tests.lm.tiny_lms import LAYERS, TINY
from tests.lm.unchanged_model import unchanged
from torch import nn

from cutaway.lm.model.head import bypass_blocks, head_logits, iter_head_logits


@pytest.mark.parametrize("name", TINY)
def test_the_last_layer_gives_the_models_logits(name: str) -> None:
    one = read(name)
    found = head_logits(one, one.hidden(), one.rows.tolist())
    assert found.shape == (LAYERS + 1, one.n_targets, one.logits().shape[-1])
    torch.testing.assert_close(found[-1], one.logits(), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(found[0], found[-1])


def by_hand(name: str, hidden: torch.Tensor) -> torch.Tensor:
    """What a person would write after reading the source of each."""
    model = read(name).model
    modules = dict(model.named_modules())
    if name == "gpt2":
        return modules["lm_head"](modules["transformer.ln_f"](hidden))  # type: ignore[no-any-return]
    if name == "gemma2":
        logits = modules["lm_head"](modules["model.norm"](hidden))
        return 5.0 * torch.tanh(logits / 5.0)
    if name == "opt_projected":
        inner = modules["model.decoder.final_layer_norm"](hidden)
        return modules["lm_head"](modules["model.decoder.project_out"](inner))  # type: ignore[no-any-return]
    if name == "bert":
        return modules["cls"](hidden)  # type: ignore[no-any-return]
    inner = modules["decoder.final_layer_norm"](hidden)
    is_scaled = getattr(model.config, "scale_decoder_outputs", model.config.tie_word_embeddings)
    return modules["lm_head"](inner * (model.config.d_model**-0.5 if is_scaled else 1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ["gpt2", "gemma2", "opt_projected", "bert", "t5", "t5_gated"])
def test_every_layer_goes_through_norm_caps_and_projections(name: str) -> None:
    one = read(name)
    hidden = one.hidden()
    with torch.no_grad():
        expected = torch.stack([by_hand(name, each[None])[0] for each in hidden])
    torch.testing.assert_close(head_logits(one, hidden), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["llama", "t5", "bert_tagger", "llama_classifier"])
def test_pieces_are_the_same_as_the_whole(name: str) -> None:
    one = read(name)
    hidden = one.hidden()
    whole = head_logits(one, hidden)
    found = torch.zeros(whole.shape[0] * whole.shape[1], whole.shape[2])
    covered = 0
    for cells, logits in iter_head_logits(one, hidden, limit=3 * whole.shape[2] * 4):
        assert len(logits) <= 3
        found[cells] = logits
        covered += len(logits)
    assert covered == len(found)
    torch.testing.assert_close(found.reshape(whole.shape), whole, rtol=1e-5, atol=1e-5)


def test_more_cells_than_the_text_has_tokens_stay_within_the_context() -> None:
    one = read("gpt2")
    many = torch.randn(40, 8, 24)
    with torch.no_grad():
        torch.testing.assert_close(head_logits(one, many), by_hand("gpt2", many), rtol=1e-5, atol=1e-5)


def test_it_can_be_differentiated() -> None:
    one = read("gpt2")
    hidden = one.hidden()[-1:].clone().requires_grad_()
    (grad,) = torch.autograd.grad(head_logits(one, hidden)[0, 3, 5], hidden)
    other = hidden.detach().clone().requires_grad_()
    (expected,) = torch.autograd.grad(by_hand("gpt2", other)[0, 3, 5], other)
    torch.testing.assert_close(grad, expected)


@pytest.mark.parametrize("name", ["gpt2", "t5", "albert", "llama_classifier"])
def test_nothing_of_the_model_is_changed_even_after_an_error(name: str) -> None:
    model = TINY[name]()
    one = read(name, model)
    with unchanged(model):
        hidden = one.hidden()
        head_logits(one, hidden)
        with pytest.raises(KeyError), bypass_blocks(one, hidden):
            raise KeyError
    with torch.no_grad():
        torch.testing.assert_close(head_logits(one, hidden, one.rows.tolist())[-1], one.logits(), rtol=1e-5, atol=1e-5)


def test_a_forward_of_the_users_own_is_put_back() -> None:
    model = TINY["gpt2"]()
    block: nn.Module = model.transformer.h[0]
    original = block.forward
    own = lambda *args, **kwargs: original(*args, **kwargs)  # noqa: E731
    block.forward = own
    one = read("gpt2", model)
    head_logits(one, one.hidden())
    assert block.forward is own
