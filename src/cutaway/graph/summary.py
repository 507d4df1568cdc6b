"""A trace on one screen."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutaway.graph.op import Op
    from cutaway.graph.trace import Trace

_LINES = 24


def summary(trace: Trace) -> str:
    """What one looks for first: size, cost, what is odd, and where the time went."""
    count = trace.n_parameters
    frozen = f", {count.frozen:,} frozen" if count.frozen else ""
    saved = len(trace.saved)
    lines = [
        f"Trace of {trace.model_name}: {len(trace)} ops in {sum(1 for m in trace.tables.modules if m.calls)} modules"
        f" ({len(trace.calls)} calls), {human_seconds(trace.seconds)}",
        f"  values      {human_bytes(trace.bytes)}, {'all' if saved == len(trace) else f'{saved} of {len(trace)}'} saved",
        f"  parameters  {count.total:,} ({human_bytes(count.bytes)}){frozen}",
        f"  flops       {human_number(trace.flops)}",
        f"  inputs      {_endpoints(trace.input_paths, trace.inputs)}",
        f"  outputs     {_endpoints(trace.output_paths, trace.outputs)}",
    ]
    if trace.n_backwards:
        lines.append(f"  gradients   {trace.n_backwards} backward pass{'es' if trace.n_backwards > 1 else ''}")
    if trace.compiled:
        lines.append("  compiled    traced through its eager source")
    if trace.tied_parameters:
        lines.append(f"  tied        {_listed(' = '.join(names) for names in trace.tied_parameters)}")
    if trace.unused_parameters:
        lines.append(f"  unused      {_listed(trace.unused_parameters)}")
    if trace.uncalled_modules:
        lines.append(f"  not called  {_listed(trace.uncalled_modules)}")
    if trace.error is not None:
        lines.append(f"  STOPPED     {type(trace.error).__name__}: {str(trace.error).splitlines()[0] if str(trace.error) else ''}")
        if trace.failed:
            lines.append(f"              in {trace.failed}")
    total = sum(op.seconds for op in trace.ops) or 1.0
    lines.append("  time by function")
    for name, row in list(trace.by_function().items())[: max(3, _LINES - len(lines))][:8]:
        share = row["seconds"] / total
        lines.append(
            f"    {name:<30} {int(row['count']):>6}×  {human_seconds(row['seconds']):>9}  {share:>4.0%}"
            f"  {human_number(row['flops']) if row['flops'] else '':>8}"
        )
    return "\n".join(lines)


def human_bytes(n: float) -> str:
    """
    >>> human_bytes(1536), human_bytes(3), human_bytes(5e9)
    ('1.5 KB', '3 B', '4.7 GB')
    """
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TB"


def human_number(n: float) -> str:
    """
    >>> human_number(12), human_number(4_100_000)
    ('12', '4.10 M')
    """
    for unit in ("", " K", " M", " G", " T"):
        if abs(n) < 1000:
            return f"{n:.0f}" if not unit else f"{n:.2f}{unit}"
        n /= 1000
    return f"{n:.2f} P"


def human_seconds(seconds: float) -> str:
    """
    >>> human_seconds(0.00042), human_seconds(1.5)
    ('420 µs', '1.50 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _endpoints(paths: Iterable[str], ops: Iterable[Op]) -> str:
    return _listed(f"{path or op.label} {_shape(op.shape)}" for path, op in zip(paths, ops, strict=True))


def _shape(shape: tuple[int, ...] | None) -> str:
    return "" if shape is None else "×".join(map(str, shape)) or "scalar"


def _listed(items: Iterable[str], most: int = 4) -> str:
    names = list(items)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
