"""Gradients of a recorded step: `grad`, `grad/<loss>` per loss, and `inner_grad`.

`grad` is the sum over all `backward()` calls of the step, like `tensor.grad` after `retain_grad()`. A sum needs a copy
of the first gradient. The copy is made only where more may come: for a retained graph, and for leaves.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from cutaway.recording.error_guard import ErrorGuard
from cutaway.recording.hooks.backward_calls import BackwardCall, BackwardCalls
from cutaway.recording.tensors import RecordedTensor, StepTensors
from cutaway.store.format.records import GRAD, INNER_GRAD

_UNKNOWN = (
    "gradients of a backward pass were not recorded: Cutaway cannot tell whether backward() or "
    "torch.autograd.grad() started it, for example if C++ code did"
)
_BATCHED = "gradients of torch.autograd.grad(is_grads_batched=True) were not recorded: one tensor holds many"
_TOO_LARGE = (
    "gradients that may come in several backward() calls (retain_graph=True, run.gradients) were not recorded: "
    "the copies needed to sum them are larger than most_update_bytes"
)

_Key = tuple[RecordedTensor, str]
"""The tensor, and the name of its gradient."""


@dataclass(slots=True)
class _Sum:
    """The partial sum of a gradient that may come in several calls."""

    total: Tensor
    is_shared: bool
    """Whether another sum refers to the same tensor."""


@dataclass(slots=True)
class Arrival:
    """A gradient that has arrived, and under which circumstances."""

    grad: Tensor
    call: BackwardCall | None
    loss: str
    is_part: bool = False
    """Whether an extra pass of the recorder itself has computed it."""
    version: int | None = None
    """The version counter of the gradient, if it is held."""


class Gradients:
    """Records gradients as they arrive.

    Args:
        guard: calls a function and lets no exception out.
        most_bytes: sums that need more memory than this are not recorded.
    """

    def __init__(self, tensors: StepTensors, guard: ErrorGuard, *, most_bytes: int) -> None:
        self.loss = ""
        """The loss whose backward pass runs now; "" if the user has not named one."""
        self.notes: dict[str, None] = {}
        """What was not recorded and why, each message once (a dict used as an ordered set)."""
        self._tensors = tensors
        self._guard = guard
        self._most_bytes = most_bytes
        self._n_bytes = 0
        self.calls = BackwardCalls(get_ident())
        self.on_first: Callable[[Tensor], None] = lambda parameter: None
        """Callback: the first gradient of the step arrives at this parameter."""
        self._has_arrived = False
        self._handles: list[Any] = []
        self._hooks: list[OrderedDict[Any, Any]] = []
        """The `_backward_hooks` of tensors that have a hook without a handle."""
        self._parameters: list[Tensor] = []
        """Parameters that have a hook."""
        self._direct: list[tuple[RecordedTensor, str, RecordedTensor]] = []
        """Gradients recorded on arrival, without a sum: tensor, name, record of the gradient."""
        self._sums: dict[_Key, _Sum | None] = {}
        """None for a gradient that cannot be summed."""
        self._sums_recomputed = False
        """Whether recomputed tensors get gradients in several calls, each time as another tensor."""
        self._too_large: set[_Key] = set()
        """Sums that would need too much memory."""
        self.reached: set[int] = set()
        """Ids of the parameters that a gradient has reached."""
        self._dropped: set[str] = set()
        """Names of gradients that are incomplete, so that none of them is recorded."""
        self._part: BackwardCall | None = None
        """Set during an extra pass of the recorder itself: the call of the program that it stands for."""

    # hooks

    def hook_gradient(self, tensor: Tensor, record: RecordedTensor) -> None:
        """Record each gradient of a tensor until `remove_hooks`."""
        self.hook(tensor, OutputHook(self, record, tensor.is_leaf))

    def hook(self, tensor: Tensor, arrived: Callable[[Tensor | None], None]) -> None:
        """Call a function with each gradient of a tensor until `remove_hooks`."""
        grad_fn = tensor.grad_fn
        if type(tensor) is Tensor and grad_fn is not None and tensor._backward_hooks is None:
            # Does what `register_hook` does for the first hook, without creating a handle, which costs more than the
            # rest.
            hooks: Any = OrderedDict()
            tensor._backward_hooks = hooks
            grad_fn._register_hook_dict(tensor)  # type: ignore[attr-defined]
            hooks[self] = arrived
            self._hooks.append(hooks)
        else:
            self._handles.append(tensor.register_hook(arrived))  # type: ignore[no-untyped-call]

    def hook_parameter(self, parameter: Tensor, record: RecordedTensor, *, is_summed: bool) -> None:
        """Record gradients that flow into a parameter, except parts of the `grad` that the optimizer reads.

        Args:
            is_summed: whether to sum `grad` as well, because perhaps no optimizer will read it.
        """
        self._hook_leaf(parameter, ParameterHook(self, parameter, record, is_summed))

    def watch_parameter(self, parameter: Tensor) -> None:
        """Record nothing, but learn of the backward pass."""

        def arrived(grad: Tensor | None) -> None:
            self._note_arrival(parameter)

        self._hook_leaf(parameter, arrived)

    def _note_arrival(self, parameter: Tensor) -> BackwardCall | None:
        call = self.calls.current()
        if not self._has_arrived and call is not None and call.accumulates:
            self._has_arrived = True
            self._guard(self.on_first, parameter)
        return call

    def _hook_leaf(self, parameter: Tensor, arrived: Callable[[Tensor | None], None]) -> None:
        # Does what `register_hook` does for a leaf, without creating a handle, which costs more than the rest.
        hooks: Any = parameter._backward_hooks
        if hooks is None:
            hooks = parameter._backward_hooks = OrderedDict()
        hooks[self] = arrived
        self._parameters.append(parameter)

    @property
    def n_handles(self) -> int:
        """Number of hooks that were registered with a handle."""
        return len(self._handles)

    @property
    def n_hooks(self) -> int:
        """Number of tensors and parameters that have a hook."""
        return len(self._handles) + len(self._hooks) + len(self._parameters)

    def is_own(self, key: object) -> bool:
        """Whether a key of `tensor._backward_hooks` is one of these hooks."""
        return key is self or any(handle.id == key for handle in self._handles)

    @contextmanager
    def part_of(self, loss: str, *, retain_graph: bool) -> Iterator[None]:
        """Context manager around an extra pass: its gradients are recorded as `grad/<loss>` and as nothing else.

        Args:
            retain_graph: whether another backward pass of the program may use the graph.
        """
        before, self.loss = self.loss, loss
        self._part = BackwardCall(accumulates=True, retains_graph=retain_graph)
        try:
            yield
        except Exception:
            self._drop(f"{GRAD}/{loss}")  # a part that is incomplete
            raise
        finally:
            self.loss, self._part = before, None

    def _drop(self, name: str) -> None:
        """Record no gradient of this name."""
        self._dropped.add(name)
        self._tensors.drop({derived for _, of, derived in self._direct if of == name})
        self._direct = [each for each in self._direct if each[1] != name]
        self._sums.update({key: None for key in self._sums if key[1] == name})

    def remove_hooks(self) -> None:
        """Remove all hooks."""
        while self._handles:
            self._handles.pop().remove()
        while self._hooks:
            self._hooks.pop().pop(self, None)
        with torch._C.DisableTorchFunction():
            while self._parameters:
                parameter = self._parameters.pop()
                hooks: Any = parameter._backward_hooks or {}
                hooks.pop(self, None)
                if not hooks:
                    parameter._backward_hooks = None  # torch would check an empty dict in every later backward pass

    # arrival

    def arrival(self, grad: Tensor) -> Arrival:
        """A gradient that arrives now, with what is known only now: the call and the loss."""
        if is_batched(grad):
            self.notes[_BATCHED] = None
        if self._part is not None:
            return Arrival(grad, self._part, self.loss, is_part=True)
        return Arrival(grad, self.calls.current(), self.loss)

    def _add(self, grad: Tensor, record: RecordedTensor, names: list[str], is_leaf: bool) -> None:
        self.add_arrival(self.arrival(grad), record, names, is_leaf)

    def _add_output(self, grad: Tensor, record: RecordedTensor, is_leaf: bool) -> None:
        call = None if is_leaf or self.loss or self._part is not None or self._sums else self.calls.current()
        is_single = call is not None and call.accumulates and not call.retains_graph
        if is_single and not record.is_recomputed and not is_batched(grad):
            # What nearly all gradients are: the only one of its tensor. It takes the shortest way.
            self._direct.append((record, GRAD, self._tensors.add_derived(grad, record, GRAD)))
        else:
            self._add(grad, record, [GRAD], is_leaf)

    def add_arrival(self, arrival: Arrival, record: RecordedTensor, names: list[str], is_leaf: bool) -> None:
        """Record a gradient, now or after it arrived."""
        grad, call = arrival.grad, arrival.call
        if call is None:
            self.notes[_UNKNOWN] = None
        elif is_batched(grad):
            self.notes[_BATCHED] = None
        elif not call.accumulates:
            self._direct.append((record, INNER_GRAD, self._tensors.add_derived(grad, record, INNER_GRAD)))
        else:
            names = [] if arrival.is_part else names
            part = f"{GRAD}/{arrival.loss}" if arrival.loss else ""
            names = [*names, part] if part and part not in self._dropped else names
            if record.is_recomputed and call.retains_graph:
                self._sums_recomputed = True
            may_repeat = is_leaf or call.retains_graph or (record.is_recomputed and self._sums_recomputed)
            summed = [name for name in names if may_repeat or (record, name) in self._sums]
            self._add_to_sums(grad, record, summed)
            self._add_direct(grad, record, [name for name in names if name not in summed])

    def _add_direct(self, grad: Tensor, record: RecordedTensor, names: list[str]) -> None:
        first: RecordedTensor | None = None
        for name in names:
            if first is None:
                first = derived = self._tensors.add_derived(grad, record, name)
            else:
                derived = self._tensors.add_same(first, record, name)
            self._direct.append((record, name, derived))

    def _add_to_sums(self, grad: Tensor, record: RecordedTensor, names: list[str]) -> None:
        """Add to the sums of these names; sums that start with this gradient share one copy of it."""
        copy: Tensor | None = None
        for name in names:
            key = (record, name)
            known, is_new = self._sums.get(key), key not in self._sums
            if known is None and not is_new:
                continue
            self._sums[key] = None  # if the next lines fail, a partial sum must not be recorded
            needs_memory = copy is None if known is None else known.is_shared
            n_bytes = self._n_bytes + (_n_bytes(grad) if needs_memory else 0)
            if n_bytes > self._most_bytes:
                self._too_large.add(key)
                continue
            self._n_bytes = n_bytes
            if known is not None:
                self._sums[key] = _Sum(_sum(known.total, grad.detach()), is_shared=False)
            else:
                # A copy: the engine, custom functions and user hooks may write into the gradient.
                copy = grad.detach().clone() if copy is None else copy
                self._sums[key] = _Sum(copy, is_shared=len(names) > 1)

    # end of the step

    def take_sum(self, record: RecordedTensor, *, is_needed: bool) -> Tensor | None:
        """Remove and return the sum of a parameter's `grad`; None if there is none.

        Args:
            is_needed: False if its `.grad` was read, so that a missing sum is no loss.
        """
        known = self._sums.pop((record, GRAD), None)
        if not is_needed:
            self._too_large.discard((record, GRAD))
        if known is None:
            return None
        if not known.is_shared:
            self._n_bytes -= _n_bytes(known.total)
        return known.total

    def finish(self) -> None:
        """Record the sums, and assign gradients of recomputed tensors to the tensors they belong to."""
        if self._too_large:
            self.notes[_TOO_LARGE] = None
        self._tensors.match_recomputed()
        if not self._sums and self._is_each_single():
            for source, _, derived in self._direct:
                derived.key = source.key  # the user may have given it a role since
            self._direct.clear()
            return
        lost: set[RecordedTensor] = set()
        direct: dict[_Key, list[RecordedTensor]] = {}
        for source, name, derived in self._direct:
            owner = self._owner(source)
            if owner is None:
                lost.add(derived)
            elif name == INNER_GRAD:
                self._tensors.reassign(derived, owner, name)
            else:
                direct.setdefault((owner, name), []).append(derived)
        sums = self._owned_sums()
        for key, parts in direct.items():
            if len(parts) == 1 and key not in sums:
                self._tensors.reassign(parts[0], *key)
                continue
            lost.update(parts)
            if sums.pop(key, parts[0]) is not None:  # else there is a note already
                self._note_lost(key[0], "it came in several backward() calls, and the graph was not retained")
        self._tensors.drop(lost)
        self._add_sums({key: total for key, total in sums.items() if total is not None})
        self._direct.clear()
        self._sums.clear()

    def _is_each_single(self) -> bool:
        """Whether every recorded gradient is the only one of its tensor and name, and of no recomputed tensor."""
        direct = self._direct
        return not any(source.is_recomputed or name == INNER_GRAD for source, name, _ in direct) and len(
            {(id(source), name) for source, name, _ in direct}
        ) == len(direct)

    def _owner(self, source: RecordedTensor) -> RecordedTensor | None:
        owner = self._tensors.owner(source)
        if owner is None:
            reason = "it came inside a checkpoint, and which pass of the module it belongs to is ambiguous"
            self._note_lost(source, reason)
        return owner

    def _owned_sums(self) -> dict[_Key, Tensor | None]:
        """The sums by the tensor they belong to; sums of several recomputations of one tensor are added."""
        sums_by_owner: dict[_Key, Tensor | None] = {}
        for (source, name), known in self._sums.items():
            owner = self._owner(source)
            if owner is None:
                continue
            key = (owner, name)
            other = sums_by_owner.get(key)
            if known is None or (key in sums_by_owner and other is None):
                sums_by_owner[key] = None
            else:
                sums_by_owner[key] = known.total if other is None else _sum(other, known.total)
        return sums_by_owner

    def _add_sums(self, sums: dict[_Key, Tensor]) -> None:
        derived: dict[tuple[int, int], RecordedTensor] = {}
        with self._tensors.deferred():
            for (owner, name), total in sums.items():
                same = derived.get((id(owner), id(total)))
                if same is not None and same.number >= 0:
                    self._tensors.add_same(same, owner, name)
                else:
                    derived[id(owner), id(total)] = self._tensors.add_derived(coalesce_sparse(total), owner, name)

    def _note_lost(self, record: RecordedTensor, reason: str) -> None:
        self.notes[f"the gradient of {self._tensors.site(record.key)!r} was not recorded: {reason}"] = None


class OutputHook:
    """The gradient hook of a tensor.

    An object and not a closure: a closure with its cells is six objects for the garbage collector to count.
    """

    __slots__ = ("_gradients", "_is_leaf", "_record")

    def __init__(self, gradients: Gradients, record: RecordedTensor, is_leaf: bool) -> None:
        self._gradients = gradients
        self._record = record
        self._is_leaf = is_leaf

    def __call__(self, grad: Tensor | None) -> None:
        if grad is not None:  # None for an output of a compiled program that the loss does not use
            gradients = self._gradients
            gradients._guard(gradients._add_output, grad, self._record, self._is_leaf)


class ParameterHook:
    """The gradient hook of a parameter."""

    __slots__ = ("_gradients", "_is_summed", "_parameter", "_record")

    def __init__(self, gradients: Gradients, parameter: Tensor, record: RecordedTensor, is_summed: bool) -> None:
        self._gradients = gradients
        self._parameter = parameter
        self._record = record
        self._is_summed = is_summed

    def __call__(self, grad: Tensor | None) -> None:
        if grad is None:
            return
        gradients, is_summed = self._gradients, self._is_summed
        gradients.reached.add(id(self._parameter))
        call = gradients._note_arrival(self._parameter)
        if gradients.loss or is_summed or call is None or not call.accumulates:
            gradients._guard(gradients._add, grad, self._record, [GRAD] if is_summed else [], True)


def _sum(total: Tensor, grad: Tensor) -> Tensor:
    return grad + total if total.is_sparse else total + grad  # sparse + dense is not implemented, dense + sparse is


def _n_bytes(grad: Tensor) -> int:
    return grad._values().nbytes + grad._indices().nbytes if grad.is_sparse else grad.nbytes


def coalesce_sparse(grad: Tensor) -> Tensor:
    """Coalesce a sparse gradient: a row that was looked up twice has two entries."""
    return grad.coalesce() if grad.is_sparse and not grad.is_coalesced() else grad


def is_batched(grad: Tensor) -> bool:
    """Whether it is a wrapper inside vmap that stands for many gradients."""
    return bool(
        torch._C._functorch.is_functorch_wrapped_tensor(grad) or torch._C._functorch.is_legacy_batchedtensor(grad)
    )
