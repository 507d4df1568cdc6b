"""Records how a model was called, so that it can be called again."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from cutaway.capture import sessions
from cutaway.capture.function_mode import copy_containers
from cutaway.capture.model.attributes import AttributeSnapshot, snapshot_attributes
from cutaway.capture.model.rng_state import RngStates, current_context
from cutaway.capture.tensors.aliasing import version_of
from cutaway.core.events import Context
from cutaway.core.pytree import leaves

ArgumentTensors = tuple[list[tuple[str, Tensor]], list[tuple[str, Tensor]]]


@dataclass(slots=True)
class Recipe:
    """One call of a model: created when it begins, completed when the block ends."""

    model: Callable[[], nn.Module | None]
    """Returns the model; None if it has been garbage-collected."""
    args: Any
    kwargs: Any
    tensors: dict[str, tuple[Tensor, int | None]]
    """Every tensor in the arguments by path, with its version counter."""
    training: bool
    context: Context
    rng_states: RngStates
    is_edited: bool = False
    """Whether an edit was active during the run."""
    buffers: tuple[tuple[Callable[[], nn.Module | None], str, Callable[[], Tensor | None]], ...] = ()
    """Every buffer before the run: (module, name, tensor), as weak references."""
    parameters: tuple[tuple[Callable[[], Tensor | None], int | None], ...] = ()
    """Every parameter that was read, with its version counter after the run."""
    attributes: tuple[AttributeSnapshot, ...] = ()
    """Other attributes of the modules before the run."""

    @staticmethod
    def of(model: nn.Module, args: Any, kwargs: Any, arguments: ArgumentTensors) -> Recipe | None:
        """Records a call; None if the keyword arguments are not known.

        Args:
            arguments: the tensors in the positional and in the keyword arguments, by path.
        """
        if kwargs is None:
            return None
        tensors = {
            f"{i}.{path}": (tensor, version_of(tensor)) for i, some in enumerate(arguments) for path, tensor in some
        }
        # The forward may modify the lists and dicts it is given; their tensors are checked by version.
        given = tuple([copy_containers(value) for value in args])
        edited = bool(sessions.edits)
        # This is part of the fixed cost of every trace: NumPy's own getter takes 75 µs.
        now = RngStates.now_fast()
        recipe = Recipe(
            weakref.ref(model), given, copy_containers(kwargs), tensors, model.training, current_context(), now, edited
        )
        recipe.attributes = snapshot_attributes(model)
        return recipe

    def complete(self, buffers: list[tuple[nn.Module, str, Tensor]], sources: Iterable[Any], *, holding: bool) -> None:
        """Records the buffers before the run and the parameters it read; `holding` keeps the model alive.

        A trace that holds every parameter by reference can hold the model, too.
        """
        if buffers:
            self.buffers = tuple((weakref.ref(module), name, weakref.ref(tensor)) for module, name, tensor in buffers)
        self.parameters = tuple((ref, version_of(t)) for ref in sources if isinstance(t := ref(), nn.Parameter))
        if holding:
            model = self.model()
            self.model = lambda: model


def tensors_of(args: Any, kwargs: Any) -> list[tuple[str, Tensor]]:
    """Every tensor in the arguments, also in objects: "0.0" is the first positional one, "1.mask" a keyword."""
    return list(leaves((args, kwargs), lambda value: isinstance(value, Tensor)))
