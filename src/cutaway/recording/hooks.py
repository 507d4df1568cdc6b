"""The hooks of one recorded step: results of modules, gradients, what the optimizer reads and changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from cutaway.capture.module_hooks import tensors_in
from cutaway.core.errors import SiteError
from cutaway.core.formatting import nearest
from cutaway.core.sites import Site
from cutaway.core.units.layout import UnitLayout
from cutaway.recording import optimizers
from cutaway.recording.autograd_graph import AutogradGraph
from cutaway.recording.error_guard import Guard
from cutaway.recording.gradients import Gradients, coalesced
from cutaway.recording.models import Held, Subjects
from cutaway.recording.module_calls import WatchedCalls
from cutaway.recording.recorded_units import RecordedUnits
from cutaway.recording.tensors import Place, Sighting, Sightings
from cutaway.store.format.records import GRAD, UPDATE, VALUE

_NO_UPDATES = "updates are left out: the copy they need is larger than most_update_bytes"


class Observer:
    """Watches one step. Everything is switched off again by `stop`, whatever happened in between."""

    def __init__(
        self,
        subjects: Subjects,
        sightings: Sightings,
        wanted: Wanted,
        guard: Guard,
        *,
        units: RecordedUnits,
        most_update_bytes: int,
    ) -> None:
        self.sightings = sightings
        self._units = units
        self.returned: Callable[[], None] = lambda: None
        """Called when a model has returned."""
        self._subjects = subjects
        self._wanted = wanted
        self._guard = guard
        self._most_update_bytes = most_update_bytes
        self._thread = get_ident()
        self._calls = WatchedCalls(self._entered, self._left, guard.trouble)
        self._held = {id(held.tensor): held for held in subjects.held}
        self._parameters: dict[int, Sighting] = {}
        """Parameters by their id, with the names under which their gradients came so far."""
        self._unfollowed = [held for held in subjects.held if not held.is_buffer]
        """Parameters whose gradients nobody waits for yet."""
        self.gradients = Gradients(sightings, guard, most_bytes=most_update_bytes)
        self._read: set[int] = set()
        self._before: dict[int, Tensor] = {}
        self.autograd: AutogradGraph | None = None
        """Notes where the tensors stand in autograd's graph, where that is wanted."""
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out and why, in words."""
        return (*self._notes, *self.gradients.notes)

    # switching on and off

    def start(self) -> None:
        """Switch everything on."""
        self._calls.start(module for module, _ in self._subjects.modules.values())
        optimizers.watch(self)
        self.follow_parameters()

    def stop(self) -> None:
        """Switch everything off; calling it again does nothing."""
        optimizers.unwatch(self)
        self._calls.stop()
        self.gradients.release()
        self.sightings.forget_tensors()
        self._before.clear()

    # modules

    def _is_watched(self) -> bool:
        """Whether what runs now belongs to the step: other threads do not, those of the backward pass do."""
        return (get_ident() == self._thread or _in_backward()) and torch._C._get_tracing_state() is None

    def _entered(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        is_root = id(module) in self._subjects.roots
        if (is_root or self._wanted.inputs) and self._is_watched() and not _in_backward():
            self._guard(self._see_inputs, module, args, kwargs, is_root)

    def _see_inputs(self, module: nn.Module, args: Any, kwargs: Any, is_root: bool) -> None:
        given = [*tensors_in(args, is_root), *tensors_in(kwargs, is_root)]
        if is_root:
            self.follow_parameters()
            self.sightings.keeper.learn(tensor for _, tensor in given)
        address = self._subjects.modules[id(module)][1][0]
        pass_ = self.sightings.n_passes(address) + 1
        overall = self.sightings.overall(address) + 1
        role = "input" if is_root else "value"
        for path, tensor in given:
            place = Place(f"{address}@in.{path}", address, pass_, self.sightings.iteration, role, overall=overall)
            layout = self._layout(place, tensor, None, path)
            if is_root:
                self.sightings.keeper.count(layout)
            self._see(tensor, place, layout=layout)

    def _left(self, module: nn.Module, result: Any) -> None:
        if self._is_watched():
            self._guard(self._leave, module, result)

    def _leave(self, module: nn.Module, result: Any) -> None:
        address, *others = self._subjects.modules[id(module)][1]
        is_root = id(module) in self._subjects.roots
        results = tensors_in(result, is_root)
        if _in_backward():
            self._recompute(address, results)
            return
        pass_ = self.sightings.next_pass(address)
        overall = self.sightings.overall(address)
        for path, tensor in results:
            end = f"@out.{path}" if path else ""
            role = "loss" if tensor.dim() == 0 and tensor.requires_grad and is_root else "value"
            place = Place(address + end, address, pass_, self.sightings.iteration, role, overall=overall)
            names = [f"{other}{end}" for other in others]
            self._see(tensor, place, names, is_result=is_root, layout=self._layout(place, tensor, module, path))
        if is_root:
            self.returned()

    def _layout(self, place: Place, tensor: Tensor, module: nn.Module | None, path: str) -> UnitLayout | None:
        """Which dimensions of a tensor count units and samples, as far as it is known now."""
        units, batch_size = self._units, self.sightings.keeper.batch_size
        layout = units.find(place.base, place.overall, tensor, batch_size if units.is_traced else None)
        if layout is None and self.sightings.waiting is None and not units.is_traced:
            if module is not None:
                layout = units.alone(module, path, tensor, batch_size)
            else:
                layout = units.with_samples(None, tensor, units.batch_dim or 0, batch_size)
        return layout if self.sightings.waiting is not None else units.as_stated(place.base, layout, tensor)

    def _see(
        self,
        tensor: Tensor,
        place: Place,
        others: Iterable[str] = (),
        *,
        is_result: bool = False,
        layout: UnitLayout | None = None,
    ) -> None:
        if not self._wanted.covers(place.base, place.pass_) or _is_transformed(tensor):
            return
        sighting, is_new = self.sightings.see(tensor, place, others, layout=layout)
        if is_new:
            self.follow(tensor, sighting)
        if self.autograd is not None:
            self.autograd.note(sighting, tensor, is_result=is_result)

    def held_names(self) -> dict[int, str]:
        """The names of the parameters and buffers by their id."""
        return {id_: held.names[0] for id_, held in self._held.items()}

    def parameter_names(self) -> dict[int, str]:
        """The names of the parameters by their id."""
        return {id_: held.names[0] for id_, held in self._held.items() if not held.is_buffer}

    def follow(self, tensor: Tensor, sighting: Sighting) -> None:
        """Wait for the gradient of a tensor, if it can have one."""
        if self._wanted.gradients and tensor.requires_grad and id(tensor) not in self._held:
            self.gradients.follow(tensor, sighting)

    def _recompute(self, address: str, results: list[tuple[str, Tensor]]) -> None:
        """A forward that a checkpoint runs again: only gradients that the first run could not have are new."""
        for path, tensor in results:
            base = f"{address}@out.{path}" if path else address
            if self._wanted.gradients and tensor.requires_grad and not _is_transformed(tensor):
                again = self.sightings.again(tensor, base)
                if again is not None:
                    self.follow(tensor, again)

    # parameters

    def follow_parameters(self) -> None:
        """Wait for the gradients of parameters; again if some require gradients only since a moment ago."""
        if self._wanted.gradients and self._unfollowed:
            waiting, self._unfollowed = self._unfollowed, []
            for held in waiting:
                if not held.tensor.requires_grad:
                    self._unfollowed.append(held)
                elif held.tensor.is_leaf and self._wanted.covers_held(held.names[0]):
                    self.gradients.follow_parameter(held.tensor, self._parameter(held))

    def _parameter(self, held: Held) -> Sighting:
        found = self._parameters.get(id(held.tensor))
        if found is None:
            place = Place(held.names[0], role="buffer" if held.is_buffer else "parameter")
            layout = self._subjects.layout_of(held) or self._units.find(place.base, 1, held.tensor)
            aliases = [Place(name) for name in held.names[1:]]
            found = Sighting(place, VALUE, -1, aliases=aliases, is_kept=False, layout=layout)
            self._parameters[id(held.tensor)] = found
        return found

    def before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """An optimizer is about to make a step."""
        self._guard(self._read_parameters, optimizer, args, kwargs)

    def _read_parameters(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread:
            return
        has_closure = _has_closure(args, kwargs)
        mine = self._held_by(optimizer)
        scale = getattr(optimizer, "grad_scale", None)
        with self.sightings.together():
            for held in mine:
                self._read_value(held)
                if not has_closure:
                    self._read_gradient(held, scale)
        if self._wanted.updates:
            self._copy(mine)

    def _held_by(self, optimizer: Optimizer) -> list[Held]:
        tensors = (tensor for group in optimizer.param_groups for tensor in group["params"])
        found = [self._held[id(tensor)] for tensor in tensors if id(tensor) in self._held]
        return [held for held in found if self._wanted.covers_held(held.names[0])]

    def _copy(self, held: list[Held]) -> None:
        some = [one for one in held if one.tensor.requires_grad]
        if sum(one.tensor.nbytes for one in some) > self._most_update_bytes:
            self._notes[_NO_UPDATES] = None
            return
        for one in some:
            self._before[id(one.tensor)] = _local(one.tensor).clone()

    def after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        """It has made it."""
        self._guard(self._read_updates, optimizer, args, kwargs)

    def _read_updates(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() != self._thread:
            return
        has_closure = _has_closure(args, kwargs)
        with self.sightings.together():
            for held in self._held_by(optimizer):
                if has_closure:  # only the closure, which the optimizer has called, has made the gradients
                    self._read_gradient(held, None)
                before = self._before.pop(id(held.tensor), None)
                if before is not None:
                    change = torch.sub(_local(held.tensor), before, out=before)
                    self.sightings.take_of(change, self._parameter(held), UPDATE)

    def _read_value(self, held: Held) -> None:
        if id(held.tensor) not in self._read:
            self._read.add(id(held.tensor))
            self.sightings.take_of(held.tensor.detach(), self._parameter(held), VALUE)

    def _read_gradient(self, held: Held, scale: Any) -> None:
        grad = held.tensor.grad if self._wanted.gradients and not held.is_buffer and held.tensor.is_leaf else None
        if grad is None:
            return
        grad = coalesced(grad.detach())
        if isinstance(scale, Tensor):
            grad = grad.to(torch.promote_types(grad.dtype, torch.float32)) / scale
        self.sightings.take_of(grad, self._parameter(held), GRAD)

    def read_rest(self) -> None:
        """At the end of the step: what no optimizer has read."""
        with self.sightings.together():
            for held in self._subjects.held:
                if self._wanted.covers_held(held.names[0]):
                    if id(held.tensor) not in self._read:
                        self._guard(self._read_value, held)
                    if GRAD not in self._parameter(held).taken:
                        self._guard(self._read_gradient, held, None)


class Wanted:
    """Which sites are recorded, and what of them."""

    def __init__(
        self, at: Iterable[Site], *, gradients: bool = True, updates: bool = True, parameters: bool = True
    ) -> None:
        self._patterns = list(at)
        self.parameters = parameters
        self.gradients = gradients
        self.updates = updates
        self.inputs = any(pattern.side == "in" for pattern in self._patterns)
        self._has_passes = any(pattern.pass_ is not None for pattern in self._patterns)
        self._known: dict[str, bool] = {}
        self._unmet = [pattern for pattern in self._patterns if pattern.op is None and pattern.name is None]

    def covers_held(self, name: str) -> bool:
        """Whether a parameter or buffer is recorded."""
        return self.parameters and self.covers(name)

    def covers(self, site: str, pass_: int = 1) -> bool:
        """Whether a site is recorded; all are if no pattern was given."""
        if not self._patterns:
            return True
        key = f"{site}:{pass_}" if self._has_passes and pass_ > 1 else site
        found = self._known.get(key)
        if found is None:
            parsed = Site.parse(key)
            found = self._known[key] = any(pattern.matches(parsed) for pattern in self._patterns)
            self._unmet = [pattern for pattern in self._unmet if not pattern.matches(parsed)]
        return found

    def check(self) -> None:
        """After a whole step: a pattern that has fitted nothing is a `SiteError`, once."""
        unmet, self._unmet = self._unmet, []
        if unmet:
            near = nearest(str(unmet[0]), self._known)
            hint = f" Nearest: {', '.join(map(repr, near))}." if near else ""
            raise SiteError(f"at={str(unmet[0])!r} fits nothing that the first recorded step has seen.{hint}")


def _has_closure(args: Any, kwargs: Any) -> bool:
    """Whether the optimizer is to compute the loss by itself; its arguments begin with itself."""
    return any(one is not None for one in (*args[1:], kwargs.get("closure")))


def _local(tensor: Tensor) -> Tensor:
    """The numbers of a parameter; of one that is spread over several ranks, those that are here."""
    local: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor  # type: ignore[operator]
    return local.detach()


def _is_transformed(tensor: Tensor) -> bool:
    """Whether it only stands for a tensor, inside vmap, grad or another function transform."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
