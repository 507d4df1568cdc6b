"""What tracing costs: beside a plain forward, and beside torchlens."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from time import thread_time
from typing import Any

from torch.overrides import TorchFunctionMode

import cutaway
from benchmarks.capture import models
from benchmarks.capture.models import Case, Example
from benchmarks.measure import CONTROL, Paired, Run, paired, python_bytes, timed
from benchmarks.peers.torchlens import TorchLens
from benchmarks.report import Figure, short
from cutaway.capture.saved.save_policy import Saver
from cutaway.capture.session import Session
from cutaway.graph.trace import Trace

FORWARD = "trace, save all: the forward alone"
LABELS = "trace, save all: with parents and labels"
METADATA = "trace, metadata only (save=None), with parents and labels"
FIXED = "fixed cost of a trace"
ASKED = "distances, recurrence, conditionals, when asked for"
STEPS = "recurrence of 5,000 steps of an LSTMCell"
MEMORY = "Python memory of a trace, an op"
LINEAR = "added by trace with parents and labels, an op, in a loop of n"

_AIMS = {
    (FORWARD, "op-bound"): 2.5,
    (LABELS, "op-bound"): 3.5,
    (LABELS, "large"): 1.25,
    (METADATA, "large"): 1.4,
}


class NoOpMode(TorchFunctionMode):
    """The least that any function mode costs."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **kwargs) if kwargs else func(*args)


def figures(cases: Sequence[Case], peer: TorchLens, *, quick: bool, extras: bool) -> list[Figure]:
    """All figures of tracing; `extras` are those that belong to no single case."""
    by_work: dict[str, list[Figure]] = {FORWARD: [], LABELS: [], METADATA: []}
    for case in cases:
        print(f"measuring {case.title} …", file=sys.stderr, flush=True)
        for figure in of_case(case, peer, n_pairs=_n_pairs(case, quick)):
            by_work[figure.work].append(figure)
    found = [figure for some in by_work.values() for figure in some]
    if extras:
        print("measuring fixed cost, distances, memory, linearity …", file=sys.stderr, flush=True)
        found += [fixed_cost(peer), *asked(), steps(), *memory(peer), *linearity(2 if quick else 5)]
    return found


def of_case(case: Case, peer: TorchLens, *, n_pairs: int) -> Iterator[Figure]:
    """The ratios to plain of one model."""
    example = case.build()
    n_ops = count_ops(traced(example))
    variants = {
        "no-op": timed(lambda: no_op(example)),
        FORWARD: forward_alone(example),
        LABELS: timed(lambda: traced(example)),
        METADATA: timed(lambda: metadata(example)),
    }
    found = paired(timed(example.run), variants, n_pairs=n_pairs, settle=case.size != "large")
    peers = {LABELS: peer.ratio(case.name, "all"), METADATA: peer.ratio(case.name, "none")}
    for work in (FORWARD, LABELS, METADATA):
        value = found[work]
        ratio, note = peers.get(work, (None, ""))
        remark = _remark(value, n_ops)
        if work == FORWARD:
            remark += f"; no-op mode {found['no-op'].ratio:.2f}, control {found[CONTROL].ratio:.2f}"
        yield Figure(work, case.title, value.ratio, "×", _AIMS.get((work, case.size)), ratio, note, remark)


def forward_alone(example: Example) -> Run:
    """The watched forward without switching on, switching off and resolving."""

    def run() -> float:
        session = Session(Trace(), example.model, Saver("**", "reference", None), gradients=False)
        session.start()
        try:
            started = thread_time()
            example.run()
            spent = thread_time() - started
        except BaseException as error:
            session.stop(error)
            raise
        session.stop(None)
        return spent

    return run


def traced(example: Example) -> Trace:
    trace = cutaway.trace(example.model, *example.args, **example.kwargs)
    assert trace.names is not None
    return trace


def metadata(example: Example) -> Trace:
    with cutaway.watch(example.model, save=None) as trace:
        example.run()
    assert trace.names is not None
    return trace


def no_op(example: Example) -> Any:
    with NoOpMode():
        return example.run()


def fixed_cost(peer: TorchLens) -> Figure:
    """Tracing a model of one op, less running it."""
    example = models.one_op()
    found = paired(timed(example.run), {"trace": timed(lambda: traced(example))}, n_pairs=200, n_warm=20)["trace"]
    value, note = peer.fixed_ms()
    return Figure(FIXED, "one op", found.added * 1e3, "ms", 0.3, value, note)


def asked() -> Iterator[Figure]:
    """Asking a trace in which nothing was asked before."""
    questions: dict[str, tuple[str, Callable[[Trace], object]]] = {
        "distances": ("lstm", lambda trace: trace.distances),
        "recurrence": ("lstm", lambda trace: len(trace.rolled)),
        "recurrence, nothing recurs": ("bert", lambda trace: len(trace.rolled)),
        "conditionals, none": ("lstm", lambda trace: len(trace.conditionals)),
        "conditionals, one in four ops": ("steered", lambda trace: len(trace.conditionals)),
    }
    for what, (name, ask) in questions.items():
        example = models.steered(1000) if name == "steered" else models.chosen([name])[0].build()
        seconds = []
        for _ in range(7):
            trace = traced(example)
            seconds.append(timed(lambda trace=trace: ask(trace))())  # type: ignore[misc]
        remark = f"{count_ops(trace)} ops, {median(seconds) * 1e3:.1f} ms"
        yield Figure(ASKED, f"{what}: {name}", median(seconds) / count_ops(trace) * 1e6, "µs/op", 30, remark=remark)


def steps() -> Figure:
    """A loop as long as it gets."""
    trace = traced(models.cell_loop(5_000))
    spent = timed(lambda: len(trace.rolled))()
    return Figure(STEPS, f"{len(trace):,} ops", spent, "s", 1.0, remark=f"rolled up to {len(trace.rolled)}")


def memory(peer: TorchLens) -> Iterator[Figure]:
    """What a trace holds beside the tensors' own memory."""
    example = models.chosen(["lstm"])[0].build()
    for save, make, aim in (("none", metadata, 3.0), ("all", traced, None)):
        n_ops = len(make(example))  # values, as torchlens counts them
        value, note = peer.bytes_an_op(save)
        kilobytes = value / 1000 if value is not None else None
        ours = python_bytes(lambda: make(example)) / n_ops / 1000
        yield Figure(MEMORY, f"LSTM ×100, save {save}", ours, "KB", aim, kilobytes, note, f"{n_ops} values")


def linearity(n_pairs: int) -> Iterator[Figure]:
    """The cost of an op must not grow with their number."""
    for n_ops in (1_000, 5_000, 20_000):
        example = models.loop(n_ops)
        found = paired(timed(example.run), {"trace": timed(lambda: traced(example))}, n_pairs=n_pairs, n_warm=1)
        value = found["trace"]
        added = value.added / n_ops * 1e6
        yield Figure(LINEAR, f"{n_ops:,} ops", added, "µs", remark=f"{value.ratio:.2f} × plain")


def count_ops(trace: Trace) -> int:
    """Calls of torch functions; a call with four results is one op here, as in the notes."""
    event = trace.tables.nodes.event
    return len({id(event[op.node]) for op in trace.ops})


def _n_pairs(case: Case, quick: bool) -> int:
    if case.size == "large":
        return 3 if quick else 9
    return 15 if quick else 60


def _remark(found: Paired, n_ops: int) -> str:
    return f"{n_ops} ops, plain {short(found.plain * 1e3)} ms, half within {found.low:.2f}–{found.high:.2f}"
