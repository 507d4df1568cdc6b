"""The hooks of one recorded step: results of modules, gradients, what the optimizer reads and changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules import module as _torch_module
from torch.optim import Optimizer
from torch.optim import optimizer as _torch_optimizer

from cutaway.capture.calls import keyword_arguments, tensors_in
from cutaway.core.sites import Site
from cutaway.recording.autograd import AutogradGraph
from cutaway.recording.sightings import Place, Sighting, Sightings
from cutaway.recording.subjects import Held, Subjects
from cutaway.store.records import GRAD, UPDATE, VALUE

Guard = Callable[..., None]


class Observer:
    """Watches one step. Everything is switched off again by `stop`, whatever happened in between."""

    def __init__(
        self, subjects: Subjects, sightings: Sightings, wanted: Wanted, guard: Guard, *, most_update_bytes: int
    ) -> None:
        self.sightings = sightings
        self._subjects = subjects
        self._wanted = wanted
        self._guard = guard
        self._most_update_bytes = most_update_bytes
        self._thread = get_ident()
        self._handles: list[Any] = []
        self._swapped: list[nn.Module] = []
        self._own: dict[int, list[Any]] = {}
        self._held = {id(held.tensor): held for held in subjects.held}
        self._read: set[int] = set()
        self._before: dict[int, Tensor] = {}
        self._recomputed: dict[str, int] = {}
        self.autograd: AutogradGraph | None = None
        """Notes where the tensors stand in autograd's graph, where that is wanted."""
        self.loss = ""
        """The name under which gradients are taken now; "" for the usual one."""
        self.skipped_updates = False
        self.recorded_input = False

    # switching on and off

    def start(self) -> None:
        """Switch everything on."""
        if self._subjects.compiled:
            self._hook_instances()
        else:
            self._handles += [
                _torch_module.register_module_forward_pre_hook(self._entered),
                _torch_module.register_module_forward_hook(self._left),
            ]
        self._handles += [
            _torch_optimizer.register_optimizer_step_pre_hook(self._before_step),
            _torch_optimizer.register_optimizer_step_post_hook(self._after_step),
        ]

    def stop(self) -> None:
        """Switch everything off."""
        for handle in (*self._handles, *(handle for handles in self._own.values() for handle in handles)):
            handle.remove()
        self._handles.clear()
        self._own.clear()
        for module in self._swapped:
            wrapper = module.__dict__.pop("_compiled_call_impl", None)
            if wrapper is not None:
                module._compiled_call_impl = wrapper.original
        self._swapped.clear()
        self.sightings.release()
        self._before.clear()

    def _hook_instances(self) -> None:
        """Where something is compiled, hooks for all modules of the process would be compiled into it."""
        for module, _ in self._subjects.modules.values():
            compiled = getattr(module, "_compiled_call_impl", None)
            if compiled is not None:
                module._compiled_call_impl = _Watched(module, compiled, self)  # type: ignore[assignment]
                self._swapped.append(module)
            else:
                self._handles.append(module.register_forward_pre_hook(self._entered))
                self._handles.append(module.register_forward_hook(self._left))

    # modules

    def _entered(self, module: nn.Module, args: Any) -> None:
        if get_ident() == self._thread and id(module) in self._subjects.modules:
            is_asked = self._wanted.inputs or id(module) in self._subjects.roots
            self._guard(self._enter, module, args, keyword_arguments(2) if is_asked else None)

    def enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        """A compiled module is about to run."""
        if get_ident() == self._thread:
            self._guard(self._enter, module, args, kwargs)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if _in_backward():
            return
        is_root = id(module) in self._subjects.roots
        if is_root or self._wanted.inputs:
            self._see_inputs(module, [*tensors_in(args, is_root), *tensors_in(kwargs, is_root)], is_root)
        if module._forward_hooks and not self._subjects.compiled:
            # The module's own hooks run after the global ones and may replace the result.
            handle = module.register_forward_hook(self._left_last)
            self._own.setdefault(id(module), []).append(handle)

    def _see_inputs(self, module: nn.Module, given: list[tuple[str, Tensor]], is_root: bool) -> None:
        keeper = self.sightings.keeper
        if is_root and keeper.batch_size is None:
            sizes = (tensor.shape[keeper.batch_dim] for _, tensor in given if tensor.dim() > keeper.batch_dim)
            keeper.batch_size = next(sizes, None)
        address = self._subjects.modules[id(module)][1][0]
        pass_ = self.sightings.n_passes(address) + 1
        for path, tensor in given:
            role = "input" if is_root else "value"
            overall = self.sightings.overall(address) + 1
            place = Place(f"{address}@in.{path}", address, pass_, self.sightings.iteration, role, overall=overall)
            self._see(tensor, place)

    def _left(self, module: nn.Module, args: Any, result: Any) -> None:
        if get_ident() == self._thread and id(module) in self._subjects.modules and id(module) not in self._own:
            self._guard(self._leave, module, result)

    def _left_last(self, module: nn.Module, args: Any, result: Any) -> None:
        handles = self._own.get(id(module))
        if handles:
            handles.pop().remove()
            if not handles:
                del self._own[id(module)]
        if get_ident() == self._thread:
            self._guard(self._leave, module, result)

    def _leave(self, module: nn.Module, result: Any) -> None:
        addresses = self._subjects.modules[id(module)][1]
        address = addresses[0]
        is_root = id(module) in self._subjects.roots
        if _in_backward():
            self._recompute(address, tensors_in(result, is_root))
            return
        pass_ = self.sightings.next_pass(address)
        for path, tensor in tensors_in(result, is_root):
            base = f"{address}@out.{path}" if path else address
            role = "loss" if tensor.dim() == 0 and tensor.requires_grad and is_root else "value"
            overall = self.sightings.overall(address)
            place = Place(base, address, pass_, self.sightings.iteration, role, overall=overall)
            self._see(tensor, place, [f"{other}@out.{path}" if path else other for other in addresses[1:]])

    def _see(self, tensor: Tensor, place: Place, others: Iterable[str] = ()) -> None:
        if not self._wanted.covers(place.base) or _is_transformed(tensor):
            return
        sighting = self.sightings.see(tensor, place)
        if sighting is not None:
            sighting.aliases += [Place(other, place.counted, place.pass_, place.iteration) for other in others]
            self.follow(tensor, sighting)
            if self.autograd is not None:
                is_result = place.counted in self._subjects.roots.values() and "@in" not in place.base
                self.autograd.note(place.base, tensor, place.role, is_result=is_result)

    def held_names(self) -> dict[int, str]:
        """The names of the parameters by their id."""
        return {id_: held.names[0] for id_, held in self._held.items()}

    def follow(self, tensor: Tensor, sighting: Sighting) -> None:
        """Wait for the gradient of a tensor, if it can have one."""
        if self._wanted.gradients and tensor.requires_grad and id(tensor) not in self._held:
            self.sightings.follow(tensor, sighting, self._gradient_name, self._guard)

    def _gradient_name(self) -> str:
        return f"{GRAD}/{self.loss}" if self.loss else GRAD

    def _recompute(self, address: str, results: list[tuple[str, Tensor]]) -> None:
        """A forward that a checkpoint runs again: only gradients that the first run could not have are new."""
        self._recomputed[address] = self._recomputed.get(address, 0) + 1
        iteration = self.sightings.iteration
        n_passes = self.sightings.n_passes(address)
        pass_ = max(n_passes - self._recomputed[address] + 1, 1)
        for path, tensor in results:
            place = Place(f"{address}@out.{path}" if path else address, address, pass_, iteration)
            sighting = self.sightings.at(place)
            if sighting is not None and tensor.requires_grad and not sighting.had_graph:
                self.follow(tensor, sighting)

    # parameters

    def follow_parameters(self) -> list[Any]:
        """Take what flows into parameters, apart from what is there already, until the handles are removed."""
        handles = []
        for held in self._subjects.held:
            if held.tensor.requires_grad and not held.is_buffer and self._wanted.covers(held.names[0]):
                sighting = Sighting(_place_of(held), VALUE, -1, aliases=_aliases_of(held))
                handles.append(self.sightings.follow(held.tensor, sighting, self._gradient_name, self._guard))
        return handles

    def _before_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() == self._thread:
            self._guard(self._read_parameters, optimizer)

    def _read_parameters(self, optimizer: Optimizer) -> None:
        mine = [self._held[id(tensor)] for tensor in _parameters_of(optimizer) if id(tensor) in self._held]
        new = [held for held in mine if id(held.tensor) not in self._read]
        scale = getattr(optimizer, "grad_scale", None)
        for held in new:
            self.read(held, scale)
        if self._wanted.updates:
            self._copy(new)

    def _copy(self, held: list[Held]) -> None:
        some = [one for one in held if self._wanted.covers(one.names[0]) and one.tensor.requires_grad]
        if sum(one.tensor.nbytes for one in some) > self._most_update_bytes:
            self.skipped_updates = True
            return
        for one in some:
            self._before[id(one.tensor)] = one.tensor.detach().clone()

    def _after_step(self, optimizer: Optimizer, args: Any, kwargs: Any) -> None:
        if get_ident() == self._thread and self._before:
            self._guard(self._read_updates, optimizer)

    def _read_updates(self, optimizer: Optimizer) -> None:
        for tensor in _parameters_of(optimizer):
            before = self._before.pop(id(tensor), None)
            if before is not None:
                change = torch.sub(tensor.detach(), before, out=before)
                held = self._held[id(tensor)]
                taken = self.sightings.take(change, _place_of(held), UPDATE, keep=False)
                taken.aliases = _aliases_of(held)

    def read(self, held: Held, scale: Tensor | None = None) -> None:
        """Take a parameter or buffer as it is now, and its gradient."""
        if id(held.tensor) in self._read or not self._wanted.covers(held.names[0]):
            return
        self._read.add(id(held.tensor))
        place, aliases = _place_of(held), _aliases_of(held)
        taken = self.sightings.take(held.tensor.detach(), place, VALUE, keep=False)
        taken.aliases = aliases
        grad = None if held.is_buffer or not self._wanted.gradients else held.tensor.grad
        if grad is not None:
            grad = grad.detach() if scale is None else grad.detach() / scale
            taken = self.sightings.take(grad, place, GRAD, keep=False)
            taken.aliases = aliases

    def read_rest(self) -> None:
        """At the end of the step: what no optimizer has read."""
        for held in self._subjects.held:
            if id(held.tensor) not in self._read:
                self._guard(self.read, held)


class Wanted:
    """Which sites are recorded, and what of them."""

    def __init__(self, at: Iterable[Site], *, gradients: bool = True, updates: bool = True) -> None:
        self._patterns = list(at)
        self.gradients = gradients
        self.updates = updates
        self.inputs = any(pattern.side == "in" for pattern in self._patterns)
        self.has_ops = any(pattern.op is not None for pattern in self._patterns)
        self._known: dict[str, bool] = {}

    def covers(self, site: str) -> bool:
        """Whether a site is recorded; all are if no pattern was given."""
        if not self._patterns:
            return True
        found = self._known.get(site)
        if found is None:
            parsed = Site.parse(site)
            found = self._known[site] = any(pattern.matches(parsed) for pattern in self._patterns)
        return found


class _Watched:
    """Stands for the compiled call of a module during a step."""

    def __init__(self, module: nn.Module, original: Callable[..., Any], observer: Observer) -> None:
        self.original = original
        self._module = module
        self._observer = observer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._observer.enter(self._module, args, kwargs)
        result = self.original(*args, **kwargs)
        self._observer._left(self._module, args, result)
        return result


def _place_of(held: Held) -> Place:
    return Place(held.names[0], role="buffer" if held.is_buffer else "parameter")


def _aliases_of(held: Held) -> list[Place]:
    return [Place(name) for name in held.names[1:]]


def _parameters_of(optimizer: Optimizer) -> list[Tensor]:
    return [tensor for group in optimizer.param_groups for tensor in group["params"]]


def _is_transformed(tensor: Tensor) -> bool:
    """Whether it only stands for a tensor, inside vmap, grad or another function transform."""
    return bool(torch._C._functorch.is_functorch_wrapped_tensor(tensor))


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1
