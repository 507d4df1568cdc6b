"""A figure, and how it is printed: beside its aim and beside its peer."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number."""

    work: str
    on: str
    """The model, or whatever else, it was measured on."""
    value: float
    unit: str
    aim: float | None = None
    """At most this; None where there is none."""
    peer: float | None = None
    peer_note: str = ""
    """Where the peer's number comes from, if not from this run."""
    remark: str = ""

    @property
    def verdict(self) -> str:
        if self.aim is None:
            return ""
        return "met" if self.value <= self.aim else "missed"


HEADER = ("on", "measured", "aim", "", "peer", "peer / ours", "remark")


def row(figure: Figure) -> tuple[str, ...]:
    """The cells of one figure."""
    peer = better = ""
    if figure.peer is not None:
        peer = f"{short(figure.peer)} {figure.unit} {figure.peer_note}".strip()
        better = short(figure.peer / figure.value) if figure.value > 0 else ""
    aim = f"≤ {figure.aim:g}" if figure.aim is not None else ""
    return (figure.on, f"{short(figure.value)} {figure.unit}", aim, figure.verdict, peer, better, figure.remark)


def text(figures: Sequence[Figure], about: str) -> str:
    """Aligned columns for the terminal."""
    rows = [row(figure) for figure in figures]
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    lines = [about]
    for work, some in groupby(figures, key=lambda figure: figure.work):
        lines += ["", work, _line(HEADER, widths)]
        lines += [_line(row(figure), widths) for figure in some]
    return "\n".join([*lines, "", counted(figures)])


def markdown(figures: Sequence[Figure], about: str) -> str:
    """The same as Markdown tables."""
    lines = ["# Benchmarks", "", about]
    for work, some in groupby(figures, key=lambda figure: figure.work):
        lines += ["", f"## {work}", "", f"| {' | '.join(HEADER)} |", "|" + "---|" * len(HEADER)]
        lines += [f"| {' | '.join(row(figure))} |" for figure in some]
    return "\n".join([*lines, "", counted(figures), ""])


def write(figures: Sequence[Figure], about: str, folder: Path) -> None:
    """`bench.json` and `bench.md` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(figure), "verdict": figure.verdict} for figure in figures]
    content = {"about": about, "versions": versions(), "figures": rows}
    (folder / "bench.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    (folder / "bench.md").write_text(markdown(figures, about))


def versions() -> dict[str, str]:
    """What the figures were measured with."""
    found = {"python": platform.python_version()}
    for name in ("cutaway", "torch", "transformers"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def about_this_run(peers: dict[str, str], *, quick: bool) -> str:
    """One line on versions, machine and method."""
    parts = [f"{name} {number}" for name, number in {**versions(), **peers}.items()]
    how = "quick run: few repeats, indicative" if quick else "full run"
    return f"{', '.join(parts)}; {os.cpu_count()} CPUs, one torch thread, CPU time, median of paired ratios; {how}"


def counted(figures: Sequence[Figure]) -> str:
    judged = [figure for figure in figures if figure.verdict]
    n_met = sum(figure.verdict == "met" for figure in judged)
    return f"{n_met} of {len(judged)} aims met"


def short(value: float) -> str:
    """Three significant digits without an exponent."""
    if abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell.rjust(width) for cell, width in zip(cells, widths, strict=True)]
    padded[0], padded[-1] = cells[0].ljust(widths[0]), cells[-1]
    return "  " + "  ".join(padded).rstrip()
