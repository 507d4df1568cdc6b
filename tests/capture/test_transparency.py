"""Capture does not change what a program computes, bit for bit, for every model of the zoo."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
import torch
from tests.oracles import random_states, same, tensors
from tests.zoo import ZOO
from torch import nn

import cutaway

_FIXED_POINTS = [
    (torch.overrides, "has_torch_function"),
    (threading.Thread, "start"),
    (torch.autograd, "_engine_run_backward"),
    (torch._C.ScriptFunction, "__call__"),
    (torch, "compile"),
    (nn.functional, "relu"),
    (torch.Tensor, "__add__"),
    (nn.Module, "__call__"),
]
_GARBAGE_THRESHOLD = gc.get_threshold()
_BEFORE = [getattr(owner, name) for owner, name in _FIXED_POINTS]


def assert_nothing_left() -> None:
    """No mode, hook or replaced function remains."""
    from torch.nn.modules import module

    assert torch._C._len_torch_function_stack() == 0
    assert gc.get_threshold() == _GARBAGE_THRESHOLD
    for name in vars(module):
        if name.startswith("_global_") and "hooks" in name and isinstance(getattr(module, name), dict):
            assert not getattr(module, name), name
    for (owner, name), before in zip(_FIXED_POINTS, _BEFORE, strict=True):
        assert getattr(owner, name) == before, f"{owner.__name__}.{name} was not put back"


def run(name: str, how: str) -> tuple[Any, ...]:
    """Run a case plain, traced or watched; return all that must not differ."""
    model, args, kwargs = ZOO[name]()
    torch.manual_seed(1)
    if how == "plain":
        result = model(*args, **kwargs)
    elif how == "traced":
        result = cutaway.trace(model, *args, **kwargs).returned
    else:
        with cutaway.watch(model, save=None if how == "metadata" else "**"):
            result = model(*args, **kwargs)
            _backward(result)
    if how in ("plain", "traced"):
        _backward(result)
    grads = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    flags = {n: p.requires_grad for n, p in model.named_parameters()}
    return (
        tensors(result),
        tensors((args, kwargs)),
        grads,
        dict(model.named_parameters()),
        dict(model.named_buffers()),
        flags,
        random_states(),
        type(result),
        [getattr(t, "grad_fn", None) is None for t in tensors(result).values()],
    )


def _backward(result: Any) -> None:
    ways = [
        t for t in tensors(result).values() if t.requires_grad and t.is_floating_point() and t.layout is torch.strided
    ]
    ways = [t for t in ways if not t.is_meta and not t.is_nested]
    if ways:
        torch.autograd.backward([t.sum() for t in ways])


@pytest.mark.parametrize("how", ["traced", "watched", "metadata"])
@pytest.mark.parametrize("name", ZOO)
def test_everything_is_bit_equal_with_and_without(name: str, how: str) -> None:
    plain, ours = run(name, "plain"), run(name, how)
    for before, after in zip(plain[:5], ours[:5], strict=True):
        assert before.keys() == after.keys()
        for key in before:
            assert same(before[key], after[key]), key
    assert plain[5:] == ours[5:]
    assert_nothing_left()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_nothing_is_left_after_an_exception(error: type[BaseException]) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def boom(*_: Any) -> None:
        raise error("stop")

    model[1].register_forward_hook(boom)
    n_hooks = len(model[1]._forward_hooks)
    with pytest.raises(error, match="stop"):
        cutaway.trace(model, torch.ones(2, 4))
    assert len(model[1]._forward_hooks) == n_hooks
    assert_nothing_left()


def test_hooks_of_the_model_stay_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    model[0].register_forward_hook(lambda module, args, out: out + 1)
    before = [dict(module._forward_hooks) for module in model.modules()]
    cutaway.trace(model, torch.ones(2, 4))
    assert [dict(module._forward_hooks) for module in model.modules()] == before


def test_no_hook_is_left_on_parameters_after_backward() -> None:
    model = nn.Linear(4, 2)
    with cutaway.watch(model):
        model(torch.ones(2, 4)).sum().backward()
    assert all(not p._backward_hooks for p in model.parameters())


def test_the_fast_paths_are_still_taken() -> None:
    for name, fused in (
        ("transformer_fast_path", "transformer_encoder_layer_fwd"),
        ("attention_fast_path", "native_multi_head"),
    ):
        model, args, kwargs = ZOO[name]()
        trace = cutaway.trace(model, *args, **kwargs)
        assert all(fused in op.function for op in trace.ops), [op.function for op in trace.ops]


def test_a_seed_makes_stochastic_models_repeat_and_restores_every_generator() -> None:
    model, args, _ = ZOO["randomness"]()
    before = random_states()
    values = []
    for _ in range(2):
        with cutaway.watch(model, seed=7) as trace:
            model(*args)
        values.append(trace["dropout_1"].value)
        assert random_states() == before
    assert same(*values)


def test_composites_that_were_monkeypatched_are_seen_as_they_are_now(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.MultiheadAttention(8, 2)
    x = torch.randn(3, 1, 8)
    cutaway.trace(model, x, x, x)
    original = nn.functional.softmax
    monkeypatch.setattr(nn.functional, "softmax", lambda *args, **kwargs: original(*args, **kwargs) * 2)
    expected = model(x, x, x)[0]
    assert same(cutaway.trace(model, x, x, x).returned[0], expected)
