"""One capture, from entering its block to the finished trace."""

from __future__ import annotations

import os
from threading import get_ident
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor, nn

from cutaway.capture import sessions
from cutaway.capture.failure import record_failure
from cutaway.capture.function_mode import DisabledWatcher, Ledger, Watcher, remove_mode
from cutaway.capture.gradients import Gradients
from cutaway.capture.model.inventory import Inventory
from cutaway.capture.model.sharding import GatheredParameters, sharding_notes
from cutaway.capture.model.tree import buffers_of, module_addresses, tensor_addresses
from cutaway.capture.module_hooks import Call, ModuleHooks
from cutaway.capture.partial_trace import PartialTrace
from cutaway.capture.patches import composites, monkeypatch, own_call
from cutaway.capture.patches.collectives import unfinished_notes
from cutaway.capture.patches.install import apply_patches
from cutaway.capture.replay.recipe import Recipe
from cutaway.capture.resolver import Resolver
from cutaway.capture.saved.memory_guard import MemoryWatch
from cutaway.capture.saved.save_policy import Saver
from cutaway.capture.unexplained import unexplained_constants
from cutaway.core.events import GroupEvent, Ref
from cutaway.core.sites import name_spellings
from cutaway.graph.op import Op
from cutaway.graph.tables import UNSAVED, Tables
from cutaway.graph.trace import Trace

_push = torch._C._push_on_torch_function_stack


class Session:
    """Installs everything that one capture needs, and removes it again when the block ends.

    Args:
        trace: filled when the block ends.
        model: its modules, parameters and inputs are named; None to watch code without a model.
        saver: decides which values are saved.
        orphans: whether ops that lead to no output stay in the trace.
        gradients: whether backward passes inside the block are captured.
    """

    def __init__(
        self, trace: Trace, model: nn.Module | None, saver: Saver, *, orphans: bool = False, gradients: bool = True
    ) -> None:
        self.trace = trace
        self.model = model
        self.saver = saver
        self.orphans = orphans
        # `torch.compile` wraps the model; its modules are named as in the original.
        self.root = getattr(model, "_orig_mod", model)
        self.calls: Ledger[Call] = Ledger(Call(None, 0, None, 0))
        self.groups: Ledger[GroupEvent] = Ledger(GroupEvent("", 0, 0, None, 0))  # type: ignore[arg-type]
        self.watchers: dict[int, Watcher] = {}
        self.resolver = Resolver(self.calls.rows, saver, gradients=gradients)
        self.resolver.module_io.root = self.root
        self.memory = MemoryWatch(saver, self.resolver, self.calls.rows, self.root)
        holds_references = saver.where == "reference" and saver.sink is None
        self.gathered = GatheredParameters(self.resolver, holds_references=holds_references)
        self.hooks = ModuleHooks(self.watchers, self.calls, self.root, self.gathered)
        self.gradients = Gradients(self.resolver) if gradients else None
        self.named: list[tuple[str, int]] = []
        self.started = 0
        self._aborted: list[Watcher] = []
        self._buffers = buffers_of(self.root)
        self._notes: tuple[str, ...] = ()

    # switching on and off

    def start(self) -> None:
        """Installs hooks, patches and the function mode; removes them again if that fails."""
        if not self.saver.keeps_all:
            self._prepare_saver()
        # The program may have monkeypatched `F` since the last capture.
        composites.refresh()
        self.trace._name_tensor = self._name_tensor  # type: ignore[method-assign]
        apply_patches()
        try:
            sessions.sessions[id(self)] = self
            self.hooks.install()
            self.started = perf_counter_ns()
            self.join(0)
        except BaseException:
            self._switch_off()
            raise

    def _prepare_saver(self) -> None:
        """Gives the saver what it needs to select values while the model runs."""
        saver, nodes = self.saver, self.resolver.nodes
        modules = module_addresses(self.root) if saver.by_site else {}
        saver.begin(nodes, modules, tensor_addresses(self.root, modules))
        if saver.predicate is not None:
            rows: Any = self.resolver.module_io.rows
            tables = Tables(nodes, rows, saver.module_rows, [], self.groups.rows, is_tensor=_is_tensor_or_ref)
            running = PartialTrace(tables, saver.sites)
            saver.op_at = lambda node: Op(running, node)

    def join(self, call: int) -> Watcher:
        """Starts watching the current thread."""
        watcher = Watcher(self.resolver, self.groups, call, self.memory.check)
        self.watchers[get_ident()] = watcher
        _push(watcher)
        return watcher

    def leave(self, watcher: Watcher) -> None:
        """Stops watching the current thread, wherever the watcher is in the stack of modes."""
        remove_mode(watcher)
        self.watchers.pop(get_ident(), None)

    def stop(self, error: BaseException | None) -> None:
        """Removes everything and fills the trace."""
        # First: building the graph is not part of the duration.
        ended = perf_counter_ns()
        watcher = self.watchers[get_ident()]
        self._notes = unfinished_notes(self.watchers.values())
        try:
            self.leave(watcher)
        finally:
            self._switch_off()
        self._fill(watcher, error, (ended - self.started) * 1e-9)

    def abort(self) -> None:
        """Removes everything at once, before the block ends and from any thread. The trace stays empty."""
        self._aborted = self._aborted or list(self.watchers.values())
        self.leave_aborted()
        self._switch_off()

    def leave_aborted(self) -> None:
        """After `abort`, removes modes from the current thread. A mode that is calling a function comes back later."""
        for watcher in self._aborted:
            remove_mode(watcher)

    def _switch_off(self) -> None:
        sessions.sessions.pop(id(self), None)
        self.hooks.remove()
        for call in self.calls.rows.values():
            if call.own_hook is not None:
                call.own_hook.remove()
        monkeypatch.restore()
        self.abandon()
        self.trace.__dict__.pop("_name_tensor", None)

    def abandon(self) -> None:
        """Turns the watchers of other threads, or of a forked child, into no-ops."""
        for watcher in self.watchers.values():
            watcher.__class__ = DisabledWatcher
        self.watchers.clear()

    # filling

    def _name_tensor(self, name: str, value: Any) -> None:
        self.resolver.flush()
        with torch._C.DisableTorchFunction():
            self.named.append((name, self.resolver.node_of(value)))
            matching = [str(each) for each in self.saver.patterns if each.name in name_spellings(name)]
            if matching:
                self.resolver.save(self.named[-1][1], value)
                self.saver.matched.update(matching)

    def _recipe(self) -> Recipe | None:
        recipe = self.hooks.recipe
        if recipe is not None:
            sources = self.gathered.as_shards(self.root, self.resolver.sources.values())
            recipe.complete(self._buffers, sources, holding=self.saver.keeps_all)
            recipe.written = self.resolver.overwritten_sources()
        return recipe

    def tables_so_far(self) -> Tables:
        """The graph so far, while the program still runs: without names of modules and parameters."""
        resolver = self.resolver
        resolver.flush()
        module_io = resolver.module_io
        calls = [module_io.rows[number] for number in sorted(module_io.rows)]
        tables = Tables(resolver.nodes, calls, [], [], self.groups.rows, module_io.inputs, module_io.outputs)
        tables.is_tensor = _is_tensor_or_ref
        return tables

    def _fill(self, watcher: Watcher, error: BaseException | None, seconds: float) -> None:
        resolver = self.resolver
        resolver.flush()
        inventory = Inventory(self.root, self.calls.rows, resolver, self._buffers, self.gathered.tensors)
        tables = Tables(
            nodes=resolver.nodes,
            calls=inventory.call_rows(),
            modules=inventory.modules,
            parameters=inventory.parameters,
            groups=self.groups.rows,
            inputs=resolver.module_io.inputs,
            outputs=resolver.module_io.outputs,
            named=dict(self.named),
            is_tensor=_is_tensor_or_ref,
            n_backwards=self.gradients.n_passes if self.gradients else 0,
            model_name=type(self.root).__name__ if self.root is not None else "code",
            compiled=self.root is not self.model or inventory.has_compiled_parts,
            seconds=seconds,
            saved_all=self.saver.everything,
            error=error,
            recipe=self._recipe(),
            is_transformed=self.saver.transform is not None,
            notes=(*sharding_notes(self.root, resolver.nodes), *self._notes),
        )
        if error is None:  # the frames of an error still refer to everything
            tables.unexplained = unexplained_constants(resolver.nodes, resolver.sources)
        record_failure(tables, resolver, watcher.failed, error)
        self.trace.fill(tables, orphans=self.orphans)
        if self.saver.labels or self.saver.constants:
            for node in self.saver.release(self.trace.names.label):
                tables.nodes.value[node] = UNSAVED
        if self.saver.sink is not None:
            self.saver.sink.close()
        # The watchers of threads that still run refer to the resolver: without this, they would keep all tensors alive.
        resolver.close()


def _is_tensor_or_ref(value: Any) -> bool:
    return isinstance(value, (Tensor, Ref))


def _after_fork() -> None:
    """Disables all captures in a forked child."""
    own_call.reset_lock()
    for session in list(sessions.sessions.values()):
        session.abandon()
        session.hooks.remove()
    sessions.sessions.clear()


def register_fork_handler() -> None:
    """Registers the fork handler, once per process."""
    global _is_fork_handler_registered
    if not _is_fork_handler_registered:
        _is_fork_handler_registered = True
        # Such a handler cannot be removed, so it is registered with the first capture and not on import.
        os.register_at_fork(after_in_child=_after_fork)


_is_fork_handler_registered = False
