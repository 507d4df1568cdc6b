"""Where in a text the values of a running model stand.

While a model writes, a step holds only what is new: with a cache the first one has the positions of the prompt, each
later one a single position. Inside `standing` edits count positions over the whole text, whatever a step holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture.sessions import is_hidden
from cutaway.core.errors import EditError

ELSEWHERE = 2**30
"""So many tokens has the prompt of a run on a few tokens that only shows what a model is made of: no position that is
counted from its end is among them."""


@dataclass(slots=True)
class Standing:
    """Where the values of the running step stand in their text."""

    n_given: int | None
    """Tokens of the prompt: from their end negative positions are counted; None where that cannot be told."""
    first: int = 0
    """The position of the first one of the step."""
    n_seen: int = 0

    def step(self, n: int) -> None:
        """A step of so many tokens begins: those behind what was seen, or all of them once more."""
        self.first, self.n_seen = (0, n) if n > self.n_seen else (self.n_seen, self.n_seen + n)

    def here(self, chosen: Any, size: int) -> list[int]:
        """Which places of a value with so many positions are meant.

        >>> Standing(3, first=3).here([1, 3, -1], 1), Standing(3, first=0).here(slice(-2, None), 5)
        ([0], [1, 2, 3, 4])
        """
        wanted = self._bounds(chosen) if isinstance(chosen, slice) else [self._absolute(each) for each in chosen]
        return [place for place in range(size) if place + self.first in wanted]

    def laid(self, new: Tensor, value: Tensor) -> Tensor:
        """The value, with what another text has at the same positions; beyond its end it stays as it is."""
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
                f"position {position}: encoder and decoder have ends of their own; count from 0 while they write."
            )
        if position < -self.n_given:
            raise EditError(f"position {position}: the prompt has {self.n_given} tokens, and -1 is the last of them.")
        return position + self.n_given

    def _bounds(self, chosen: slice) -> range:
        start = 0 if chosen.start is None else self._absolute(int(chosen.start))
        stop = 2**31 if chosen.stop is None else self._absolute(int(chosen.stop))
        step = 1 if chosen.step is None else int(chosen.step)
        if step < 1:
            raise EditError(f"positions={chosen}: steps go forward while a model writes.")
        return range(start, stop, step)


_now: ContextVar[Standing | None] = ContextVar("standing", default=None)


def standing_now() -> Standing | None:
    """Where the values of the running step stand; None where no text is known, and places are meant as they are."""
    return _now.get()


@contextmanager
def standing(n_given: int | None) -> Iterator[Standing]:
    """Inside the block, positions of edits are those of a text; it begins at 0 until a step says otherwise."""
    here = Standing(n_given)
    token = _now.set(here)
    try:
        yield here
    finally:
        _now.reset(token)


@contextmanager
def writing(model: nn.Module, n_given: int | None) -> Iterator[None]:
    """The same, while a model's own `generate` calls the model step by step."""

    def begins(_: nn.Module, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        ids = given.get("decoder_input_ids", given.get("input_ids", args[0] if args else None))
        if isinstance(ids, Tensor) and not is_hidden():
            here.step(int(ids.shape[-1]))

    with standing(n_given) as here:
        handle = model.register_forward_pre_hook(begins, with_kwargs=True)
        try:
            yield
        finally:
            handle.remove()
