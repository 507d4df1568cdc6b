"""Records collectives of `torch.distributed` as one opaque op each, which overwrites its output tensors.

`dist.all_reduce` and the others call a method of the process group, in C++. The result is there when the program waits
for it: `dist.all_reduce(x)` waits at once, `dist.all_reduce(x, async_op=True)` returns something to wait for. So the op
is recorded when the wait has ended.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from sys import _getframe
from time import perf_counter_ns
from typing import Any

import torch

from cutaway.capture import function_mode, sessions
from cutaway.capture.arguments import is_tensor
from cutaway.capture.function_mode import Watcher, copy_containers
from cutaway.capture.patches.monkeypatch import replace
from cutaway.capture.torch_functions import Collective
from cutaway.core.formatting import plural
from cutaway.core.pytree import leaves

_NAMES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce_coalesced",
    "broadcast": "broadcast",
    "reduce": "reduce",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather_coalesced",
    "_allgather_base": "all_gather_into_tensor",
    "allgather_into_tensor_coalesced": "all_gather_into_tensor_coalesced",
    "reduce_scatter": "reduce_scatter",
    "_reduce_scatter_base": "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "alltoall": "all_to_all",
    "alltoall_base": "all_to_all_single",
    "scatter": "scatter",
    "gather": "gather",
    "recv": "recv",
    "recv_anysource": "recv",
}
"""Methods of a process group → the functions that users call. Each overwrites the tensors in its first argument."""
_BETWEEN = (str(Path(torch.__file__).parent / "distributed"), torch.overrides.__file__, function_mode.__file__)
"""Where the frames are that lie between a program and the method of the process group."""


def install_collectives(stack: ExitStack) -> None:
    """Installs the patches, if this process belongs to a group."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return
    bindings = sys.modules["torch._C._distributed_c10d"]
    for method, name in _NAMES.items():
        if method in bindings.ProcessGroup.__dict__:
            replace(stack, bindings.ProcessGroup, method, _recorded(name, bindings.Work))
    replace(stack, bindings.Work, "wait", _recorded_wait)
    stack.callback(_pending.clear)


@dataclass(frozen=True, slots=True)
class _Started:
    """A collective for which the program has not waited yet."""

    work: Any
    """What it waits for; kept, so that no other object gets the same id."""
    record: Callable[[], None]
    watchers: list[Watcher]


_pending: dict[int, _Started] = {}
"""By id of what the program waits for."""


def unfinished_notes(watchers: Iterable[Watcher]) -> tuple[str, ...]:
    """Says that collectives are not in a trace, because the program has not waited for them."""
    watched = list(watchers)
    n = sum(any(watcher in started.watchers for watcher in watched) for started in list(_pending.values()))
    if not n:
        return ()
    return (f"{plural(n, 'collective')} not recorded: started with async_op=True, and not waited for in the block",)


def _recorded(name: str, kind: type) -> Callable[[Any], Any]:
    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def collective(group: Any, *args: Any, **kwargs: Any) -> Any:
            watchers = sessions.thread_watchers()
            if not watchers or not args:
                return original(group, *args, **kwargs)
            targets = [tensor for _, tensor in leaves(args[0], is_tensor)]
            read = [tensor for _, tensor in leaves(args[1:], is_tensor)]
            frame = _outside_distributed(_getframe(1))
            place = frame.f_code, frame.f_lasti
            for watcher in watchers:
                watcher.before_write(targets, True)  # type: ignore[arg-type]
            started = perf_counter_ns()
            work = original(group, *args, **kwargs)

            def record() -> None:
                call = Collective(name, _ranks(group))
                given = (copy_containers(targets), copy_containers(read)) if read else (copy_containers(targets),)
                made = targets[0] if len(targets) == 1 else None
                for watcher in watchers:
                    times = started, perf_counter_ns(), None, torch.is_grad_enabled()
                    around = _outer_group(watcher, name)
                    watcher.append((call, given, None, made, watcher.call, around, *place, *times))

            if isinstance(work, kind) and type(work).wait is kind.wait:  # type: ignore[attr-defined]
                _pending[id(work)] = _Started(work, record, watchers)
            else:  # the backend has waited
                record()
            return work

        return collective

    return make


def _recorded_wait(original: Callable[..., Any]) -> Callable[..., Any]:
    def wait(work: Any, *args: Any, **kwargs: Any) -> Any:
        result = original(work, *args, **kwargs)
        started = _pending.pop(id(work), None)
        if started is not None:
            started.record()
        return result

    return wait


def _ranks(group: Any) -> tuple[int, ...]:
    return tuple(torch.distributed.get_process_group_ranks(group))


def _outside_distributed(frame: Any) -> Any:
    """The frame that called the collective: `dist.all_reduce` dispatches to the function mode, which opens it."""
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_BETWEEN):
        frame = frame.f_back
    return frame


def _outer_group(watcher: Watcher, name: str) -> int:
    """The group around the collective: as one op, it is no group of its own."""
    number = watcher.group
    while number and watcher.groups.rows[number].function == name:
        number = watcher.groups.rows[number].parent
    return number
