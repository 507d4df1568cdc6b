"""Modules that torch's hooks do not reach: made inside the forward, or with a `__call__` of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import Event, Thread
from typing import Any

import numpy as np
import pytest
import torch
from tests.zoo import Fn
from torch import Tensor, nn

import cutaway
from cutaway.errors import SiteError


class Softmax(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.softmax(x, -1)


class OwnCall(nn.Module):
    """As in gpytorch."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def __call__(self, x: Tensor) -> Tensor:
        return self.forward(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


class CallsSuper(OwnCall):
    def __call__(self, *args: Any) -> Any:
        return nn.Module.__call__(self, *args)


def test_an_edit_in_a_module_made_inside_the_forward_says_so_and_replay_works() -> None:
    model = Fn(lambda self, x: Softmax()(self.fc(x)) * 2, fc=nn.Linear(3, 3))
    x = torch.ones(2, 3)
    trace = cutaway.trace(model, x)
    with pytest.raises(SiteError, match=r"a module that the forward creates.*trace.replay\('softmax_1_2', 0\)"):
        cutaway.edit(model, at=trace["softmax_1"], to=0)
    assert torch.equal(trace.replay("softmax_1_2", 3).returned, torch.full((2, 3), 6.0))


class Derived(OwnCall):
    """Calls its base class, and computes before and after."""

    def __call__(self, x: Tensor, *, scale: float = 1.0, fails: bool = False) -> Tensor:  # type: ignore[override]
        made = super().__call__(x * scale) + super().__call__(x)
        if fails:
            raise ValueError("on purpose")
        return made.tanh()


class Builtin(OwnCall):
    """Nobody can tell what such a `__call__` runs."""

    __call__ = functools.partialmethod(OwnCall.forward)  # type: ignore[assignment]


def own_call_model() -> nn.Module:
    torch.manual_seed(0)
    return Fn(lambda self, x: self.gp(x, scale=2.0) * self.gp(x), gp=Derived(), spare=Derived())


X = torch.arange(6.0).view(2, 3)


def by_hand(model: Any, gp: Callable[..., Tensor]) -> Tensor:
    return gp(X, scale=2.0) * gp(X)


def test_calls_of_a_class_with_its_own_call_are_module_calls() -> None:
    model = own_call_model()
    model.gp.register_forward_hook(lambda *_: pytest.fail("without Cutaway, this hook does not run"))
    before = Derived.__dict__["__call__"], OwnCall.__dict__["__call__"]
    trace = cutaway.trace(model, X)
    assert (Derived.__dict__["__call__"], OwnCall.__dict__["__call__"]) == before
    first, second = trace.modules["gp"].calls
    assert first.inputs["0"] == second.inputs["0"] == trace.inputs[0]
    assert str(first.outputs[""].site) == "gp/tanh:1"
    assert torch.equal(trace["gp:2"].value, Derived.__call__(model.gp, X))
    assert [str(op.site) for op in trace.ops if op.module in (first, second)] == [
        "gp/mul:1",
        "gp/add:1",
        "gp/tanh:1",
        "gp/mul:2",
        "gp/add:2",
        "gp/tanh:2",
    ]
    assert len(trace.modules["gp.fc"].calls) == 4
    assert trace.uncalled_modules == ("spare", "spare.fc")
    assert trace.validate()
    with pytest.raises(SiteError, match="was never called"):
        trace["spare"]


def test_edits_and_observers_reach_a_class_with_its_own_call() -> None:
    model = own_call_model()
    plain = Derived.__dict__["__call__"]

    def run() -> Tensor:
        result = model(X)
        assert isinstance(result, Tensor)
        return result

    gp = model.gp
    with cutaway.edit(model, "gp", lambda y: y + 1):
        assert torch.equal(run(), by_hand(model, lambda *a, **k: gp_plain(gp, plain, *a, **k) + 1))
    with cutaway.edit(model, "gp:2", 0):
        assert not run().any()
    with cutaway.edit(model, "gp@in.0", lambda x: x - 3):
        assert torch.equal(run(), by_hand(model, lambda x, **k: gp_plain(gp, plain, x - 3, **k)))
    with cutaway.edit(model, "gp/tanh", 2):
        assert torch.equal(run(), torch.full((2, 3), 4.0))
    with cutaway.edit(model, "gp", cutaway.edit.swap(lambda x: x)):  # of the forward, which it calls twice
        assert torch.equal(run(), (X * 2 + X).tanh() * (X + X).tanh())
    with cutaway.edit(model, "gp", -1), cutaway.watch(model) as trace:
        run()
    assert torch.equal(trace["gp:1"].value, torch.full((2, 3), -1.0))
    with torch.no_grad():
        assert np.array_equal(np.asarray(cutaway.collect(model, X, at="gp:1")), plain(gp, X, scale=2.0).numpy())
    assert Derived.__dict__["__call__"] is plain


def gp_plain(gp: nn.Module, call: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
    """The module without any wrapper of an edit around it."""
    wrapped = Derived.__call__
    Derived.__call__ = call  # type: ignore[method-assign, assignment]
    try:
        return call(gp, *args, **kwargs)
    finally:
        Derived.__call__ = wrapped  # type: ignore[method-assign]


def test_classes_are_restored_after_errors_and_in_any_order_of_threads() -> None:
    model = own_call_model()
    plain = Derived.__dict__["__call__"]
    failing = Fn(lambda self, x: self.gp(x, fails=True), gp=model.gp)
    with pytest.raises(ValueError, match="on purpose"), cutaway.watch(failing) as trace:
        failing(X)
    assert not trace.modules["gp"].calls[0].is_finished
    assert Derived.__dict__["__call__"] is plain
    first, second = Event(), Event()

    def other() -> None:
        with cutaway.watch(model):
            first.set()
            second.wait(20)
            model(X)

    thread = Thread(target=other)
    with cutaway.watch(model) as trace:
        model(X)
        thread.start()
        first.wait(20)
    assert len(trace.modules["gp"].calls) == 2
    assert Derived.__dict__["__call__"] is not plain
    second.set()
    thread.join()
    assert Derived.__dict__["__call__"] is plain


def test_a_call_that_nobody_can_see_is_named() -> None:
    model = nn.Sequential(Builtin(), nn.ReLU())
    trace = cutaway.trace(model, torch.ones(2, 3))
    assert trace.uncalled_modules == ()
    assert "not called" not in str(trace)
    with pytest.raises(SiteError, match="__call__ of its own that bypasses hooks"):
        trace["0"]
    edited = cutaway.edit(model, "0", 0)
    with pytest.raises(SiteError, match="Builtin has a __call__ of its own"), edited:
        model(torch.ones(2, 3))


def test_a_call_that_calls_super_is_seen_once() -> None:
    model = nn.ModuleDict({"used": CallsSuper(), "spare": nn.Linear(3, 3)})
    calls: list[Tensor] = []
    with model["used"].register_forward_hook(lambda _, __, out: calls.append(out)):
        trace = cutaway.trace(Fn(lambda self, x: self.m["used"](x), m=model), torch.ones(2, 3))
    assert len(trace.modules["m.used"].calls) == len(calls) == 1
    assert trace.uncalled_modules == ("m.spare",)
