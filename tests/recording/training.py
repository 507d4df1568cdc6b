"""Training runs in small, with and without a recorder, and everything they leave behind."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from tests.oracles import random_states, same, tensors
from tests.zoo import ZOO
from torch import Tensor, nn

import cutaway

OPTIMIZERS: dict[str, Callable[[list[Any]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.01, momentum=0.9),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=0.01),
    "adamw_foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.001),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=0.01),
}


class Off:
    """Stands for a recorder that is not there."""

    def step(self, *args: Any, **kwargs: Any) -> AbstractContextManager[None]:
        return nullcontext()

    def log(self, *args: Any, **kwargs: Any) -> None:
        pass

    def close(self) -> None:
        pass


def loss_of(result: Any) -> Tensor | None:
    """A number made of everything in a result that has a gradient."""
    found = [
        leaf.abs().pow(2).mean() if leaf.is_complex() else leaf.float().pow(2).mean()
        for leaf in tensors(result).values()
        if leaf.requires_grad and leaf.layout is torch.strided and leaf.numel() and not leaf.is_nested
    ]
    return sum(found[1:], found[0]) if found else None


def train_case(name: str, optimizer: str, run: Any, n_steps: int) -> dict[str, Any]:
    """Train a model of the zoo for some steps; everything that is left behind.

    Args:
        optimizer: one of `OPTIMIZERS`, or several of them joined by "+", each of which makes two steps in turn.
    """
    random.seed(0)
    np.random.seed(0)
    model, args, kwargs = ZOO[name]()
    parameters = [p for p in model.parameters() if p.requires_grad]
    steppers = [OPTIMIZERS[each](parameters) for each in optimizer.split("+")] if parameters else []
    recorder = run(model)
    torch.manual_seed(1)
    losses = []
    try:
        for number in range(n_steps):
            inputs, named = copy.deepcopy(args), copy.deepcopy(kwargs)
            with recorder.step(kind="odd" if number % 2 else "even"):
                loss = loss_of(model(*inputs, **named))
                if loss is not None and parameters:
                    stepper = steppers[number // 2 % len(steppers)]
                    loss.backward()
                    stepper.step()
                    stepper.zero_grad()
                if loss is not None:
                    losses.append(loss.detach().clone())
                    recorder.log(loss=loss)
    finally:
        recorder.close()
    return {"losses": losses, **left_behind(model, *steppers)}


def left_behind(model: nn.Module, *optimizers: torch.optim.Optimizer | None) -> dict[str, Any]:
    """Parameters, buffers, flags, gradients, optimizer state and random states."""
    return {
        "parameters": {name: tensor.detach().clone() for name, tensor in model.named_parameters()},
        "buffers": {name: tensor.detach().clone() for name, tensor in model.named_buffers()},
        "flags": {name: (p.requires_grad, p.grad is None, p.is_leaf) for name, p in model.named_parameters()},
        "grads": {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None},
        "hooks": {name: _hooks(module) for name, module in model.named_modules()},
        "tensor_hooks": {name: len(p._backward_hooks or ()) for name, p in model.named_parameters()},
        "optimizers": [None if one is None else copy.deepcopy(one.state_dict()) for one in optimizers],
        "random": random_states(),
    }


def equal(a: Any, b: Any) -> bool:
    """Bit-equal through dicts, lists and tuples."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return same(a, b)


def _hooks(module: nn.Module) -> tuple[int, ...]:
    return (
        len(module._forward_hooks),
        len(module._forward_pre_hooks),
        len(module._backward_hooks),
        len(module._backward_pre_hooks),
    )


def recorder_to(path: Any, **settings: Any) -> Callable[[nn.Module], Any]:
    """Makes a recorder for a model."""
    return lambda model: cutaway.record(path, model, **{"every": 1, "samples": 2, **settings})
