"""Correct traces that `validate` once rejected, or accepted with a wrong note."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.errors import CannotValidateError

X = torch.linspace(-1, 1, 6).view(2, 3)


class Quantized(Tensor):
    """A weight in int8 that computes `linear` in `__torch_function__`."""

    q: Tensor
    scale: Tensor

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is F.linear:
            x, weight, *bias = args
            return F.linear(x, weight.q.float() * weight.scale, *bias, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **kwargs)
        if func is Tensor.detach:
            return cls.of(result, args[0].q, args[0].scale)
        return result

    @classmethod
    def of(cls, plain: Tensor, q: Tensor, scale: Tensor) -> Quantized:
        made = plain.as_subclass(Tensor).as_subclass(cls)
        made.q, made.scale = q, scale
        return made

    @classmethod
    def quantize(cls, weight: Tensor) -> Quantized:
        scale = weight.abs().max() / 7  # coarse, so that the plain numbers give another result
        return cls.of(weight.clone(), (weight / scale).round().to(torch.int8), scale)


@torch.no_grad()
def test_a_quantized_weight_that_handles_functions_itself_is_replayed_by_its_own_rules() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    plain = model[0].weight.detach()
    model[0].weight = nn.Parameter(Quantized.quantize(plain), requires_grad=False)
    weight = model[0].weight.q.float() * model[0].weight.scale  # type: ignore[union-attr]
    expected = F.linear(X, weight, model[0].bias)
    assert not torch.allclose(expected, F.linear(X, plain, model[0].bias), atol=1e-3)

    trace = cutaway.trace(model, X)
    assert torch.equal(trace["0"].value, expected)
    report = trace.validate()
    assert report.failures == ()
    assert report.notes == ()
    assert trace.unused_parameters == ()
    replayed = trace.replay(".@in.0", 2 * X)
    assert torch.equal(replayed["0"].value, F.linear(2 * X, weight, model[0].bias))


def jagged() -> Tensor:
    return torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.fc(torch.nested.nested_tensor([x, 2 * x], layout=torch.jagged)).values(),
        lambda self, x: self.fc(torch.nested.nested_tensor_from_jagged(x, torch.tensor([0, 1, 2]))).values(),
        lambda self, x: torch.relu(self.fc(jagged())) * 2 + x.sum(),
    ],
    ids=["from tensors", "from values", "made elsewhere"],
)
def test_jagged_tensors_are_validated_without_a_note_on_fake_tensors(forward: Any, monkeypatch: Any) -> None:
    # Torch makes one dummy per process on first use: a fresh one, so that the order of tests does not matter.
    monkeypatch.setattr("torch.nested._internal.nested_tensor._dummy_instance", None, raising=False)
    report = cutaway.trace(Fn(forward, fc=nn.Linear(3, 3)), X).validate()
    assert report.failures == ()
    assert not any("fake" in note or "cut" in note for note in report.notes)


def test_meta_tensors_still_have_a_note() -> None:
    model = nn.Linear(3, 3, device="meta")
    report = cutaway.trace(model, X.to("meta")).validate()
    assert any("meta and fake tensors have no numbers" in note for note in report.notes)


@pytest.mark.parametrize("make", [nn.Tanh, lambda: nn.Linear(3, 3)], ids=["without parameters", "with parameters"])
@pytest.mark.parametrize("replaces", [False, True])
def test_a_submodule_that_works_only_once_is_named_and_is_no_failure(make: Any, replaces: bool) -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        if hasattr(self, "once"):
            x = self.once(x)
            del self.once
        if replaces:
            self.once = nn.Sigmoid()
        return self.fc(x)

    report = cutaway.trace(Fn(forward, fc=nn.Linear(3, 3), once=make()), X).validate()
    assert report.failures == ()
    assert any("the submodule 'once' of Fn was removed or replaced" in note for note in report.notes)


@pytest.mark.parametrize("before", [False, True], ids=["forward hook", "pre-hook"])
def test_a_hook_that_removes_itself_is_named_and_is_no_failure(before: bool) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def hook(_: nn.Module, args: tuple[Tensor], *result: Tensor) -> Any:
        handle.remove()
        return (args[0] * 2,) if before else result[0] * 2

    register = model[1].register_forward_pre_hook if before else model[1].register_forward_hook
    handle = register(hook)
    report = cutaway.trace(model, X).validate()
    assert report.failures == ()
    assert any("the hooks of Tanh" in note for note in report.notes)


def once(function: Callable[..., Any], otherwise: Callable[..., Any] = lambda *args: None) -> Callable[..., Any]:
    """A function that does something else from its second call on: the counter is in a closure, which no trace has."""
    n_calls = 0

    def call(*args: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        return function(*args) if n_calls == 1 else otherwise(*args)

    return call


def a_hook_that_acts_once() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    model[1].register_forward_hook(once(lambda module, args, out: out + 2))
    return model


def a_pre_hook_that_acts_once() -> nn.Module:
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 2))
    model[2].register_forward_pre_hook(once(lambda module, args: (args[0] + 1,)))
    return model


def a_function_that_acts_once() -> nn.Module:
    warm_up = once(lambda x: x.sin(), lambda x: x.cos())
    return Fn(lambda self, x: self.fc(warm_up(x)), fc=nn.Linear(3, 2))


def a_value_that_is_used_once() -> nn.Module:
    factor = once(lambda: 3.0, lambda: 1.0)
    return Fn(lambda self, x: self.fc(x) * factor(), fc=nn.Linear(3, 2))


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (a_hook_that_acts_once, "at add_1_3 (1/add)"),
        (a_pre_hook_that_acts_once, "at add_1_3 (2/add)"),
        (a_function_that_acts_once, "at sin_1_1 (./sin), where it then ran ./cos"),
        (a_value_that_is_used_once, "at mul_1_2 (./mul)"),
    ],
)
def test_a_model_that_acts_only_once_is_named_and_is_no_failure(make: Callable[[], nn.Module], where: str) -> None:
    x = torch.ones(2, 3)
    report = cutaway.trace(make(), x).validate()
    assert report, report
    assert report.outputs_compared == 0
    text = f"not repeatable: the model does something else on its second run, {where}"
    assert any(text in note for note in report.notes), report
    with pytest.raises(CannotValidateError, match="not repeatable: the model does something else on its second run"):
        cutaway.trace(make(), x).validate(retrace=True)
    model = make()
    with cutaway.watch(model, save=["."]) as part:
        model(x)
    report = part.validate()
    assert not report.failures
    assert "not repeatable" in str(report)
