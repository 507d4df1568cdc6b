"""Prints the recorded tensors: their list, curves over steps, statistics of one step, values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from cutaway.cli.output import exact_count, print_json, print_lines, printable, table, without_histogram
from cutaway.cli.paths import damage_of, has_step
from cutaway.cli.wide_table import Column, wide_table
from cutaway.core.errors import AmbiguousSiteError, InputError, NotFoundError, SiteError
from cutaway.core.formatting import listed, nearest_hint
from cutaway.store.format.passes import is_selected
from cutaway.store.format.records import Row
from cutaway.store.runs.run import Run
from cutaway.store.runs.series import Series
from cutaway.store.runs.step import Step

_MAX_JSON_VALUES = 100_000
_MAX_PRINTED_VALUES = 1_000


def print_sites(runs: Mapping[str, Run], args: argparse.Namespace) -> None:
    """Print every recorded tensor."""
    entries = [entry for name, run in runs.items() for entry in _site_entries(name, run)]
    statistics = list(dict.fromkeys(name for run in runs.values() for name in run.statistics))
    if args.json:
        print_json({"sites": entries, "statistics": statistics, "damage": damage_of(runs)})
        return
    rows = [
        [
            entry["run"],
            entry["site"],
            entry["of"],
            _blank_if_one(entry["n_iterations"]),
            _blank_if_one(entry["n_passes"]),
            entry["role"],
        ]
        for entry in entries
    ]
    print_lines(*table(["run", "site", "of", "iterations", "passes", "role"], rows))
    print_lines(f"Statistics of each: {', '.join(statistics) or 'none'}.")


def _site_entries(name: str, run: Run) -> Iterator[dict[str, Any]]:
    """One entry per tensor and recorded quantity; passes are counted, not listed."""
    rows = {(row.base, row.of): row for row in run.rows if not row.is_sample}
    for (site, of), row in rows.items():
        series = Series(run, site, of=of)
        about = {"run": name, "site": site, "of": of, "role": row.role, "names": row.bare_names}
        yield {**about, "n_iterations": len(series.iterations), "n_passes": series.n_passes}


def _blank_if_one(n: int) -> int | None:
    """Blank out counts of 1 in the table."""
    return n if n > 1 else None


def print_curves(runs: Mapping[str, Run], sites: Sequence[str], args: argparse.Namespace) -> None:
    """Print statistics over steps."""
    curves: list[dict[str, Any]] = []
    for name, run, series in _series(runs, sites, args.of, args.iteration):
        if args.kind is not None and args.kind not in run.kinds and len(runs) > 1:
            continue
        wanted = args.stat or (run.statistics if args.json else without_histogram(run.statistics))
        if len(runs) == 1:
            _check_statistics(wanted, run.statistics, run)
        else:
            wanted = [statistic for statistic in wanted if statistic in run.statistics]
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
        raise NotFoundError("none of these runs has such a curve. `cutaway query PATH` lists what was recorded.")
    if args.json:
        print_json({"curves": curves, "damage": damage_of(runs)})
        return
    keys = ("run", "site", "iteration", "pass", "statistic")
    differing = [key for key in keys if len({curve[key] for curve in curves}) > 1]
    print_lines(
        *wide_table(
            Column(_title(curve, differing), curve["steps"].tolist(), _exact(curve), curve["kinds"]) for curve in curves
        )
    )


def _exact(curve: Mapping[str, Any]) -> list[Any]:
    """The numbers of a curve as table cells."""
    return [exact_count(curve["statistic"], value) for value in curve["values"].tolist()]


def _title(curve: Mapping[str, Any], keys: Sequence[str]) -> str:
    """The column title: only what distinguishes this curve from the others."""
    words = [f"{key} {curve[key]}" if key in ("iteration", "pass") else str(curve[key]) for key in keys]
    return " ".join(words) or str(curve["statistic"])


def print_step(runs: Mapping[str, Run], sites: Sequence[str], args: argparse.Namespace) -> None:
    """Print all statistics of one step."""
    entries: list[dict[str, Any]] = []
    for name, run in runs.items():
        step = _step(run, args)
        wanted = _row_numbers(run, step, sites, args.iteration)
        _check_statistics(args.stat or (), step.statistics, run)
        matrix = step.matrix
        rows: list[dict[str, Any]] = [
            {"site": row.base, "of": row.of, "iteration": row.iteration, "pass": row.pass_, "role": row.role}
            | {"stats": dict(zip(step.statistics, matrix[number].tolist(), strict=True))}
            for number, row in enumerate(step.rows)
            if not row.is_sample and number in wanted
        ]
        about = {"run": name, "step": step.step, "kind": step.kind, "time": step.time, "session": step.session}
        entries.append({**about, "statistics": step.statistics, "about": step.about, "rows": rows})
    if args.json:
        print_json({"steps": entries, "damage": damage_of(runs)})
        return
    for entry in entries:
        kind = f" ({entry['kind']})" if entry["kind"] else ""
        print_lines(f"{entry['run']}, step {entry['step']}{kind}")
        names = args.stat or without_histogram(entry["statistics"])
        # Rows that are all NaN hold arrays only (per unit, per sample).
        rows = [row for row in entry["rows"] if any(value == value for value in row["stats"].values())]
        keys = ["site", "of", *(["iteration"] if any(row["iteration"] for row in rows) else [])]
        keys += ["pass"] if any(row["pass"] > 1 for row in rows) else []
        lines: list[list[Any]] = [
            [*(row[key] for key in keys), *(exact_count(name, row["stats"].get(name)) for name in names)]
            for row in rows
        ]
        print_lines(*table([*keys, *names], lines))


def print_values(runs: Mapping[str, Run], sites: Sequence[str], args: argparse.Namespace) -> None:
    """Print the values of tensors at one step; large ones are abbreviated."""
    entries: list[dict[str, Any]] = []
    for name, run in runs.items():
        step = _step(run, args)
        for row in _rows(run, step, sites, args):
            raw = step.raw(row)
            if raw is None:
                moment = step[row.base].where(iteration=row.iteration, pass_=row.pass_)
                moment.raw  # noqa: B018  (raises: only statistics were recorded)
                continue
            array = raw.array()
            if args.json and array.size > _MAX_JSON_VALUES:
                raise InputError(
                    f"{row.site!r} has {array.size:,} values at step {step.step}; --json prints at most "
                    f"{_MAX_JSON_VALUES:,}. `cutaway export {run.path} out/ --format npy --at {row.site}` writes all."
                )
            about = {"run": name, "step": step.step, "site": row.base, "of": row.of}
            about |= {"iteration": row.iteration, "pass": row.pass_}
            entries.append({**about, "dtype": raw.dtype, "shape": list(raw.shape), "value": array})
    if args.json:
        print_json({"values": entries, "damage": damage_of(runs)})
        return
    for entry in entries:
        iteration = f", iteration {entry['iteration']}" if entry["iteration"] else ""
        iteration += (
            f", pass {entry['pass']}" if len(entries) > 1 and any(other["pass"] > 1 for other in entries) else ""
        )
        of = "" if entry["of"] == "value" else f" {entry['of']}"
        head = (
            f"{entry['run']}, step {entry['step']}{iteration}, {entry['site']}{of}: {entry['dtype']} {entry['shape']}"
        )
        print_lines(head)
        text = np.array2string(entry["value"], threshold=_MAX_PRINTED_VALUES, max_line_width=100)
        print_lines(*(f"  {line}" for line in text.splitlines()))


def _series(
    runs: Mapping[str, Run], sites: Sequence[str], of: str, iteration: int | None
) -> Iterator[tuple[str, Run, Series]]:
    """Each pass of each requested tensor, in each run that has it."""
    n_found = 0
    for name, run in runs.items():
        for asked in sites:
            matched = _match(run, asked) if len(runs) == 1 else run.match(asked)
            for series in matched:
                keys = [
                    key
                    for key in sorted(run.rows_of(series.site))
                    if key.of == of and is_selected(key.where, iteration, series.pass_)
                ]
                if not keys and len(matched) == 1 and len(runs) == 1:
                    series.other(of, iteration=iteration)  # raises: names what was recorded of it
                for key in keys:
                    n_found += 1
                    yield name, run, Series(run, series.site, of=of, iteration=key.iteration, pass_=key.pass_)
    if not n_found:
        asked = ", ".join(map(repr, sites))
        which = f"none of the {len(runs)} runs has" if len(runs) > 1 else "the run does not have"
        raise SiteError(f"{which} {of!r} of {asked}. `cutaway query PATH` lists what was recorded.")


def _match(run: Run, asked: str) -> tuple[Series, ...]:
    matches = run.match(asked)
    if matches:
        return matches
    try:
        return (run[asked],)
    except AmbiguousSiteError:
        raise
    except SiteError:
        # The library's message refers to `run.sites`, which a command line does not have.
        raise SiteError(
            f"no site matches {asked!r} in run {run.name!r}.{nearest_hint(asked, run.sites)} "
            f"`cutaway query {run.path}` lists all {len(run.sites):,}."
        ) from None


def _check_statistics(asked: Sequence[str], known: Sequence[str], run: Run) -> None:
    for name in asked:
        if name not in known:
            near = nearest_hint(name, known) or f" It has: {listed(without_histogram(known), 8)}."
            raise NotFoundError(f"run {run.name!r} has no statistic {name!r}.{near}")


def _step(run: Run, args: argparse.Namespace) -> Step:
    return run.at(-1 if args.at_step is None else args.at_step)


def _row_numbers(run: Run, step: Step, sites: Sequence[str], iteration: int | None) -> set[int]:
    """The requested row numbers of a step; all tensors if `sites` is empty."""
    asked = [(series.site, series.pass_) for site in sites for series in _match(run, site)]
    asked = asked or [(site, None) for site in step.tensors.sites]
    return {
        number
        for site, pass_ in asked
        for key, number in step.tensors.rows(site).items()
        if is_selected(key.where, iteration, pass_)
    }


def _rows(run: Run, step: Step, sites: Sequence[str], args: argparse.Namespace) -> list[Row]:
    of, wanted = args.of, _row_numbers(run, step, sites, args.iteration)
    rows = [row for number, row in enumerate(step.rows) if number in wanted and row.of == of]
    if not rows:
        asked = ", ".join(map(printable, sites))
        raise SiteError(f"step {step.step} of run {run.name!r} has no {of!r} of {asked}.")
    is_one = len(rows) == 1
    return [row for row in rows if is_one or step.meta(row) is not None]
