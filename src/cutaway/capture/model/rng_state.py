"""What a call of torch depends on besides its arguments: random generators, autocast, grad mode; noted and restored."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.core.events import Context

_RECURRENT = frozenset({"lstm", "gru", "rnn_tanh", "rnn_relu"})
_TWISTER = 625 * 4
"""Bytes of a Mersenne Twister: 624 words and a position."""
_KINDS = ("cpu", "cuda", "mps", "xpu")

Generators = tuple[tuple[Any, Any], ...]


def autocast_now() -> tuple[tuple[str, Any], ...]:
    """(kind of device, dtype) for each kind under autocast."""
    return tuple((kind, torch.get_autocast_dtype(kind)) for kind in _KINDS if torch.is_autocast_enabled(kind))


def context_now() -> Context:
    """Grad mode and autocast as they are."""
    return Context(torch.is_grad_enabled(), autocast_now() if torch._C._is_any_autocast_enabled() else ())


def drawn_from(name: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None) -> Generators:
    """The generators that this call may draw from, each with its state; none where it certainly does not draw."""
    if not _draws(name, args, kwargs or {}):
        return ()
    own = kwargs.get("generator") if kwargs else None
    if own is not None:
        return ((own, own.get_state()),)
    found = [(torch.default_generator, torch.default_generator.get_state())]
    if torch.cuda.is_initialized():
        generator = torch.cuda.default_generators[torch.cuda.current_device()]
        found.append((generator, generator.get_state()))
    return tuple(found)


def _draws(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    if "dropout" in name:
        return bool(args[2] if len(args) > 2 else kwargs.get("training", kwargs.get("train", True)))
    if name == "scaled_dot_product_attention":
        return bool(args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0))
    if name in _RECURRENT:
        return any(type(value) is float and value > 0 for value in args)
    return True


@contextmanager
def restored(context: Any) -> Iterator[None]:
    """Grad mode, autocast and generators as they were for a call."""
    grad, autocast, generators = context if isinstance(context, Context) else (bool(context), (), ())
    with ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(grad))
        for kind, dtype in autocast:
            stack.enter_context(torch.autocast(kind, dtype=dtype, cache_enabled=False))
        for generator, state in generators:
            generator.set_state(state)
        yield


class Randomness(NamedTuple):
    """The states of Python's, NumPy's and torch's generators at one moment."""

    python: Any
    numpy: Any
    torch: Tensor
    cuda: tuple[Tensor, ...]

    @staticmethod
    def now() -> Randomness:
        return Randomness.quickly()._replace(numpy=np.random.get_state(legacy=False))

    @staticmethod
    def quickly() -> Randomness:
        """The same in a tenth of the time: NumPy's getter takes 75 µs, so its memory is read instead.

        What is lost is half of a pair of normal numbers, if `numpy.random` has one in store.
        """
        cuda = tuple(torch.cuda.get_rng_state_all()) if torch.cuda.is_initialized() else ()
        generator = np.random.get_bit_generator()  # type: ignore[attr-defined]
        if type(generator) is np.random.MT19937:
            numpy: Any = ctypes.string_at(generator.ctypes.state_address, _TWISTER)
        else:
            numpy = np.random.get_state(legacy=False)
        return Randomness(random.getstate(), numpy, torch.get_rng_state(), cuda)

    def put_back(self) -> None:
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
def randomness_kept(*generators: Any) -> Iterator[None]:
    """Whatever is drawn inside, the program goes on as if nothing had been; `generators` are the program's own."""
    before = Randomness.now()
    own = [(generator, generator.get_state()) for generator in generators]
    try:
        yield
    finally:
        before.put_back()
        for generator, state in own:
            generator.set_state(state)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed Python, NumPy and torch (CPU and every GPU in use); restore all of them afterwards."""
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise InputError(f"seed={seed!r}: give an integer.")
    with randomness_kept():
        random.seed(seed)
        np.random.seed(seed % 2**32)
        torch.manual_seed(seed)
        yield
