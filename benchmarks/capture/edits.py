"""What edits cost the modules they do not touch, and what a replay costs beside a full run."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

import cutaway
from benchmarks.capture import models
from benchmarks.measure import paired, timed
from benchmarks.report import Figure, short

UNTOUCHED = "a call of an untouched module inside an edit"
AFTER = "a forward after an edit block, beside one before"
REPLAY = "replay of a change in the last block, beside a full run"
_N = 200


def figures(*, quick: bool) -> list[Figure]:
    n_pairs = 30 if quick else 100
    return [*untouched(n_pairs), after(n_pairs), *replays(3 if quick else 9)]


def untouched(n_pairs: int) -> Iterator[Figure]:
    """A stack of small layers, of which the last is edited; what each of the others costs more."""
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(_N + 1))).eval()
    x = torch.randn(2, 8)
    run = timed(lambda: model(x))
    for on, at in (
        ("edit of a module", f"{_N}"),
        ("edit of an op", f"{_N}/linear"),
        ("edit of a weight", f"{_N}.weight"),
    ):

        def edited(at: str = at) -> float:
            with cutaway.edit(model, at=at, to=cutaway.edit.scale(2.0)):
                return run()

        found = paired(run, {"edited": edited}, n_pairs=n_pairs)["edited"]
        remark = f"{_N} layers, plain {short(found.plain * 1e3)} ms, ratio {found.ratio:.2f}"
        yield Figure(UNTOUCHED, on, found.added / _N * 1e6, "µs", 5.0, remark=remark)


def after(n_pairs: int) -> Figure:
    """Nothing is left behind, so nothing costs."""
    model, fresh = models.chosen(["mlp"])[0].build(), models.chosen(["mlp"])[0].build()
    with cutaway.edit(model.model, {"0": 0, "0/linear": 1, "0.weight": 2}):
        model.run()
    found = paired(timed(fresh.run), {"after": timed(model.run)}, n_pairs=5 * n_pairs)["after"]
    return Figure(AFTER, "MLP", found.ratio, "×", remark=f"half within {found.low:.2f}–{found.high:.2f}")


def replays(n_pairs: int) -> Iterator[Figure]:
    """GPT-2 small and BERT-base: 12 blocks each."""
    for name, at in (("gpt2", "transformer.h.11.ln_1"), ("bert", "encoder.layer.11.attention.self.query")):
        case = models.chosen([name])[0]
        example = case.build()
        trace = cutaway.trace(example.model, *example.args, **example.kwargs)
        site = at if at in trace else next(s for s in trace.modules if s.endswith(at.partition(".")[2]))
        with torch.no_grad():
            variants = {"replay": timed(lambda t=trace, s=site: t.replay(s, cutaway.edit.scale(1.1)))}
            found = paired(timed(example.run), variants, n_pairs=n_pairs, settle=False)["replay"]
        n = len(trace.replay(site, cutaway.edit.scale(1.1)).recomputed)
        remark = f"{n} of {len(trace)} ops, plain {short(found.plain * 1e3)} ms"
        yield Figure(REPLAY, f"{case.title}, from {site}", found.ratio, "×", 0.2, remark=remark)
