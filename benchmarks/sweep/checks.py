"""What is asked of the trace of one case, and the verdict."""

from __future__ import annotations

import gc
import os
import random
import traceback
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import numpy as np
import torch
from tests.oracles import random_states, same, tensors
from torch import Tensor, nn

import cutaway
from benchmarks.sweep import gallery
from benchmarks.sweep.families import CannotRun, CannotShrink, Case, Family, JudgesItself
from cutaway import Op, Trace

Outcome = Literal[
    "traced",
    "cannot be made small",
    "plain forward fails",
    "trace failed",
    "outputs differ",
    "random state differs",
    "graph disconnected",
    "not valid",
    "questions fail",
    "metadata trace differs",
    "something left behind",
    "differs from plain torch",
    "crashed",
    "too slow",
]
SAMPLE = 20


@dataclass(slots=True)
class Verdict:
    """What came of one architecture."""

    name: str
    outcome: Outcome
    reason: str = ""
    how: str = ""
    family: str = ""
    n_samples: int = 0
    """Of an entry of one of torch's databases: on how many samples it was run."""
    n_ops: int = 0
    n_proven: int = 0
    n_close: int = 0
    """Of those proven, the ones that came out within a tolerance."""
    n_opaque: int = 0
    n_undefined: int = 0
    n_without_inputs: int = 0
    n_felt: int = 0
    """Arguments that the result was seen to depend on."""
    plain_seconds: float = 0.0
    traced_seconds: float = 0.0
    validated_seconds: float = 0.0
    """Of `trace.validate()` alone."""
    picture: str = ""
    """File of its picture in the gallery."""
    constants: list[str] = field(default_factory=list)
    """Sources that are no input, parameter or buffer, and what explains them."""
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    """Every failed check, `outcome: reason`; the first decides."""

    @property
    def is_runnable(self) -> bool:
        return self.outcome not in ("cannot be made small", "plain forward fails")


def judge(family: Family, name: str) -> Verdict:
    """Make one case and run all checks on it."""
    if isinstance(family, JudgesItself):
        return family.judge(name)
    try:
        case = family.make(name)
    except CannotShrink as error:
        return Verdict(name, "cannot be made small", str(error))
    except CannotRun as error:
        return Verdict(name, "plain forward fails", str(error))
    return examine(name, case)


def examine(name: str, case: Case) -> Verdict:
    """All checks on a case whose plain forward runs."""
    verdict = Verdict(name, "traced", how=case.how)
    with torch.no_grad():
        _Examination(case, verdict).run()
    if verdict.failures:
        outcome, _, verdict.reason = verdict.failures[0].partition(": ")
        verdict.outcome = outcome  # type: ignore[assignment]
    return verdict


class _Examination:
    def __init__(self, case: Case, verdict: Verdict) -> None:
        self.case, self.verdict = case, verdict
        self.before: set[int] = set()
        """Memory of all tensors that were there before the traced run."""
        self.n_hooks = self._hooks()

    def run(self) -> None:
        verdict = self.verdict
        plain, states, verdict.plain_seconds = self._timed(lambda model, a, k: model(*a, **k))
        again, _, seconds = self._timed(lambda model, a, k: model(*a, **k))
        verdict.plain_seconds = min(verdict.plain_seconds, seconds)
        differing = _differing(plain, again)
        if differing:
            verdict.notes.append(f"two plain runs differ in {differing}")
        self.before = {_memory(found) for found in gc.get_objects() if issubclass(type(found), Tensor)}
        try:
            trace, traced_states, verdict.traced_seconds = self._timed(
                lambda model, a, k: cutaway.trace(model, *a, **k)
            )
        except Exception as error:
            self._fail("trace failed", _where(error))
            self._left_behind()
            return
        verdict.n_ops = len(trace)
        self._outputs(plain, trace, known=differing)
        if states != traced_states:
            self._fail("random state differs", "after the traced run")
        self._left_behind()
        for check in (self._connected, self._validated, self._questions, self._metadata, self._drawn):
            try:
                check(trace)
            except Exception as error:
                self._fail("questions fail", _where(error))
        del trace
        _, _, seconds = self._timed(lambda model, a, k: cutaway.trace(model, *a, **k))
        verdict.traced_seconds = min(verdict.traced_seconds, seconds)

    def _timed(self, work: Callable[..., Any]) -> tuple[Any, Any, float]:
        args, kwargs = deepcopy((self.case.args, self.case.kwargs))
        _seed()
        started = perf_counter()
        found = work(self.case.model, args, kwargs)
        seconds = perf_counter() - started
        return found, random_states(), seconds

    def _fail(self, outcome: Outcome, reason: str) -> None:
        self.verdict.failures.append(f"{outcome}: {reason}")

    def _outputs(self, plain: Any, trace: Trace, *, known: list[str]) -> None:
        differing = [path for path in _differing(plain, trace.returned) if path not in known]
        if differing:
            self._fail("outputs differ", f"{', '.join(differing[:4])} of {len(tensors(plain))}")

    def _left_behind(self) -> None:
        n_modes = torch._C._len_torch_function_stack()
        if n_modes:
            self._fail("something left behind", f"{n_modes} modes")
        if self._hooks() != self.n_hooks:
            self._fail("something left behind", f"{self._hooks()} hooks, {self.n_hooks} before")

    def _hooks(self) -> int:
        return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in self.case.model.modules())

    def _connected(self, trace: Trace) -> None:
        returned = tensors(trace.returned)
        if len(trace.outputs) != len(returned):
            missing = sorted(set(returned) - set(trace.output_paths))[:5]
            self.verdict.notes.append(f"{len(trace.outputs)} outputs of {len(returned)} tensors; without {missing}")
        for path, op in zip(trace.output_paths, trace.outputs, strict=True):
            if op.kind == "constant" and "float" in (op.dtype or "") and _memory(op.value) not in self.before:
                self._fail("graph disconnected", f"output {path} is a bare constant {list(op.shape or ())}")
            elif "float" in (op.dtype or "") and op.distance_from_input is None and trace.inputs:
                self.verdict.notes.append(f"output {path} descends from no input")
            elif op.is_saved and path in returned and not same(op.value, returned[path]):
                self._fail("graph disconnected", f"output {path} is not the value of {op!r}")
        self.verdict.constants = _explained(trace, self.case.model, self.before)
        self._linked(trace)

    def _linked(self, trace: Trace) -> None:
        """No link was lost: a constant is nothing that an op made, and an identity gives back what it was given."""
        made = {_memory(op.value): op for op in trace.ops if op.is_saved and not op.is_inplace}
        for op in trace.constants:
            maker = made.get(_memory(op.value)) if op.children else None
            if maker is not None and not _descends(maker, op) and same(maker.value, op.value):
                self._fail("graph disconnected", f"{op!r}, used by {op.children[0].label}, is what {maker!r} made")
                return
        for op in trace.ops:
            if op.is_identity and op.is_saved and not any(_memory(op.value) == _memory(p.value) for p in op.parents):
                self._fail("graph disconnected", f"{op!r} counts as an identity, and is none of its parents")
                return

    def _validated(self, trace: Trace) -> None:
        states = random_states()
        started = perf_counter()
        report = trace.validate()
        self.verdict.validated_seconds = perf_counter() - started
        if random_states() != states:
            self._fail("random state differs", "after the validation")
        covered = report.coverage
        self.verdict.n_proven, self.verdict.n_close = covered.proven, covered.close
        self.verdict.n_opaque, self.verdict.n_undefined = covered.opaque, covered.undefined
        self.verdict.n_without_inputs, self.verdict.n_felt = covered.without_inputs, report.edges_felt
        self.verdict.notes += report.notes
        if not report:
            said = " | ".join(f"{failure.what} {failure}" for failure in report.failures[:3])
            self._fail("not valid", f"{len(report.failures)} failures, {covered}: {said}")
        self._left_behind()

    def _questions(self, trace: Trace) -> None:
        """Everything that can be read is read, and names lead back to what they name."""
        for item in (trace, *trace.ops, *trace.calls, *trace.modules.values()):
            for name in _attributes(type(item)):
                getattr(item, name)
            repr(item)
        step = max(1, len(trace) // SAMPLE)
        for op in trace.ops[::step]:
            for key in (op.site, op.label, str(op.full_site)):
                if trace[key] != op:
                    self._fail("questions fail", f"{key!r} of {op!r} leads to {trace[key]!r}")
                    return

    def _drawn(self, trace: Trace) -> None:
        """Where a gallery is asked for, the picture goes there."""
        if folder := os.environ.get(gallery.FOLDER):
            self.verdict.picture = gallery.draw(trace, self.verdict.name, Path(folder))

    def _metadata(self, trace: Trace) -> None:
        bare = self._watched(save=None)
        if bare != _structure(trace) and bare != self._watched(save="**"):
            pairs = zip(_structure(trace), bare, strict=False)
            first = next(((a, b) for a, b in pairs if a != b), (len(trace), len(bare)))
            if _structure(trace) == self._watched(save="**"):
                self._fail("metadata trace differs", f"{first[0]} became {first[1]}")
            else:
                self.verdict.notes.append("two traces differ: the model keeps something between its calls")

    def _watched(self, save: str | None) -> list[tuple[str, tuple[str, ...]]]:
        args, kwargs = deepcopy((self.case.args, self.case.kwargs))
        _seed()
        with cutaway.watch(self.case.model, save=save) as found:
            self.case.model(*args, **kwargs)
        return _structure(found)


def _seed() -> None:
    random.seed(2)
    np.random.seed(2)
    torch.manual_seed(2)


def _structure(trace: Trace) -> list[tuple[str, tuple[str, ...]]]:
    return [(op.label, tuple(parent.label for parent in op.parents)) for op in trace.ops]


def _differing(a: Any, b: Any) -> list[str]:
    mine, others = tensors(a), tensors(b)
    if mine.keys() != others.keys():
        return sorted(mine.keys() ^ others.keys())
    return [path for path, tensor in mine.items() if not same(tensor, others[path])]


@cache
def _attributes(cls: type) -> list[str]:
    kinds = (property, cached_property)
    return [name for name in dir(cls) if not name.startswith("_") and isinstance(getattr(cls, name), kinds)]


def _descends(op: Op, ancestor: Op) -> bool:
    waiting, seen = [op], {op.node}
    while waiting:
        for parent in waiting.pop().parents:
            if parent.node == ancestor.node:
                return True
            if parent.node not in seen:
                seen.add(parent.node)
                waiting.append(parent)
    return False


def _memory(value: Any) -> int:
    """Where a tensor begins; for what has no such place, something of its own."""
    try:
        return value.data_ptr() or id(value)
    except Exception:  # no tensor, a sparse one, one that is only pretended
        return id(value)


def _explained(trace: Trace, model: nn.Module, before: set[int]) -> list[str]:
    """One line for each constant: kept by a module, memory of something known, there before, or unexplained."""
    kept = _memory_of(model, own=False)
    known = _memory_of(model, own=True)
    found = []
    for op in trace.constants:
        if not op.children:
            continue
        users = ", ".join(sorted({child.function for child in op.children}))
        where = op.children[0].module
        memory = op.value.untyped_storage().data_ptr() if isinstance(op.value, Tensor) and not op.value.is_sparse else 0
        older = "kept from an earlier run" if _memory(op.value) in before else "UNEXPLAINED"
        why = kept.get(memory) or (f"memory of {known[memory]}" if memory in known else older)
        found.append(f"{why}: {op.dtype} {list(op.shape or ())} used by {users} in {where and where.address}")
    return found


def _memory_of(model: nn.Module, *, own: bool) -> dict[int, str]:
    """Address in memory → name, of parameters and buffers, or of the other tensors that modules keep."""
    if own:
        named = [*model.named_parameters(), *model.named_buffers()]
    else:
        named = [
            (f"attribute {address}.{name}{path}", tensor)
            for address, module in model.named_modules()
            for name, value in vars(module).items()
            if name not in ("_parameters", "_buffers", "_modules")
            for path, tensor in tensors(value).items()
        ]
    return {tensor.untyped_storage().data_ptr(): name for name, tensor in named if tensor.layout is torch.strided}


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:240]}"


def _where(error: BaseException) -> str:
    """The error and the last lines of ours that it passed."""
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "/cutaway/" in frame.filename]
    places = " < ".join(f"{f.filename.rsplit('/cutaway/', 1)[1]}:{f.lineno}" for f in reversed(ours[-3:]))
    return f"{_said(error)} at {places or 'no line of Cutaway'}"
