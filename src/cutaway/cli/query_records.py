"""What was recorded beside tensors: scalars, notes, samples."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from cutaway.cli.output import printable, say, say_json, table, when
from cutaway.cli.paths import has_step, problems_of
from cutaway.cli.wide_table import Line, wide
from cutaway.core.errors import DamagedError, NotFoundError
from cutaway.core.formatting import nearest
from cutaway.store.runs.run import Run
from cutaway.store.runs.samples import Samples

_MOST_FOUND = 1000
_MOST_TEXT = 100


def print_scalars(runs: Mapping[str, Run], names: Sequence[str], *, steps: slice | None, is_json: bool) -> None:
    found = []
    for run_name, run in runs.items():
        for name, curve in run.scalars.items():
            if any(name == asked or fnmatchcase(name, asked) for asked in names):
                places = [place for place, step in enumerate(curve.steps.tolist()) if has_step(steps, step)]
                arrays = {key: getattr(curve, key)[places] for key in ("steps", "values", "elapsed")}
                found.append({"run": run_name, "name": name, **arrays})
    if not found:
        known = list(dict.fromkeys(name for run in runs.values() for name in run.scalars))
        listed = ", ".join(map(repr, nearest(names[0], known) or known[:8])) or "none"
        raise NotFoundError(f"no scalar {names[0]!r} was logged. There are: {listed}.")
    if is_json:
        say_json({"scalars": found, "problems": problems_of(runs)})
        return
    several = len(runs) > 1
    say(
        *wide(
            Line(f"{one['run']} {one['name']}" if several else one["name"], one["steps"].tolist(), one["values"])
            for one in found
        )
    )


def print_notes(runs: Mapping[str, Run], text: str, *, steps: slice | None, is_json: bool) -> None:
    wanted = text.casefold()
    found = [
        (name, note)
        for name, run in runs.items()
        for note in run.notes
        if has_step(steps, note.step) and (wanted in note.text.casefold() or wanted in note.level.casefold())
    ]
    if is_json:
        keys = ("text", "step", "time", "level", "about")
        say_json(
            {
                "notes": [{"run": name, **{key: getattr(note, key) for key in keys}} for name, note in found],
                "problems": problems_of(runs),
            }
        )
        return
    for name, note in found:
        run = f"{name}  " if len(runs) > 1 else ""
        step = f"step {note.step}  " if note.step is not None else ""
        say(f"{run}{when(note.time)}  {step}{note.level}: {note.text}")
    if not found:
        say(f"No note holds {text!r}." if text else "There are no notes.")


def print_samples(runs: Mapping[str, Run], text: str, args: argparse.Namespace) -> None:
    found: list[dict[str, Any]] = []
    problems: list[str] = []
    for name, run in runs.items():
        for step in run:
            if not has_step(args.steps, step.step) or args.kind not in (None, step.kind):
                continue
            if len(found) >= _MOST_FOUND:
                break
            try:
                if not step.has_samples:
                    continue
                samples = step.samples
            except DamagedError as error:
                problems.append(f"samples of step {step.step}: {error}")
                continue
            found += [
                {"run": name, "step": step.step, "kind": step.kind, "number": number, "sample": _short(samples, number)}
                for number in samples.find(text)
            ]
    for problem in problems:
        sys.stderr.write(f"cutaway: {printable(problem)}\n")
    if args.json:
        say_json({"samples": found, "is_cut": len(found) >= _MOST_FOUND, "problems": [*problems, *problems_of(runs)]})
        return
    if not found:
        say(f"No sample holds {text!r}.")
        return
    head = ["run", "step", "kind", "sample", "content"]
    say(*table(head, ([one["run"], one["step"], one["kind"], one["number"], _excerpt(one["sample"])] for one in found)))
    if len(found) >= _MOST_FOUND:
        say(f"… the first {_MOST_FOUND:,}; --steps narrows it.")


def _short(samples: Samples, number: int) -> dict[str, Any]:
    """One sample; arrays by their shape alone."""
    return {
        name: {"dtype": value.dtype.name, "shape": list(value.shape)} if isinstance(value, np.ndarray) else value
        for name, value in samples[number].items()
    }


def _excerpt(sample: Mapping[str, Any]) -> str:
    parts = [f"{name}={value!r}" for name, value in sample.items() if not isinstance(value, dict)]
    return ", ".join(parts)[:_MOST_TEXT]
