"""Copies and changes of parameters, held against subtraction one by one."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import Tensor, nn

from cutaway.recording.hooks import updates
from cutaway.recording.hooks.updates import change_of, changes_of, copies_of
from cutaway.recording.models import NamedParameter


class Marked(Tensor):
    """A subclass without rules of its own."""


def parameters() -> list[NamedParameter]:
    generator = torch.Generator().manual_seed(0)
    normal = {"generator": generator}
    tensors: list[Tensor] = [
        nn.Parameter(torch.randn(3, 4, **normal)),  # type: ignore[arg-type]
        nn.Parameter(torch.randn(5, **normal).to(torch.bfloat16)),  # type: ignore[arg-type]
        nn.Parameter(torch.randn(2, 3, 4, 5, **normal).to(memory_format=torch.channels_last)),  # type: ignore[arg-type]
        nn.Parameter(torch.randn(4, dtype=torch.complex64, **normal)),  # type: ignore[arg-type]
        nn.Parameter(torch.randn(7, dtype=torch.float64, **normal)),  # type: ignore[arg-type]
        nn.Parameter(torch.zeros(0)),
        nn.Parameter(torch.tensor([1.0, float("inf"), float("nan"), -0.0])),
        torch.randn(4, **normal).as_subclass(Marked).requires_grad_(),  # type: ignore[arg-type]
    ]
    return [NamedParameter(tensor, (str(number),), False) for number, tensor in enumerate(tensors)]


@pytest.mark.parametrize("has_foreach_clone", [True, False])
@torch.no_grad()
def test_changes_are_those_of_subtraction(has_foreach_clone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_foreach_clone:
        monkeypatch.delattr(updates.torch, "_foreach_clone", raising=False)
    named = parameters()
    before = {id(each.tensor): each.tensor.detach().clone() for each in named}
    memory = {id(named[0].tensor): torch.empty(3, 4), id(named[4].tensor): torch.empty(2)}
    copies = copies_of(named, memory)
    assert copies.keys() == before.keys()
    assert copies[id(named[0].tensor)] is memory[id(named[0].tensor)]  # an earlier copy of the same shape is reused
    assert copies[id(named[4].tensor)].shape == (7,)
    for id_, copy in copies.items():
        torch.testing.assert_close(copy, before[id_], rtol=0, atol=0, equal_nan=True)
    for each in named[:-1]:
        each.tensor.mul_(1.7).sub_(0.3)
    named[6].tensor.copy_(before[id(named[6].tensor)])
    wanted = {id_: each.tensor.detach() - before[id_] for id_, each in zip(before, named, strict=True)}
    memories = {id_: copy.data_ptr() for id_, copy in copies.items()}
    changes = changes_of([*named, named[0]], copies)  # a parameter that is listed twice changes once
    assert set(changes) == {id(each.tensor) for each in named[:-1]}
    last = named[-1]
    changes[id(last.tensor)] = change_of(last, copies[id(last.tensor)])
    for id_, change in changes.items():
        assert change.data_ptr() == memories[id_]
        assert not change.requires_grad
        torch.testing.assert_close(change, wanted[id_], rtol=0, atol=0, equal_nan=True)
        assert torch.equal(torch.signbit(_real(change)), torch.signbit(_real(wanted[id_])))  # 0 stays 0, not -0


def _real(tensor: Tensor) -> Tensor:
    real = torch.view_as_real(tensor) if tensor.is_complex() else tensor
    return real.nan_to_num(1.0)


@torch.no_grad()
def test_a_parameter_of_another_shape_keeps_its_copy() -> None:
    named = parameters()[:1]
    copies = copies_of(named, {})
    copy = copies[id(named[0].tensor)].clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named[0].tensor.data = torch.zeros(2, 2)
        assert changes_of(named, copies) == {}
    assert torch.equal(copies[id(named[0].tensor)], copy)
