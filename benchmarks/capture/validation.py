"""What proving a trace costs: time beside a plain forward, memory beside the trace, both beside torchlens."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import cutaway
from benchmarks.capture.models import Case
from benchmarks.measure import added_peak, paired, timed
from benchmarks.peers.torchlens import TorchLens
from benchmarks.report import Figure, short

VALIDATE = "validate a trace: replay, perturb, unwatched run, consistency"
REPLAY = "validate without perturbing"
MEMORY = "peak memory that validating adds to a trace"
_AIM = 5.0


def figures(cases: Sequence[Case], peer: TorchLens, *, quick: bool) -> list[Figure]:
    """Both figures of each model."""
    by_work: dict[str, list[Figure]] = {VALIDATE: [], REPLAY: [], MEMORY: []}
    for case in cases:
        print(f"validating {case.title} …", file=sys.stderr, flush=True)
        for figure in of_case(case, peer, n_pairs=2 if quick else 5):
            by_work[figure.work].append(figure)
    return [figure for some in by_work.values() for figure in some]


def of_case(case: Case, peer: TorchLens, *, n_pairs: int) -> Iterator[Figure]:
    """Time and memory of validating a trace of one model."""
    example = case.build()
    trace = cutaway.trace(example.model, *example.args, **example.kwargs)
    added = added_peak(trace.validate)
    report = trace.validate()
    assert report, repr(report)
    variants = {VALIDATE: timed(trace.validate), REPLAY: timed(lambda: trace.validate(perturb=False))}
    found = paired(timed(example.run), variants, n_pairs=n_pairs, n_warm=1, settle=case.size != "large")
    ratio, note = peer.validate_ratio(case.name)
    proven = (
        f"{report.coverage.proven} of {report.coverage.total} proven, plain {short(found[VALIDATE].plain * 1e3)} ms"
    )
    aim = _AIM if case.size == "large" else None
    yield Figure(VALIDATE, case.title, found[VALIDATE].ratio, "×", aim, ratio, note, proven)
    yield Figure(REPLAY, case.title, found[REPLAY].ratio, "×")
    peer_bytes, peer_note = peer.validate_bytes(case.name)
    held = f"the trace holds {trace.bytes / 1e6:.0f} MB of values"
    yield Figure(MEMORY, case.title, added / 1e6, "MB", None, peer_bytes, peer_note, held)
