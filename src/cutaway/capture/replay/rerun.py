"""Reruns a traced model with the same arguments, buffers and random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from cutaway.capture.model.attributes import CannotRestore
from cutaway.capture.model.eval_mode import preserve_state
from cutaway.capture.model.rng_state import preserve_rng, restore_context
from cutaway.capture.patches.eager import force_eager
from cutaway.capture.replay.call import generators_of
from cutaway.capture.replay.recipe import Recipe, tensors_of
from cutaway.capture.tensors.aliasing import version_of
from cutaway.core.pytree import leaves, replace
from cutaway.graph.op import Op, is_freed
from cutaway.graph.trace import Trace

_PLAIN = (Tensor, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, list, tuple, dict)


class CannotRun(Exception):
    """The model cannot be rerun in its original state; the message completes "the model was not run again: …"."""


@contextmanager
def original_state(trace: Trace) -> Iterator[tuple[nn.Module, Any, Any]]:
    """Context manager: yields the model and its arguments as they were before the traced run, then restores the model.

    Raises `CannotRun` if something the run depended on is gone.
    """
    recipe = trace.tables.recipe
    model = recipe.model() if isinstance(recipe, Recipe) else None
    if model is None:
        raise CannotRun("the call of the model was not recorded" if recipe is None else "the model no longer exists")
    if recipe.is_edited:
        raise CannotRun("an edit was active during the run")
    # The recipe describes the first call only.
    if sum(row.is_root for row in trace.tables.calls) != 1:
        raise CannotRun("the block ran the model more than once")
    if model.training != recipe.training:
        raise CannotRun(f"the model was in {'training' if recipe.training else 'eval'} mode during the run")
    _check_submodules(recipe)
    _check_parameters(trace, model, recipe)
    args, kwargs = _arguments(trace, recipe)
    generators = generators_of(trace.tables)
    core: nn.Module = getattr(model, "_orig_mod", model)
    now = preserve_state(core, warns=False)  # `_state` restores the tensors that the run is known to write to
    with (
        preserve_rng(*generators),
        now,
        _state(trace, recipe) as restored,
        restore_context(recipe.context),
    ):
        try:
            for noted in recipe.attributes:
                noted.restore(restored)
        except CannotRestore as changed:
            raise CannotRun(f"the run changed {changed}, and the earlier state was not saved") from None
        for generator, state in generators.items():
            generator.set_state(state)
        recipe.rng_states.restore()
        # Setting the stance imports the compiler, which takes seconds.
        with force_eager() if trace.is_compiled else nullcontext():
            yield model, args, kwargs


def _check_submodules(recipe: Recipe) -> None:
    try:
        for noted in recipe.attributes:
            noted.check_submodules()
    except CannotRestore as changed:
        raise CannotRun(f"{changed} was removed or replaced during the run or after it") from None


def _check_parameters(trace: Trace, model: nn.Module, recipe: Recipe) -> None:
    """Raises if a parameter has changed since the run."""
    present = {id(parameter) for parameter in model.parameters()}
    written = {id(ref()) for ref in recipe.written.values()}
    for ref, version in recipe.parameters:
        tensor = ref()
        if tensor is None or (id(tensor) not in present and tensor.is_leaf and _was_parameter(trace, tensor)):
            raise CannotRun("a parameter was replaced after the run")
        if version_of(tensor) != version and id(tensor) not in written:
            raise CannotRun("a parameter was changed after the run")


def _was_parameter(trace: Trace, tensor: Tensor) -> bool:
    """Whether a parameter belonged to the model during the run."""
    rows = {row.node: row for row in trace.tables.parameters}
    values = trace.tables.nodes.value
    return any(values[node] is tensor for node in rows if node >= 0)


def _arguments(trace: Trace, recipe: Recipe) -> tuple[Any, Any]:
    """The original arguments; a tensor that was overwritten is restored from the trace."""
    given = recipe.args, recipe.kwargs
    if next(leaves(given, lambda value: isinstance(value, torch.Generator)), None):
        raise CannotRun("one of the arguments is a random generator")
    once = next(leaves(given, lambda value: isinstance(value, Iterator)), None)
    if once is not None:
        raise CannotRun(f"its argument {_argument_name(once[0])} is an iterator, which can be read only once")
    now = dict(tensors_of(*given))
    for path in {**recipe.tensors, **now}:
        if path not in recipe.tensors or now.get(path) is not recipe.tensors[path][0]:
            raise CannotRun(f"the run changed its argument {_argument_name(path)}")
    saved = dict(zip(trace.input_paths, trace.inputs, strict=True))
    earlier: dict[int, Tensor] = {}
    written = {id(ref()) for ref in recipe.written.values()}
    for path, (tensor, version) in recipe.tensors.items():
        if version_of(tensor) == version and id(tensor) not in written:
            continue
        op = saved.get(path.partition(".")[2])
        is_plain = next(leaves(given, lambda value: not isinstance(value, _PLAIN)), None) is None
        if op is None or not _is_readable(op) or not is_plain:
            raise CannotRun(f"its argument {_argument_name(path)} was overwritten and the earlier value was not saved")
        earlier[id(tensor)] = op.value.clone().requires_grad_(tensor.requires_grad and tensor.is_leaf)
    if earlier:
        given = replace(given, lambda tensor: earlier.get(id(tensor), tensor), lambda value: isinstance(value, Tensor))
    return given


@contextmanager
def _state(trace: Trace, recipe: Recipe) -> Iterator[set[int]]:
    """Context manager: gives every tensor that the run wrote to its contents before the run, then its present ones.

    Yields the ids of these tensors. Buffers are replaced by copies: the trace may hold them by reference, so they must
    not be written to.
    """
    written = {id(tensor): (tensor, node) for node, ref in recipe.written.items() if (tensor := ref()) is not None}
    standins: dict[int, Tensor] = {}
    places: list[tuple[nn.Module, str, Tensor]] = []
    for module_ref, name, ref in recipe.buffers:
        module, before = module_ref(), ref()
        if module is None or before is None:
            raise CannotRun(f"the run replaced the buffer {name!r}")
        value = _value_before(trace, written[id(before)][1]) if id(before) in written else before
        places.append((module, name, standins.setdefault(id(before), value.detach().clone())))
    arguments = {id(tensor) for tensor, _ in recipe.tensors.values()}
    changed = [
        (tensor, _value_before(trace, node))
        for key, (tensor, node) in written.items()
        if key not in standins and key not in arguments  # `_arguments` passes a copy of an argument
    ]
    for tensor, value in changed:
        if tensor.shape != value.shape:
            raise CannotRun(f"the run changed the shape of a tensor from {list(value.shape)} to {list(tensor.shape)}")
    if any(is_freed(tensor) for tensor, _ in changed):
        raise CannotRun("the memory of a tensor that the run wrote to was freed")
    backups = [(tensor, tensor.detach().clone()) for tensor, _ in changed]
    with ExitStack() as versions:
        for tensor, _ in changed:
            if version_of(tensor) is not None:
                # The contents will be the same again, so values kept by reference must not count as overwritten.
                versions.enter_context(_unsafe_preserve_version_counter(tensor))
        try:
            for module, name, standin in places:
                module._buffers[name] = standin
            for tensor, value in changed:
                tensor.data.copy_(value)
            yield {*written}
        finally:
            for tensor, value in backups:
                tensor.data.copy_(value)


def _value_before(trace: Trace, node: int) -> Tensor:
    """The value of a source before the run."""
    op = Op(trace, node)
    if not _is_readable(op):
        raise CannotRun(f"the run changed {str(op.site) or op.label!r} and the earlier value was not saved")
    value: Tensor = op.value
    return value


def _is_readable(op: Op) -> bool:
    return op.is_saved and not op.trace.tables.is_transformed


def _argument_name(path: str) -> str:
    """The name of an argument for messages: path `0.1` is the second positional argument, `1.mask` the keyword mask."""
    return repr(path.partition(".")[2])
