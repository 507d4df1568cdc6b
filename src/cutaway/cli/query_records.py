"""Prints scalars, notes and samples."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from cutaway.cli.output import format_time, print_json, print_lines, printable, table
from cutaway.cli.paths import damage_of, has_step
from cutaway.cli.wide_table import Column, wide_table
from cutaway.core.errors import DamagedError, NotFoundError
from cutaway.core.formatting import nearest
from cutaway.store.runs.run import Run
from cutaway.store.runs.samples import Samples

_MAX_SAMPLES = 1000
_MAX_TEXT = 100


def print_scalars(runs: Mapping[str, Run], names: Sequence[str], *, steps: slice | None, is_json: bool) -> None:
    curves = []
    for run_name, run in runs.items():
        for name, scalar in run.scalars.items():
            # Equality first: fnmatch reads the brackets of a name such as `loss[0]` as a set of letters.
            if any(name == asked or fnmatchcase(name, asked) for asked in names):
                places = [place for place, step in enumerate(scalar.steps.tolist()) if has_step(steps, step)]
                arrays = {key: getattr(scalar, key)[places] for key in ("steps", "values", "elapsed")}
                curves.append({"run": run_name, "name": name, **arrays})
    if not curves:
        known = list(dict.fromkeys(name for run in runs.values() for name in run.scalars))
        names_text = ", ".join(map(repr, nearest(names[0], known) or known[:8])) or "none"
        raise NotFoundError(f"no scalar {names[0]!r} was logged. Logged scalars: {names_text}.")
    if is_json:
        print_json({"scalars": curves, "damage": damage_of(runs)})
        return
    several = len(runs) > 1
    print_lines(
        *wide_table(
            Column(
                f"{curve['run']} {curve['name']}" if several else curve["name"],
                curve["steps"].tolist(),
                curve["values"],
            )
            for curve in curves
        )
    )


def print_notes(runs: Mapping[str, Run], text: str, *, steps: slice | None, is_json: bool) -> None:
    wanted = text.casefold()
    matches = [
        (name, note)
        for name, run in runs.items()
        for note in run.notes
        if has_step(steps, note.step) and (wanted in note.text.casefold() or wanted in note.level.casefold())
    ]
    if is_json:
        keys = ("text", "step", "time", "level", "about")
        print_json(
            {
                "notes": [{"run": name, **{key: getattr(note, key) for key in keys}} for name, note in matches],
                "damage": damage_of(runs),
            }
        )
        return
    for name, note in matches:
        run = f"{name}  " if len(runs) > 1 else ""
        step = f"step {note.step}  " if note.step is not None else ""
        print_lines(f"{run}{format_time(note.time)}  {step}{note.level}: {note.text}")
    if not matches:
        print_lines(f"No note contains {text!r}." if text else "No notes.")


def print_samples(runs: Mapping[str, Run], text: str, args: argparse.Namespace) -> None:
    matches: list[dict[str, Any]] = []
    unreadable: list[str] = []
    for name, run in runs.items():
        for step in run:
            if not has_step(args.steps, step.step) or args.kind not in (None, step.kind):
                continue
            if len(matches) >= _MAX_SAMPLES:
                break
            try:
                if not step.has_samples:
                    continue
                samples = step.samples
            except DamagedError as error:
                unreadable.append(f"samples of step {step.step}: {error}")
                continue
            matches += [
                {
                    "run": name,
                    "step": step.step,
                    "kind": step.kind,
                    "number": number,
                    "sample": _without_arrays(samples, number),
                }
                for number in samples.find(text)
            ]
    for message in unreadable:
        sys.stderr.write(f"cutaway: {printable(message)}\n")
    if args.json:
        is_cut = len(matches) >= _MAX_SAMPLES
        print_json({"samples": matches, "is_cut": is_cut, "damage": [*unreadable, *damage_of(runs)]})
        return
    if not matches:
        print_lines(f"No sample contains {text!r}.")
        return
    head = ["run", "step", "kind", "sample", "content"]
    print_lines(
        *table(
            head, ([row["run"], row["step"], row["kind"], row["number"], _excerpt(row["sample"])] for row in matches)
        )
    )
    if len(matches) >= _MAX_SAMPLES:
        print_lines(f"… stopped after {_MAX_SAMPLES:,}; narrow the search with --steps.")


def _without_arrays(samples: Samples, number: int) -> dict[str, Any]:
    """One sample, with arrays reduced to dtype and shape."""
    return {
        name: {"dtype": value.dtype.name, "shape": list(value.shape)} if isinstance(value, np.ndarray) else value
        for name, value in samples[number].items()
    }


def _excerpt(sample: Mapping[str, Any]) -> str:
    parts = [f"{name}={value!r}" for name, value in sample.items() if not isinstance(value, dict)]
    return ", ".join(parts)[:_MAX_TEXT]
