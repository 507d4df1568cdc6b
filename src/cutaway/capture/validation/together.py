"""Runs a model that several processes run together once more: all agree first, so that none waits for one that failed.

The processes agree through the store of their process group, not by a collective: a collective of which one process
knows nothing would block the others, or meet the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from cutaway.capture.model.sharding import ranks_of
from cutaway.capture.torch_functions import Collective
from cutaway.core.errors import CannotValidateError
from cutaway.graph.trace import Trace

SECONDS = 60.0
"""How long a process waits for another one that does not answer."""
_MAX_REASON = 300
_READY, _LEFT, _FAILED = "ready", "left", "failed: "
_n_runs: dict[tuple[int, ...], int] = {}


def participants(trace: Trace) -> tuple[int, ...]:
    """The ranks that run the model of a trace together; empty if this process runs it alone."""
    recipe = trace.tables.recipe
    if recipe is None or not dist.is_available() or not dist.is_initialized():
        return ()
    ranks = set(ranks_of(recipe.model()))
    world = tuple(range(dist.get_world_size()))
    for event in trace.tables.nodes.event:
        if event is not None and type(event[0]) is Collective:
            ranks.update(event[0].ranks)
        elif event is not None and "c10d_functional" in str(getattr(event[0], "__module__", "")):
            ranks.update(world)  # its group is a name among the arguments
    return tuple(sorted(ranks)) if len(ranks) > 1 else ()


@contextmanager
def together(trace: Trace) -> Iterator[Callable[[], None]]:
    """Context manager for a run in all processes: yields a function that returns when all of them are ready to run.

    If a process cannot run, or fails while it runs, the others raise and name it, after at most `SECONDS`.
    """
    ranks = participants(trace)
    if not ranks:
        yield lambda: None
        return
    agreement = _Agreement(ranks)
    try:
        with _short_timeouts(timedelta(seconds=max(SECONDS, 10 * trace.seconds))):
            yield agreement.wait
    except BaseException as error:
        agreement.leave(error)
        raise


class _Agreement:
    """What each process says about one run."""

    def __init__(self, ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.store = dist.distributed_c10d._get_default_store()
        n = _n_runs[ranks] = _n_runs.get(ranks, 0) + 1
        self.prefix = f"cutaway/validate/{'.'.join(map(str, ranks))}/{n}"
        self.has_started = False

    def say(self, text: str) -> None:
        self.store.set(f"{self.prefix}/{dist.get_rank()}", text)

    def wait(self) -> None:
        self.say(_READY)
        for rank in self.ranks:
            answer = self.answer(rank, timedelta(seconds=SECONDS))
            if answer is None:
                raise CannotValidateError(
                    f"the model cannot be traced again: rank {rank} did not answer within {SECONDS:.0f} s. All "
                    "processes that run the model must call trace.validate(retrace=True)."
                )
            if answer != _READY:
                raise CannotValidateError(f"the model cannot be traced again: rank {rank} {_said(answer)}")
        self.has_started = True

    def answer(self, rank: int, timeout: timedelta) -> str | None:
        key = f"{self.prefix}/{rank}"
        try:
            self.store.wait([key], timeout)
        except Exception:  # each kind of store has its own error
            return None
        return str(self.store.get(key).decode())

    def leave(self, error: BaseException) -> None:
        """Tells the others that this process does not go on; raises if another one is the cause."""
        if self.has_started and isinstance(error, Exception):
            for rank in self.ranks:
                answer = self.answer(rank, timedelta(seconds=1)) if rank != dist.get_rank() else _READY
                if answer is not None and answer.startswith(_FAILED):
                    self.say(_LEFT)
                    raise CannotValidateError(
                        f"the model cannot be traced again: rank {rank} {_said(answer)} The process group may be out "
                        "of step: start it again before you go on."
                    ) from error
        is_told = isinstance(error, CannotValidateError)  # the others see the cause where this one saw it
        self.say(_LEFT if is_told else f"{_FAILED}{type(error).__name__}: {error}"[:_MAX_REASON])


def _said(answer: str) -> str:
    if answer.startswith(_FAILED):
        return f"failed with {answer.removeprefix(_FAILED).removesuffix('.')}."
    return "has given up waiting."


@contextmanager
def _short_timeouts(timeout: timedelta) -> Iterator[None]:
    """Context manager: collectives of all groups wait no longer than this for another process."""
    before: list[tuple[Any, timedelta]] = []
    for group in list(dist.distributed_c10d._world.pg_map):
        for device in group._device_types:
            backend = group._get_backend(device)
            options = getattr(backend, "options", None)
            if options is not None and options._timeout > timeout:
                before.append((backend, options._timeout))
                backend._set_default_timeout(timeout)
    try:
        yield
    finally:
        for backend, earlier in before:
            backend._set_default_timeout(earlier)
