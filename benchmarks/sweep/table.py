"""The verdicts as text, Markdown and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from benchmarks.report import versions
from benchmarks.sweep.checks import Verdict


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many of how many, in a sentence."""
    runnable = [v for v in verdicts if v.is_runnable]
    traced = [v for v in verdicts if v.outcome == "traced"]
    n_ops, n_proven = sum(v.n_ops for v in traced), sum(v.n_proven for v in traced)
    return (
        f"{len(traced)} of {len(runnable)} runnable architectures traced, all checks passed; "
        f"{len(verdicts) - len(runnable)} of {len(verdicts)} could not be made small or do not run plainly. "
        f"{n_ops:,} ops, {n_proven:,} proven by replay."
    )


def timed(verdicts: Sequence[Verdict]) -> str:
    """Seconds traced beside plain."""
    timed = [v for v in verdicts if v.plain_seconds and v.traced_seconds]
    if not timed:
        return "Nothing was timed."
    plain, traced = sum(v.plain_seconds for v in timed), sum(v.traced_seconds for v in timed)
    ratio = median(v.traced_seconds / v.plain_seconds for v in timed)
    times = f"Plain {plain:.2f} s, traced {traced:.2f} s in all: {traced / plain:.2f} ×"
    return f"{times}; median of the ratios {ratio:.2f} ×."


def grouped(verdicts: Sequence[Verdict]) -> list[tuple[str, list[Verdict]]]:
    """Outcomes other than traced, the most frequent first."""
    counts = Counter(v.outcome for v in verdicts if v.outcome != "traced")
    return [(outcome, [v for v in verdicts if v.outcome == outcome]) for outcome, _ in counts.most_common()]


def text(verdicts: Sequence[Verdict]) -> str:
    lines = [counted(verdicts), timed(verdicts)]
    for outcome, some in grouped(verdicts):
        lines += ["", f"{outcome} ({len(some)})"]
        lines += [f"  {v.name}: {v.reason}"[:240] for v in some]
    constants = [(v.name, line) for v in verdicts for line in v.constants if "UNEXPLAINED" in line]
    if constants:
        lines += ["", f"unexplained constants ({len(constants)})", *(f"  {name}: {line}" for name, line in constants)]
    return "\n".join(lines)


def markdown(verdicts: Sequence[Verdict]) -> str:
    about = ", ".join(f"{name} {number}" for name, number in versions().items())
    lines = ["# Sweep", "", f"{about}; random weights, CPU, one thread.", "", counted(verdicts), "", timed(verdicts)]
    for outcome, some in grouped(verdicts):
        lines += ["", f"## {outcome} ({len(some)})", "", "| architecture | reason |", "|---|---|"]
        lines += [f"| {v.name} | {_cell(v.reason)} |" for v in some]
    lines += [
        "",
        "## traced",
        "",
        "| architecture | ops | proven | plain ms | traced ms | constants | notes |",
        "|" + "---|" * 7,
    ]
    for v in sorted(verdicts, key=lambda v: v.name):
        if v.outcome == "traced":
            seconds = f"{v.plain_seconds * 1e3:.1f} | {v.traced_seconds * 1e3:.1f}"
            counts = f"{v.n_ops} | {v.n_proven} | {seconds} | {len(v.constants)}"
            lines.append(f"| {v.name} | {counts} | {_cell('; '.join(v.notes))} |")
    return "\n".join([*lines, ""])


def write(verdicts: Sequence[Verdict], folder: Path) -> None:
    """`sweep.json` and `sweep.md` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"versions": versions(), "summary": counted(verdicts), "verdicts": [asdict(v) for v in verdicts]}
    (folder / "sweep.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    (folder / "sweep.md").write_text(markdown(verdicts))


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:300]
