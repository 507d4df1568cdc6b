"""Random weights are other weights, everywhere."""

from __future__ import annotations

import torch
from tests.collecting import tiny
from torch import nn
from transformers import T5Config, T5Model

from cutaway.collecting import randomized


def same_matrices(first: nn.Module, second: nn.Module) -> list[str]:
    pairs = zip(first.named_parameters(), second.named_parameters(), strict=True)
    return [name for (name, a), (_, b) in pairs if a.dim() > 1 and bool((a == b).float().mean() > 0.5)]


def test_every_weight_matrix_differs_from_the_pretrained_one() -> None:
    model, _ = tiny.minilm()
    kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    fresh = randomized(model, seed=1)
    assert same_matrices(model, fresh) == []
    assert all(torch.equal(tensor, kept[name]) for name, tensor in model.state_dict().items()), "the model stays"
    spread = fresh.encoder.layer[0].output.dense.weight.std()
    assert 0.015 < spread < 0.025, "drawn as the model draws them"


def test_a_seed_gives_the_same_weights_and_another_one_others() -> None:
    model = tiny.bert()
    fresh = randomized(model, seed=1)
    assert same_matrices(fresh, randomized(model, seed=2)) == []
    assert len(same_matrices(fresh, randomized(model, seed=1))) == sum(p.dim() > 1 for p in model.parameters())


def test_a_model_made_under_the_same_seed_does_not_get_its_own_weights_again() -> None:
    torch.manual_seed(0)
    model = nn.Linear(30, 30)
    fresh = randomized(model, seed=0)
    assert not torch.equal(fresh.weight.sort().values, model.weight.sort().values)


def test_it_draws_nothing_from_the_programs_own_numbers() -> None:
    model = nn.Linear(4, 4)
    before = torch.get_rng_state()
    randomized(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_models_that_cannot_draw_their_own_weights_are_stirred() -> None:
    class Bare(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.arange(24.0).reshape(4, 6))
            self.ones = nn.Parameter(torch.ones(3, 5))

    assert same_matrices(Bare(), randomized(Bare())) == []


def test_tied_weights_stay_tied() -> None:
    model = T5Model(T5Config(vocab_size=50, d_model=16, d_ff=16, d_kv=4, num_layers=1, num_heads=2))
    fresh = randomized(model)
    assert same_matrices(model, fresh) == []
    assert fresh.shared.weight is fresh.encoder.embed_tokens.weight
