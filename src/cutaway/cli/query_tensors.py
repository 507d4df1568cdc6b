"""What was recorded of tensors: which there are, curves over steps, all statistics of a step, values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cutaway.cli.output import printable, say, say_json, table, without_histogram
from cutaway.cli.paths import has_step, problems_of
from cutaway.cli.wide_table import Line, wide
from cutaway.core.errors import InputError, NotFoundError, SiteError
from cutaway.store.format.passes import is_picked
from cutaway.store.format.records import Row
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Series
from cutaway.store.runs.step import Step

_MOST_VALUES = 100_000
_SHOWN_VALUES = 1_000


def print_sites(runs: Mapping[str, Run], args: argparse.Namespace) -> None:
    """Every tensor that can be asked for."""
    found = [one for name, run in runs.items() for one in _listed(name, run)]
    statistics = list(dict.fromkeys(name for run in runs.values() for name in run.statistics))
    if args.json:
        say_json({"sites": found, "statistics": statistics, "problems": problems_of(runs)})
        return
    rows = [
        [one["run"], one["site"], one["of"], _several(one["n_iterations"]), _several(one["n_passes"]), one["role"]]
        for one in found
    ]
    say(*table(["run", "site", "of", "iterations", "passes", "role"], rows))
    say(f"Of each: {', '.join(statistics) or 'no statistics'}.")


def _listed(name: str, run: Run) -> Iterator[dict[str, Any]]:
    """One entry for each tensor and what of it was recorded; its passes are counted, not listed."""
    rows = {(row.base, row.of): row for row in run.rows if not row.is_sample}
    for (site, of), row in rows.items():
        series = Series(run, site, of=of)
        about = {"run": name, "site": site, "of": of, "role": row.role, "names": row.bare_names}
        yield {**about, "n_iterations": len(series.iterations), "n_passes": series.n_passes}


def _several(n: int) -> int | None:
    """A count that is worth a place in a table."""
    return n if n > 1 else None


def print_curves(runs: Mapping[str, Run], sites: Sequence[str], args: argparse.Namespace) -> None:
    """Statistics over steps."""
    curves: list[dict[str, Any]] = []
    for name, run, series in _series(runs, sites, args.of, args.iteration):
        if args.kind is not None and args.kind not in run.kinds and len(runs) > 1:
            continue
        wanted = args.stat or (run.statistics if args.json else without_histogram(run.statistics))
        if len(runs) > 1:
            wanted = [one for one in wanted if one in run.statistics]
        chosen = series if args.kind is None else series.where(kind=args.kind)
        kinds = chosen.kinds
        for statistic in wanted:
            curve = series.curve(statistic, kind=args.kind)
            places = [place for place, step in enumerate(curve.steps.tolist()) if has_step(args.steps, step)]
            curves.append(
                {
                    "run": name,
                    "site": series.site,
                    "of": series.of,
                    "iteration": series.iteration,
                    "pass": series.pass_,
                    "statistic": statistic,
                    "steps": curve.steps[places],
                    "kinds": [kinds[place] for place in places],
                    "values": curve.values[places],
                    "elapsed": curve.elapsed[places],
                }
            )
    if not curves:
        raise NotFoundError("none of these runs has such a curve: `cutaway query PATH` lists what was recorded.")
    if args.json:
        say_json({"curves": curves, "problems": problems_of(runs)})
        return
    keys = [key for key in ("run", "site", "iteration", "pass", "statistic") if len({one[key] for one in curves}) > 1]
    say(*wide(Line(_title(one, keys), one["steps"].tolist(), one["values"], one["kinds"]) for one in curves))


def _title(curve: Mapping[str, Any], keys: Sequence[str]) -> str:
    """What tells a curve from the others."""
    words = [f"{key} {curve[key]}" if key in ("iteration", "pass") else str(curve[key]) for key in keys]
    return " ".join(words) or str(curve["statistic"])


def print_step(runs: Mapping[str, Run], sites: Sequence[str], args: argparse.Namespace) -> None:
    """All statistics of one step."""
    found: list[dict[str, Any]] = []
    for name, run in runs.items():
        step = _step(run, args)
        wanted = _wanted(run, step, sites, args.iteration)
        matrix = step.matrix
        rows: list[dict[str, Any]] = [
            {"site": row.base, "of": row.of, "iteration": row.iteration, "pass": row.pass_, "role": row.role}
            | {"stats": dict(zip(step.statistics, matrix[number].tolist(), strict=True))}
            for number, row in enumerate(step.rows)
            if not row.is_sample and number in wanted
        ]
        about = {"run": name, "step": step.step, "kind": step.kind, "time": step.time, "session": step.session}
        found.append({**about, "statistics": step.statistics, "about": step.about, "rows": rows})
    if args.json:
        say_json({"steps": found, "problems": problems_of(runs)})
        return
    for one in found:
        kind = f" ({one['kind']})" if one["kind"] else ""
        say(f"{one['run']}, step {one['step']}{kind}")
        names = args.stat or without_histogram(one["statistics"])
        rows = [row for row in one["rows"] if any(value == value for value in row["stats"].values())]
        keys = ["site", "of", *(["iteration"] if any(row["iteration"] for row in rows) else [])]
        keys += ["pass"] if any(row["pass"] > 1 for row in rows) else []
        lines: list[list[Any]] = [
            [*(row[key] for key in keys), *(row["stats"].get(name) for name in names)] for row in rows
        ]
        say(*table([*keys, *names], lines))


def print_values(runs: Mapping[str, Run], sites: Sequence[str], args: argparse.Namespace) -> None:
    """The values of tensors at one step, as far as they can be shown."""
    found: list[dict[str, Any]] = []
    for name, run in runs.items():
        step = _step(run, args)
        for row in _rows(run, step, sites, args):
            raw = step.raw(row)
            if raw is None:
                moment = step[row.base].where(iteration=row.iteration, pass_=row.pass_)
                moment.raw  # noqa: B018  (says that only statistics were recorded)
                continue
            array = raw.array()
            if args.json and array.size > _MOST_VALUES:
                raise InputError(
                    f"{row.site!r} has {array.size:,} values at step {step.step}, and at most {_MOST_VALUES:,} are "
                    f"printed: `cutaway export {run.path} out/ --format npy --at {row.site}` writes them."
                )
            about = {"run": name, "step": step.step, "site": row.base, "of": row.of}
            about |= {"iteration": row.iteration, "pass": row.pass_}
            found.append({**about, "dtype": raw.dtype, "shape": list(raw.shape), "value": array})
    if args.json:
        say_json({"values": found, "problems": problems_of(runs)})
        return
    for one in found:
        iteration = f", iteration {one['iteration']}" if one["iteration"] else ""
        iteration += f", pass {one['pass']}" if len(found) > 1 and any(other["pass"] > 1 for other in found) else ""
        of = "" if one["of"] == "value" else f" {one['of']}"
        head = f"{one['run']}, step {one['step']}{iteration}, {one['site']}{of}: {one['dtype']} {one['shape']}"
        say(head)
        text = np.array2string(one["value"], threshold=_SHOWN_VALUES, max_line_width=100)
        say(*(f"  {line}" for line in text.splitlines()))


def _series(
    runs: Mapping[str, Run], sites: Sequence[str], of: str, iteration: int | None
) -> Iterator[tuple[str, Run, Series]]:
    """Each pass of each tensor asked for, in each run that has it."""
    n_found = 0
    for name, run in runs.items():
        for asked in sites:
            matched = _matched(run, asked) if len(runs) == 1 else run.match(asked)
            for series in matched:
                keys = [
                    key
                    for key in sorted(run.rows_of(series.site))
                    if key.of == of and is_picked(key.where, iteration, series.pass_)
                ]
                if not keys and len(matched) == 1 and len(runs) == 1:
                    series.other(of, iteration=iteration)  # says what was recorded of it
                for key in keys:
                    n_found += 1
                    yield name, run, Series(run, series.site, of=of, iteration=key.iteration, pass_=key.pass_)
    if not n_found:
        asked = ", ".join(map(repr, sites))
        many = f"none of the {len(runs)} runs" if len(runs) > 1 else "nobody"
        raise SiteError(f"{many} recorded {of!r} of {asked}: `cutaway query PATH` lists what was recorded.")


def _matched(run: Run, asked: str) -> tuple[Series, ...]:
    return run.match(asked) or (run[asked],)  # which says what is there instead


def _step(run: Run, args: argparse.Namespace) -> Step:
    return run.at(-1 if args.at_step is None else args.at_step)


def _wanted(run: Run, step: Step, sites: Sequence[str], iteration: int | None) -> set[int]:
    """The rows of a step that are asked for; of all tensors where none is named."""
    asked = [(series.site, series.pass_) for site in sites for series in _matched(run, site)]
    asked = asked or [(site, None) for site in step.tensors.sites]
    return {
        number
        for site, pass_ in asked
        for key, number in step.tensors.rows(site).items()
        if is_picked(key.where, iteration, pass_)
    }


def _rows(run: Run, step: Step, sites: Sequence[str], args: argparse.Namespace) -> list[Row]:
    of, wanted = args.of, _wanted(run, step, sites, args.iteration)
    found = [row for number, row in enumerate(step.rows) if number in wanted and row.of == of]
    if not found:
        asked = ", ".join(map(printable, sites))
        raise SiteError(f"no {of!r} of {asked} was recorded at step {step.step} of run {run.name!r}.")
    is_one = len(found) == 1
    return [row for row in found if is_one or step.meta(row) is not None]
