"""How a model was called, noted when the call begins, so that it can be called once more."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from cutaway.capture import active
from cutaway.capture.aliases import version_of
from cutaway.capture.mode import frozen
from cutaway.capture.states import Randomness, context_now
from cutaway.core.events import Context
from cutaway.core.trees import leaves


@dataclass(frozen=True, slots=True)
class Recipe:
    """The call of a model: made when it begins."""

    model: Callable[[], nn.Module | None]
    """Gives the model; None if it is gone by now."""
    args: Any
    kwargs: Any
    tensors: dict[str, tuple[Tensor, int | None]]
    """Every tensor in the arguments by its path, with the version it had."""
    training: bool
    context: Context
    randomness: Randomness
    is_edited: bool = False
    """Whether the model was edited while it ran."""
    buffers: tuple[tuple[Callable[[], nn.Module | None], str, Callable[[], Tensor | None]], ...] = ()
    """Every buffer before the run: (module, name, tensor), kept alive by nobody here."""
    parameters: tuple[tuple[Callable[[], Tensor | None], int | None], ...] = ()
    """Every parameter that was read, with the version it had afterwards."""

    @staticmethod
    def of(model: nn.Module, args: Any, kwargs: Any) -> Recipe | None:
        """None where the keyword arguments are not known."""
        if kwargs is None:
            return None
        tensors = {path: (tensor, version_of(tensor)) for path, tensor in tensors_of(args, kwargs)}
        return Recipe(
            weakref.ref(model),
            tuple(frozen(value) for value in args),
            frozen(kwargs),
            tensors,
            model.training,
            context_now(),
            Randomness.quickly(),
            is_edited=bool(active.edits),
        )

    def completed(
        self, buffers: list[tuple[nn.Module, str, Tensor]], sources: Iterable[Any], *, holding: bool
    ) -> Recipe:
        """The same, knowing the buffers before the run and the sources it read; `holding` keeps the model alive.

        A trace that holds every parameter by reference may as well hold the model.
        """
        model = self.model()
        places = tuple((weakref.ref(module), name, weakref.ref(tensor)) for module, name, tensor in buffers)
        read = tuple((ref, version_of(t)) for ref in sources if isinstance(t := ref(), nn.Parameter))
        return replace(self, buffers=places, parameters=read, model=(lambda: model) if holding else self.model)


def tensors_of(args: Any, kwargs: Any) -> list[tuple[str, Tensor]]:
    """Every tensor among the arguments, in objects too: "0.0" is the first positional one, "1.mask" one by name."""
    return list(leaves((args, kwargs), lambda value: isinstance(value, Tensor)))
