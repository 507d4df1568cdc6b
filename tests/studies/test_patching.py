"""Every patch equals the same one made with plain hooks; where the answer is carried is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tests.oracles import random_states
from torch import Tensor, nn

from cutaway import studies
from cutaway.core.errors import InputError, SiteError


@pytest.fixture(scope="module")
def gpt() -> nn.Module:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.GPT2Config(vocab_size=20, n_positions=16, n_embd=12, n_layer=3, n_head=3)
    model: nn.Module = transformers.GPT2LMHeadModel(config).eval()
    return model


CLEAN, CORRUPTED = torch.tensor([[3, 1, 4, 1, 5]]), torch.tensor([[3, 9, 4, 1, 5]])


def gap(output: Any) -> Tensor:
    """How much likelier one token is than another."""
    result: Tensor = output.logits[0, -1, 7] - output.logits[0, -1, 8]
    return result


def by_hooks(model: nn.Module, module: nn.Module, position: Any) -> float:
    """Patched by hand: the clean value at one position of a module's first result."""
    held = []

    def tensor_of(result: Any) -> Tensor:
        tensor: Tensor = result[0] if isinstance(result, tuple) else result
        return tensor

    handle = module.register_forward_hook(lambda _, args, result: held.append(tensor_of(result).clone()))
    model(CLEAN)
    handle.remove()

    def put(_: nn.Module, args: Any, result: Any) -> Any:
        new = tensor_of(result).clone()
        new[:, position] = held[0][:, position]
        return (new, *result[1:]) if isinstance(result, tuple) else new

    handle = module.register_forward_hook(put)
    patched = float(gap(model(CORRUPTED)))
    handle.remove()
    return patched


def patched(model: nn.Module, **options: Any) -> studies.Patching:
    options = {"clean": lambda: model(CLEAN), "corrupted": lambda: model(CORRUPTED), **options}
    return studies.patch(model, options.pop("metric", gap), **options)


@torch.no_grad()
@pytest.mark.parametrize("part", ["", ".attn", ".mlp", ".ln_1"])
def test_each_site_and_position_is_patched_as_hooks_would(gpt: nn.Module, part: str) -> None:
    found = patched(gpt, at=f"transformer.h.*{part}", positions="each")
    assert found.sites == tuple(f"transformer.h.{i}{part}" for i in range(3))
    assert found.positions.tolist() == [0, 1, 2, 3, 4]
    assert float(found.clean) == float(gap(gpt(CLEAN)))
    assert float(found.corrupted) == float(gap(gpt(CORRUPTED)))
    for row, site in enumerate(found.sites):
        for position in range(5):
            want = by_hooks(gpt, gpt.get_submodule(site), position)
            assert found.scores[row, position] == want, (site, position)
    want = (found.scores - found.corrupted) / (found.clean - found.corrupted)
    assert np.allclose(found.recovered, want)


@torch.no_grad()
def test_whole_values_are_one_column(gpt: nn.Module) -> None:
    found = patched(gpt, at="transformer.h.*")
    assert found.scores.shape == (3, 1)
    assert found.positions.tolist() == [-1]
    assert np.allclose(found.recovered, 1.0)
    assert found.top(1)[0][1] is None


@torch.no_grad()
def test_positions_before_the_difference_recover_nothing(gpt: nn.Module) -> None:
    found = patched(gpt, at="transformer.h.*", positions=[0, 1, 4])
    every = patched(gpt, at="transformer.h.*", positions="each")
    assert np.array_equal(found.scores, every.scores[:, [0, 1, 4]])
    assert np.array_equal(found.recovered[:, 0], np.zeros(3))  # causal: position 0 is the same in both
    assert found.recovered[2, 2] == 1.0  # the last position of the last block is all that is read


class Carrier(nn.Module):
    """Three steps; the first position is the answer, and the second step carries it to the last position."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(nn.Identity() for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for number, step in enumerate(self.steps):
            if number == 1:
                x = torch.cat([x[:, :-1], x[:, :1]], dim=1)
            x = step(x)
        return x[:, -1].sum()


def test_the_place_that_carries_the_answer_is_found() -> None:
    model = Carrier()
    clean, corrupted = torch.ones(1, 4, 2), torch.zeros(1, 4, 2)
    found = studies.patch(
        model,
        lambda out: out,
        clean=lambda: model(clean),
        corrupted=lambda: model(corrupted),
        at="steps.*",
        positions="each",
    )
    assert found.recovered.tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 1]]
    assert found.top(3) == [("steps.0", 0), ("steps.1", 3), ("steps.2", 3)]


class Twice(nn.Module):
    """One layer that runs twice."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.fc = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.fc(self.fc(x).tanh())
        return result


def test_each_pass_gets_its_own_value() -> None:
    model = Twice()
    x, y = torch.ones(1, 3), torch.zeros(1, 3)

    def study(at: Any) -> studies.Patching:
        return studies.patch(model, lambda out: out[0], clean=lambda: model(x), corrupted=lambda: model(y), at=at)

    both, first, op = study("fc"), study("fc:1"), study("fc/linear.1:1")
    assert np.array_equal(both.scores[0, 0], both.clean)
    assert np.array_equal(first.scores[0, 0], both.clean)
    assert first.sites == ("fc:1",)
    assert np.array_equal(op.scores, first.scores)


def test_an_array_of_numbers_can_be_measured() -> None:
    model = Twice()
    x, y = torch.ones(2, 3), torch.zeros(2, 3)
    found = studies.patch(
        model, lambda out: out.sum(1), clean=lambda: model(x), corrupted=lambda: model(y), at=[".", "fc:2"]
    )
    assert found.scores.shape == (2, 1, 2)
    assert np.array_equal(found.scores[:, 0], np.stack([found.clean, found.clean]))


def test_values_that_are_overwritten_later_are_patched_as_they_were() -> None:
    class Overwriting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Identity(), nn.Identity()

        def forward(self, x: Tensor) -> Tensor:
            y = self.a(x * 2)
            y.add_(1)
            result: Tensor = self.b(y) + 0
            y.zero_()
            return result

    model = Overwriting()
    x, y = torch.ones(3), torch.zeros(3)
    found = studies.patch(model, lambda out: out, clean=lambda: model(x), corrupted=lambda: model(y), at=["a", "b"])
    assert found.scores.tolist() == [[[3.0] * 3]] * 2


@torch.no_grad()
def test_the_model_and_the_random_numbers_are_as_before(gpt: nn.Module) -> None:
    before = {name: value.clone() for name, value in gpt.state_dict().items()}
    states = random_states()
    patched(gpt, at="transformer.h.*", metric=lambda out: gap(out) + torch.rand(()), positions="each")
    assert all(torch.equal(value, before[name]) for name, value in gpt.state_dict().items())
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in gpt.modules())
    assert str(random_states()) == str(states)


# errors


@torch.no_grad()
def test_inputs_of_two_lengths_are_an_error(gpt: nn.Module) -> None:
    with pytest.raises(InputError, match=r"the same shape\. Choose or pad them so that they have the same length"):
        patched(gpt, at="transformer.h.*", corrupted=lambda: gpt(CORRUPTED[:, :4]), positions="each")


@torch.no_grad()
def test_positions_that_are_not_there_are_an_error(gpt: nn.Module) -> None:
    for positions, said in (
        ([5], "position 5 does not exist: 'transformer.h.0' has 5 positions"),
        ([-1], "position -1"),
        ([], "positions= is empty"),
        ("all", 'pass None, "each"'),
    ):
        with pytest.raises(InputError, match=said):
            patched(gpt, at="transformer.h.*", positions=positions)
    model = Twice()
    with pytest.raises(InputError, match="'fc' has no positions: its value has shape"):
        studies.patch(
            model,
            lambda out: out[0],
            clean=lambda: model(torch.ones(3)),
            corrupted=lambda: model(torch.zeros(3)),
            at="fc",
            positions="each",
        )


def test_what_cannot_be_patched_is_an_error() -> None:
    model = Twice()
    x = torch.ones(1, 3)
    runs: dict[str, Any] = {"clean": lambda: model(x), "corrupted": lambda: model(-x)}
    with pytest.raises(InputError, match=r"'fc.weight' is a parameter, the same in both runs"):
        studies.patch(model, lambda out: out, at="fc.weight", **runs)
    with pytest.raises(SiteError, match="matches no module"):
        studies.patch(model, lambda out: out, at="h.*", **runs)
    with pytest.raises(InputError, match="clean is a Tensor: pass a function"):
        studies.patch(model, lambda out: out, at="fc", clean=x, corrupted=runs["corrupted"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="the metric returned None of the clean run"):
        studies.patch(model, lambda out: None, at="fc", **runs)


def test_equal_runs_leave_nothing_to_recover() -> None:
    model = Twice()
    x = torch.ones(1, 3)
    found = studies.patch(model, lambda out: out.sum(), clean=lambda: model(x), corrupted=lambda: model(x), at="fc")
    assert np.isnan(found.recovered).all()
    assert "nothing to recover" in repr(found)
