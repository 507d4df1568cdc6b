"""The `repr` of a trace: a summary on one screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from cutaway.core.formatting import clipped, human_bytes, human_number, human_seconds, listed, plural
from cutaway.graph.analysis.nonfinite import mention

if TYPE_CHECKING:
    from cutaway.graph.op import Op
    from cutaway.graph.trace import Trace

_MOST_LINES = 24
_MOST_FUNCTIONS = 8
_WIDTH = 100


def summary(trace: Trace) -> str:
    """Size, cost, peculiarities and time by function."""
    lines = [*_size(trace), *_oddities(trace), "  time by function"]
    most = max(3, min(_MOST_FUNCTIONS, _MOST_LINES - len(lines)))
    return "\n".join(clipped(line) for line in [*lines, *_functions(trace, most)])


def _size(trace: Trace) -> list[str]:
    count, saved = trace.n_parameters, len(trace.saved)
    n_called = sum(1 for module in trace.tables.modules if module.calls)
    frozen = f", {count.frozen:,} frozen" if count.frozen else ""
    n_saved = "all" if saved == len(trace) else f"{saved} of {len(trace)}"
    return [
        f"Trace of {trace.model_name}: {len(trace)} ops in {n_called} modules ({len(trace.calls)} calls), "
        f"{human_seconds(trace.seconds)}",
        f"  values      {human_bytes(trace.bytes)}, {n_saved} saved",
        f"  parameters  {count.total:,} ({human_bytes(count.bytes)}){frozen}",
        f"  flops       {human_number(trace.flops)}",
        f"  inputs      {_endpoints(trace.input_paths, trace.inputs)}",
        f"  outputs     {_endpoints(trace.output_paths, trace.outputs)}",
    ]


def _oddities(trace: Trace) -> list[str]:
    """Lines on what not every trace has."""
    lines = []
    if trace.n_backwards:
        lines.append(f"  gradients   {plural(trace.n_backwards, 'backward pass', 'backward passes')}")
    if trace.is_compiled:
        lines.append("  compiled    traced as eager code")
    if trace.tied_parameters:
        lines.append(f"  tied        {listed(' = '.join(names) for names in trace.tied_parameters)}")
    if trace.unused_parameters:
        lines.append(f"  unused      {listed(trace.unused_parameters)}")
    if trace.uncalled_modules:
        lines.append(f"  not called  {listed(trace.uncalled_modules)}")
    if trace.unexplained:
        labels = listed(op.label for op in trace.unexplained)
        lines.append(f"  UNEXPLAINED {labels}, made by code that capture cannot see")
    lines += [f"  NOTE        {note}" for note in trace.notes]
    if (nonfinite := mention(trace)) is not None:
        lines.append(f"  NONFINITE   {nonfinite}")
    if trace.error is not None:
        first, *_ = str(trace.error).splitlines() or [""]
        lines.append(f"  STOPPED     {type(trace.error).__name__}: {first}")
        if trace.failed:
            lines.append(f"              in {trace.failed}")
    return lines


def _functions(trace: Trace, most: int) -> list[str]:
    rows = trace.ops.totals("function")
    lines = [
        f"    {clipped(name, 30):<30} {row.count:>6}×  {human_seconds(row.seconds):>9}"
        f"  {row.share:>4.0%}  {human_number(row.flops) if row.flops else '':>8}".rstrip()
        for name, row in rows.items()
    ]
    if len(lines) <= most:
        return lines
    return [*lines[: most - 1], f"    … and {plural(len(lines) - most + 1, 'more function')}"]


def _endpoints(paths: Iterable[str], ops: Iterable[Op]) -> str:
    return listed(f"{path or op.label} {_shape(op.shape)}" for path, op in zip(paths, ops, strict=True))


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else "×".join(map(str, shape)) or "scalar"
