"""Saves and restores random generators, autocast and grad mode: what a torch call depends on besides its arguments."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputTypeError
from cutaway.core.events import Context

_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_TWISTER = 625 * 4
"""Bytes of a Mersenne Twister state: 624 words and a position."""
_KINDS = ("cpu", "cuda", "mps", "xpu")

Generators = tuple[tuple[Any, Any], ...]


def current_autocast() -> tuple[tuple[str, Any], ...]:
    """(device type, dtype) for each device type under autocast."""
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in _KINDS if torch.is_autocast_enabled(kind))


def current_context() -> Context:
    """The present grad mode and autocast."""
    return Context(torch.is_grad_enabled(), current_autocast() if torch._C._is_any_autocast_enabled() else ())


def generators_used(name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Generators:
    """The generators that this call may use, each with its state; empty if it certainly uses none."""
    if not _uses_random_numbers(name, args, kwargs or {}):
        return ()
    generator = kwargs.get("generator") if kwargs else None
    if generator is not None:
        return ((generator, generator.get_state()),)
    generators = [(torch.default_generator, torch.default_generator.get_state())]
    if torch.cuda.is_initialized():
        gpu_generator = torch.cuda.default_generators[torch.cuda.current_device()]
        generators.append((gpu_generator, gpu_generator.get_state()))
    return tuple(generators)


def _uses_random_numbers(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    # Reading the state of torch's generator copies 5 KB: look first whether it is used at all.
    if "dropout" in name:
        return bool(args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True)))
    if name == "scaled_dot_product_attention":
        return bool(args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0))
    if name in _RECURRENT:
        # The only float among the arguments of these functions is the dropout probability.
        return any(type(value) is float and value > 0 for value in args)
    return True


@contextmanager
def restore_context(context: Any) -> Iterator[None]:
    """Context manager: restores grad mode, autocast and generator states of a recorded call."""
    grad, autocast, generators = context if isinstance(context, Context) else (bool(context), (), ())
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(grad))
        for kind, dtype in autocast:
            stack.enter_context(torch.autocast(kind, dtype=dtype, cache_enabled=False))
        for generator, state in generators:
            generator.set_state(state)
        yield


class RngStates(NamedTuple):
    """The states of Python's, NumPy's and torch's generators."""

    python: Any
    numpy: Any
    torch: Tensor
    cuda: tuple[Tensor, ...]

    @staticmethod
    def now() -> RngStates:
        return RngStates.now_fast()._replace(numpy=np.random.get_state(legacy=False))

    @staticmethod
    def now_fast() -> RngStates:
        """The same in a tenth of the time: NumPy's getter takes 75 µs, so this reads the generator's memory.

        It loses the cached second number of a normal pair, if `numpy.random` has one.
        """
        cuda = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()
        generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
        if type(generator) is np.random.MT19937:
            numpy: Any = ctypes.string_at(generator.ctypes.state_address, _TWISTER)
        else:
            numpy = np.random.get_state(legacy=False)
        return RngStates(random.getstate(), numpy, torch.get_rng_state(), cuda)

    def restore(self) -> None:
        random.setstate(self.python)
        numpy = self.numpy
        if isinstance(numpy, bytes):
            words = np.frombuffer(numpy, dtype=np.uint32)
            numpy = ("MT19937", words[:-1].copy(), int(words[-1]), 0, 0.0)
        np.random.set_state(numpy)
        torch.set_rng_state(self.torch)
        if self.cuda:
            torch.cuda.set_rng_state_all(list(self.cuda))


@contextmanager
def preserve_rng(*generators: Any) -> Iterator[None]:
    """Context manager: restores all random generators afterwards; `generators` are additional ones of the program."""
    before = RngStates.now()
    extra = [(generator, generator.get_state()) for generator in generators]
    try:
        yield
    finally:
        before.restore()
        for generator, state in extra:
            generator.set_state(state)


@contextmanager
def seed_rng(seed: int) -> Iterator[None]:
    """Context manager: seeds Python, NumPy and torch (CPU and all GPUs in use), then restores all of them."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputTypeError(f"seed={seed!r} must be an integer.")
    with preserve_rng():
        random.seed(seed)
        # NumPy takes 32 bits, torch 64.
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield
