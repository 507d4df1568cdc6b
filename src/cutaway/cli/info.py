"""`cutaway info`: prints an overview of one archive."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from cutaway.cli.output import format_cell, format_time, print_json, print_lines, table, without_histogram
from cutaway.cli.paths import State, find_archives, state_of
from cutaway.core.errors import CutawayError, InputError
from cutaway.core.formatting import human_bytes, listed, plural
from cutaway.store.activations.activations import Activations
from cutaway.store.format.filenames import INDEX, PART
from cutaway.store.format.problems import problems_of
from cutaway.store.format.records import quantity_of
from cutaway.store.reading.archive import Archive
from cutaway.store.results.result_file import read as read_result
from cutaway.store.results.result_file import read_description
from cutaway.store.runs.run import Run
from cutaway.store.runs.timeline import replaced_from
from cutaway.store.verification.verify import files_of

_MAX_LINES = 40
_STEPS = ("n_steps", "first_step", "last_step")
_STATES: Mapping[State, str] = {
    "live": "is being written now",
    "ended": "was closed",
    "killed": "was not closed: its process was killed or lost power",
    "unknown": "another machine may still be writing",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("path", help="a run, a saved trace, activations or a saved result")
    parser.epilog = "examples:\n  cutaway info runs/base\n  cutaway info net.trace --json"


def run(args: argparse.Namespace) -> int:
    matches = find_archives([args.path])
    if len(matches) > 1:
        names = listed([repr(place.path) for place in matches], 3)
        raise InputError(
            f"{args.path} holds {len(matches)} archives ({names}). Name one; `cutaway ls {args.path}` lists them."
        )
    archive = Archive(matches[0].path)
    about = info(archive, matches[0].name)
    if args.json:
        print_json(about)
        return 0
    print_lines(*_header(about))
    print_lines(*(_run_lines(about) if about["kind"] == "run" else about.get("summary", [])))
    problems = about["problems"] if about["kind"] == "run" else []  # those of activations are in their summary
    for name, messages in (("problem", problems), ("damage", about["damage"])):
        print_lines(*(f"{name}: {message}" for message in messages[:_MAX_LINES]))
        if len(messages) > _MAX_LINES:
            print_lines(f"{name}: … and {len(messages) - _MAX_LINES:,} more; --json has all")
    return 0


def info(archive: Archive, name: str) -> dict[str, Any]:
    """The document that `--json` prints."""
    sizes = sizes_of(archive)
    sessions = [(rank, index) for rank in archive.ranks for index in archive.sessions(rank)]
    about: dict[str, Any] = {
        "path": archive.path,
        "name": name,
        "kind": archive.kind,
        "id": archive.id,
        "created": archive.created,
        "state": state_of(archive),
        "n_bytes": sum(sizes.values()),
        "sizes": sizes,
        "ranks": list(archive.ranks),
        "sessions": [_session(rank, index) for rank, index in sessions],
        "losses": [loss for _, index in sessions for loss in index.losses],
        "problems": [text for _, index in sessions for text in problems_of(index.notes, index.losses)],
        "damage": list(archive.damage),
    }
    if archive.kind == "run":
        return about | _run_info(Run(archive))
    describe = _DESCRIBE.get(archive.kind)
    if describe is not None:
        try:
            about |= describe(archive)
        except CutawayError as error:
            about["damage"].append(str(error))
    return about


def sizes_of(archive: Archive) -> dict[str, int]:
    """Size in bytes of each kind of file."""
    sizes = dict.fromkeys(("index", "values", "statistics", "growing", "other"), 0)
    for name, size in files_of(archive.backend).items():
        leaf = name.rpartition("/")[2]
        if leaf.endswith(INDEX):
            part = "index"
        elif leaf.endswith(PART):
            part = "growing"
        else:
            # Segments of values are named `…-v0001`, those of statistics `…-s0001` (docs/format.md).
            part = "values" if "-v" in leaf else "statistics" if "-s" in leaf else "other"
        sizes[part] += max(size, 0)
    return sizes


def _session(rank: int, index: Any) -> dict[str, Any]:
    first, last = (index.steps[0].step, index.steps[-1].step) if index.steps else (None, None)
    about = index.session
    return {
        "rank": rank,
        "number": index.number,
        "time": about.time if about else None,
        "cutaway": about.cutaway if about else None,
        "world_size": about.world_size if about else None,
        "n_steps": len(index.steps),
        "first_step": first,
        "last_step": last,
        "is_ended": index.is_ended,
    }


def _run_info(run: Run) -> dict[str, Any]:
    kinds = {}
    for kind in run.kinds:
        steps = run.steps_of(kind)
        kinds[kind] = {"n_steps": len(steps), "first_step": int(steps[0]), "last_step": int(steps[-1])}
    shadowed = sum(
        sum(record.step >= end for record in index.steps)
        for index, end in zip(run.sessions, replaced_from(run.sessions), strict=True)
        if end is not None
    )
    scalars = {}
    for name, curve in run.scalars.items():
        last = len(curve) - 1
        point = {"last_step": int(curve.steps[last]), "last": float(curve.values[last])} if len(curve) else {}
        scalars[name] = {"n_points": len(curve), **point}
    return {
        "n_steps": len(run),
        "n_shadowed": shadowed,
        "kinds": kinds,
        "n_tensors": len(run.sites),
        "of": dict(Counter(quantity_of(row.of) for row in run.rows)),
        "statistics": list(run.statistics),
        "scalars": scalars,
        "n_notes": len(run.notes),
        "levels": dict(Counter(note.level for note in run.notes)),
        "documents": sorted(run.documents),
        "config": run.config,
        "environment": run.environment,
    }


def _trace_info(archive: Archive) -> dict[str, Any]:
    from cutaway.graph.analysis.summary import summary
    from cutaway.store.traces.trace_file import read

    return {"summary": summary(read(archive)).splitlines()}


def _result_info(archive: Archive) -> dict[str, Any]:
    about = read_description(archive)
    lines = [
        f"  type      {about.type}{f', of {about.topic}' if about.topic else ''}",
        f"  saved     {format_time(about.made)}",
    ]
    lines += [f"  {line}" for line in repr(read_result(archive)).splitlines()]
    return {"result": about, "summary": lines}


def _activations_info(archive: Archive) -> dict[str, Any]:
    acts = Activations.read(archive)
    widths = dict(zip(acts.sites, acts.widths, strict=True))
    about: dict[str, Any] = {
        "n_rows": len(acts),
        "n_items": acts.n_items,
        "n_units": acts.n_units,
        "sites": widths,
        "dtype": str(acts.dtype),
        "aggregate": acts.aggregate,
        "is_whole": acts.is_whole,
        "provenance": acts.provenance,
        "problems": acts.problems,
    }
    return about | {"summary": list(_activations_summary(about))}


def _activations_summary(about: Mapping[str, Any]) -> Iterator[str]:
    aggregate = f", {about['aggregate']!r} of the tokens of a word" if about["aggregate"] else ""
    yield f"  rows      {about['n_rows']:,} of {about['n_items']:,} items{aggregate}"
    yield f"  units     {about['n_units']:,} of {len(about['sites']):,} sites, {about['dtype']}"
    sites = [[site, width] for site, width in about["sites"].items()]
    yield from _indented(table(["site", "units"], sites[:_MAX_LINES]))
    if len(sites) > _MAX_LINES:
        yield f"    … and {len(sites) - _MAX_LINES:,} more; --json has all"
    if not about["is_whole"]:
        yield "  incomplete: collect(..., resume=True) continues"
    problems = about["problems"]
    if problems:
        first = problems[0]
        yield f"  problems  {len(problems):,} during collection, the first at item {first.item}: {first.what}"
    lines = list(_flat(about["provenance"]))
    if lines:
        yield "  provenance"
        yield from (f"    {key} = {format_cell(value)}" for key, value in lines[:_MAX_LINES])


_DESCRIBE: Mapping[str, Callable[[Archive], dict[str, Any]]] = {
    "trace": _trace_info,
    "activations": _activations_info,
    "result": _result_info,
}


def _header(about: Mapping[str, Any]) -> Iterator[str]:
    a = "" if about["kind"] == "activations" else "a "
    yield f"{about['name']}: {a}{about['kind']} that {_STATES[about['state']]}"
    yield f"  created   {about['created']}"
    parts = ", ".join(f"{part} {human_bytes(size)}" for part, size in about["sizes"].items() if size)
    yield f"  size      {human_bytes(about['n_bytes'])} ({parts})"


def _run_lines(about: Mapping[str, Any]) -> Iterator[str]:
    yield f"  tensors   {about['n_tensors']:,} ({', '.join(f'{n:,} {of}' for of, n in about['of'].items())})"
    if about["statistics"]:
        names = without_histogram(about["statistics"])
        more = ["a histogram"] if len(names) < len(about["statistics"]) else []
        yield f"  each has  {', '.join([*names, *more])}"
    shadowed = f", {about['n_shadowed']:,} more replaced by a resumed session" if about["n_shadowed"] else ""
    yield f"  steps     {about['n_steps']:,} recorded{shadowed}"
    kinds = [[name or "(none)", kind["n_steps"], kind["first_step"], kind["last_step"]]
             for name, kind in about["kinds"].items()]  # fmt: skip
    if kinds:
        yield from _indented(table(["kind", "steps", "first", "last"], kinds))
    yield f"  sessions  {len(about['sessions'])} on {plural(len(about['ranks']), 'rank')}"
    rows = [
        [
            session["rank"],
            session["number"],
            format_time(session["time"] or 0),
            *(session[name] for name in _STEPS),
            _yes_no(session["is_ended"]),
        ]
        for session in about["sessions"][:_MAX_LINES]
    ]
    yield from _indented(table(["rank", "session", "began", "steps", "first", "last", "ended"], rows))
    if about["scalars"]:
        yield f"  scalars   {len(about['scalars']):,}"
        scalars = [[name, curve["n_points"], curve.get("last_step"), curve.get("last")]
                   for name, curve in list(about["scalars"].items())[:_MAX_LINES]]  # fmt: skip
        yield from _indented(table(["name", "points", "last step", "last value"], scalars))
    levels = ", ".join(f"{n:,} {level}" for level, n in about["levels"].items())
    yield f"  notes     {about['n_notes']:,}{f' ({levels})' if levels else ''}"
    for name in ("config", "environment"):
        lines = list(_flat(about[name]))
        if lines:
            yield f"  {name}"
            yield from (f"    {key} = {format_cell(value)}" for key, value in lines[:_MAX_LINES])
            if len(lines) > _MAX_LINES:
                yield f"    … and {len(lines) - _MAX_LINES:,} more; --json has all"


def _yes_no(truth: bool) -> str:
    return "yes" if truth else "no"


def _indented(lines: list[str]) -> Iterator[str]:
    return (f"    {line}" for line in lines)


def _flat(content: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """Flatten nested mappings: `optimizer.lr = 0.1`."""
    for key, value in content.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
