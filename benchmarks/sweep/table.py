"""The verdicts as text, Markdown and JSON."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from statistics import median

from benchmarks.report import versions
from benchmarks.sweep import packages
from benchmarks.sweep.checks import Verdict
from benchmarks.sweep.torch_databases import DATABASES

_KINDS = {
    r"requires the|No module named": "needs a package that cannot be had here",
    r'missing the required "forward"': "has no forward of its own",
    r"missing \d+ required|cannot be None|get_seq_length": "asks for an object of another model",
    r"million parameters are left": "stays too large",
    r"validation|no attribute|NoneType|KeyError|not set": "its default configuration is incomplete, or names no class",
}
"""What an error says → the kind of reason, first match."""
_OTHER = "sizes that the small configuration does not get right"


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many of how many, in a sentence."""
    runnable = [v for v in verdicts if v.is_runnable]
    traced = [v for v in verdicts if v.outcome == "traced"]
    n_ops, n_proven = sum(v.n_ops for v in traced), sum(v.n_proven for v in traced)
    return (
        f"{len(traced)} of {len(runnable)} runnable architectures traced and validated, all checks passed; "
        f"{len(verdicts) - len(runnable)} of {len(verdicts)} could not be made small or do not run plainly. "
        f"{n_proven:,} of {n_ops:,} ops proven."
    )


def timed(verdicts: Sequence[Verdict]) -> str:
    """Seconds traced and validated beside plain."""
    timed = [v for v in verdicts if v.plain_seconds and v.traced_seconds]
    if not timed:
        return "Nothing was timed."
    plain, traced = sum(v.plain_seconds for v in timed), sum(v.traced_seconds for v in timed)
    proof = sum(v.validated_seconds for v in timed)
    times = f"Plain {plain:.2f} s, traced {traced:.2f} s, validation {proof:.2f} s in all"
    return (
        f"{times}; medians of the ratios to plain: traced {_ratio(timed)} ×, validation {_ratio(timed, proof=True)} ×."
    )


def _ratio(verdicts: Sequence[Verdict], *, proof: bool = False) -> str:
    spent = [(v.validated_seconds if proof else v.traced_seconds, v.plain_seconds) for v in verdicts]
    ratios = [seconds / plain for seconds, plain in spent if seconds and plain]
    return f"{median(ratios):.1f}" if ratios else "–"


def by_family(verdicts: Sequence[Verdict]) -> list[tuple[str, list[Verdict]]]:
    """Families in the order in which they were swept."""
    return [(family, list(some)) for family, some in groupby(verdicts, key=lambda v: v.family)]


def grouped(verdicts: Sequence[Verdict]) -> list[tuple[str, list[Verdict]]]:
    """Outcomes other than traced, the most frequent first."""
    counts = Counter(v.outcome for v in verdicts if v.outcome != "traced")
    return [(outcome, [v for v in verdicts if v.outcome == outcome]) for outcome, _ in counts.most_common()]


def kind_of_reason(verdict: Verdict) -> str:
    """Why an architecture could not be run, in a few words."""
    first = verdict.reason.partition("; narrow: ")[0]
    return next((kind for pattern, kind in _KINDS.items() if re.search(pattern, first)), _OTHER)


def text(verdicts: Sequence[Verdict]) -> str:
    lines = []
    for family, some in by_family(verdicts):
        lines += [f"{family or 'all'}: {counted(some)}", timed(some), ""]
        for outcome, few in grouped(some):
            lines += [f"{outcome} ({len(few)})", *(f"  {v.name}: {v.reason}"[:240] for v in few), ""]
    constants = [(v.name, line) for v in verdicts for line in v.constants if "UNEXPLAINED" in line]
    if constants:
        lines += [f"unexplained constants ({len(constants)})", *(f"  {name}: {line}" for name, line in constants)]
    return "\n".join(lines).rstrip()


def markdown(verdicts: Sequence[Verdict]) -> str:
    """Everything, one row an architecture."""
    lines = [*_summary(verdicts, "# Sweep")]
    header = "| architecture | ops | proven | opaque | undefined | plain ms | traced ms | validation ms | notes |"
    for family, some in by_family(verdicts):
        lines += ["", f"## {family}", "", header, "|" + "---|" * 9]
        for v in sorted(some, key=lambda v: v.name):
            if v.outcome == "traced":
                seconds = (v.plain_seconds, v.traced_seconds, v.validated_seconds)
                numbers = [v.n_ops, v.n_proven, v.n_opaque, v.n_undefined, *(f"{s * 1e3:.1f}" for s in seconds)]
                lines.append(f"| {v.name} | {' | '.join(map(str, numbers))} | {_cell('; '.join(v.notes))} |")
    return "\n".join([*lines, ""])


def page(verdicts: Sequence[Verdict]) -> str:
    """The page of the documentation: counts, failures, and what could not be run."""
    about = (
        "This page is the result of `make sweep`; `make sweep-docs` writes it. Every architecture is built with random "
        "weights, run, traced, and validated with `trace.validate()`. The outputs and the random state must equal "
        "those of the plain run, every output must be linked to its inputs, and the graph must be the same without "
        "saved values. Times are from single runs on a busy machine: read the ratios as orders of magnitude."
    )
    models = [v for v in verdicts if v.family not in DATABASES]
    lines = [*_summary(models, "# Sweep", about), *databases([v for v in verdicts if v.family in DATABASES])]
    lines += ["", "## Names", ""]
    for family, some in by_family(models):
        names = ", ".join(f"{v.name}" for v in sorted(some, key=lambda v: v.name) if v.outcome == "traced")
        lines += [f"**{family}**: {names}", ""]
    return "\n".join(lines)


def databases(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """The section on torch's own databases."""
    if not verdicts:
        return
    yield from ("", "## torch's own databases", "")
    yield (
        "torch tests itself with databases of sample inputs (`torch.testing._internal`: `op_db`, `module_db`, "
        "`optim_db`). Every entry is run plainly and traced, on its first samples, in place where it has such a form, "
        "modules in training and in eval mode, and watched through a backward pass. Results, gradients, arguments, "
        "buffers and the random state must be bit-equal, `trace.validate()` must find no failure, and no constant may "
        "be unexplained. Every setting of every optimizer trains a small model with and without `cutaway.record`; "
        "weights and optimizer state must be bit-equal."
    )
    yield from ("", "| database | entries | run | as plain torch | samples | ops | proven |", "|" + "---|" * 7)
    for family, some in by_family(verdicts):
        run = [v for v in some if v.is_runnable]
        same = [v for v in run if v.outcome == "traced"]
        sums = [sum(v.n_samples for v in run), sum(v.n_ops for v in run), sum(v.n_proven for v in run)]
        yield f"| {family} | {' | '.join(f'{n:,}' for n in (len(some), len(run), len(same), *sums))} |"
    opaque, undefined = sum(v.n_opaque for v in verdicts), sum(v.n_undefined for v in verdicts)
    yield from ("", f"Of the ops that are not proven, {opaque:,} are opaque and {undefined:,} have arbitrary contents.")
    missing = sorted(v.name for v in verdicts if not v.is_runnable)
    if missing:
        yield from ("", f"Without a sample that runs on the CPU: {', '.join(missing)}.")
    for v in verdicts:
        if v.is_runnable and v.outcome != "traced":
            yield f"- {v.family} {v.name}: {v.outcome}: {_cell(v.reason)}"


def _summary(verdicts: Sequence[Verdict], title: str, about: str = "") -> Iterator[str]:
    yield from (title, "", *([about, ""] if about else []))
    yield ", ".join(f"{name} {number}" for name, number in _versions().items()) + "; CPU, one thread."
    yield ""
    header = ("family", "architectures", "run plainly", "traced and validated", "ops", "proven")
    yield f"| {' | '.join(header)} | traced / plain | validation / plain |"
    yield "|" + "---|" * 8
    for family, some in [*by_family(verdicts), ("all", list(verdicts))]:
        traced = [v for v in some if v.outcome == "traced"]
        counts = [len(some), sum(v.is_runnable for v in some), len(traced)]
        ops = [sum(v.n_ops for v in traced), sum(v.n_proven for v in traced)]
        cells = [*(f"{n:,}" for n in (*counts, *ops)), _ratio(traced), _ratio(traced, proof=True)]
        yield f"| {family} | {' | '.join(cells)} |"
    yield ""
    traced = [v for v in verdicts if v.outcome == "traced"]
    opaque, undefined = sum(v.n_opaque for v in traced), sum(v.n_undefined for v in traced)
    yield (
        f"Ratios are medians. Of the ops that are not proven, {opaque:,} are opaque (code that cannot be called on its "
        f"own) and {undefined:,} have arbitrary contents (`empty`)."
    )
    failed = [v for v in verdicts if v.is_runnable and v.outcome != "traced"]
    if failed:
        yield from ("", "## Not traced or not valid", "", "| architecture | outcome | reason |", "|---|---|---|")
        yield from (f"| {v.family} {v.name} | {v.outcome} | {_cell(v.reason)} |" for v in failed)
    missing = sorted((v for v in verdicts if not v.is_runnable), key=kind_of_reason)
    if missing:
        yield from ("", "## Not run", "", "| reason | architectures |", "|---|---|")
        for kind, some in groupby(missing, key=kind_of_reason):
            yield f"| {kind} | {', '.join(sorted(v.name for v in some))} |"


def write(verdicts: Sequence[Verdict], folder: Path) -> None:
    """`sweep.json` and `sweep.md` in the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    content = {"versions": _versions(), "summary": counted(verdicts), "verdicts": [asdict(v) for v in verdicts]}
    (folder / "sweep.json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    (folder / "sweep.md").write_text(markdown(verdicts))


def read(folder: Path) -> list[Verdict]:
    """The verdicts of an earlier sweep."""
    return [Verdict(**row) for row in json.loads((folder / "sweep.json").read_text())["verdicts"]]


def joined(sweeps: Iterable[Sequence[Verdict]]) -> list[Verdict]:
    """Several sweeps as one: what was swept again counts as it came out last."""
    found: dict[tuple[str, str], Verdict] = {}
    for verdicts in sweeps:
        found.update({(verdict.family, verdict.name): verdict for verdict in verdicts})
    return list(found.values())


def _versions() -> dict[str, str]:
    return versions() | packages.versions()


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")[:300]
