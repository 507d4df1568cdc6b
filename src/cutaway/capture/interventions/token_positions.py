"""Maps absolute token positions to the slice of the current step (KV cache).

During generation with a KV cache, the first step has the positions of the prompt, and each later step has a single
position. Inside `token_window`, edits count positions over the whole text, whatever slice the step has.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.patches.own_call import before_call
from cutaway.capture.sessions import in_hidden_run
from cutaway.core.errors import EditError

PROBE_PROMPT_LENGTH = 2**30
"""Prompt length for a probing run on a few tokens that only shows the structure of a model: large enough that no
position counted from the end of the prompt is among them."""


@dataclass(slots=True)
class TokenWindow:
    """The slice of the text that the current step processes."""

    n_given: int | None
    """Length of the prompt, from whose end negative positions count; None if unknown."""
    first: int = 0
    """Absolute position of the first token of the step."""
    n_seen: int = 0

    def step(self, n: int) -> None:
        """Starts a step of `n` tokens: those after the ones seen so far, or all of them again."""
        self.first, self.n_seen = (0, n) if n > self.n_seen else (self.n_seen, self.n_seen + n)

    def indices(self, chosen: Any, size: int) -> list[int]:
        """Converts absolute positions to indices of a value with `size` positions.

        >>> TokenWindow(3, first=3).indices([1, 3, -1], 1), TokenWindow(3, first=0).indices(slice(-2, None), 5)
        ([0], [1, 2, 3, 4])
        """
        wanted = self._bounds(chosen) if isinstance(chosen, slice) else [self._absolute(each) for each in chosen]
        return [place for place in range(size) if place + self.first in wanted]

    def overlay(self, new: Tensor, value: Tensor) -> Tensor:
        """The value, with the tokens of `new` at the same absolute positions; unchanged beyond the end of `new`."""
        size, other = value.shape[-2], new.shape[-2]
        n = max(0, min(size, other - self.first))
        shape = [*value.shape[:-2], n, value.shape[-1]]
        part = new[..., self.first : self.first + n, :].expand(shape)
        return torch.cat([part, value[..., n:, :]], dim=-2)

    def _absolute(self, position: int) -> int:
        if position >= 0:
            return position
        if self.n_given is None:
            raise EditError(
                f"position {position}: encoder and decoder have different lengths; count from 0 during generation."
            )
        if position < -self.n_given:
            raise EditError(f"position {position}: the prompt has {self.n_given} tokens, and -1 is the last one.")
        return position + self.n_given

    def _bounds(self, chosen: slice) -> range:
        start = 0 if chosen.start is None else self._absolute(int(chosen.start))
        # Beyond the end of any text.
        stop = 2**31 if chosen.stop is None else self._absolute(int(chosen.stop))
        step = 1 if chosen.step is None else int(chosen.step)
        if step < 1:
            raise EditError(f"positions={chosen}: the step must be positive during generation.")
        return range(start, stop, step)


_current: ContextVar[TokenWindow | None] = ContextVar("token_window", default=None)


def current_token_window() -> TokenWindow | None:
    """The slice of the current step; None outside generation, where positions are indices of the value."""
    return _current.get()


@contextmanager
def token_window(n_given: int | None) -> Iterator[TokenWindow]:
    """Context manager: positions of edits are absolute positions of a text; a step moves the slice."""
    window = TokenWindow(n_given)
    token = _current.set(window)
    try:
        yield window
    finally:
        _current.reset(token)


@contextmanager
def generation_window(model: nn.Module, n_given: int | None) -> Iterator[None]:
    """The same during `model.generate`: each forward call starts a step."""

    def begins(_: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        ids = given.get("decoder_input_ids", given.get("input_ids", args[0] if args else None))
        if isinstance(ids, Tensor) and not in_hidden_run():
            window.step(int(ids.shape[-1]))

    with token_window(n_given) as window:
        handle = before_call(model, begins, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()
