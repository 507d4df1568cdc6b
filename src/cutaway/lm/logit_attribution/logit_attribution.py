"""`gen.logit_attribution()`: direct logit attribution, what each part of a model adds to the logit of each target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import get_args

import torch
from torch import Tensor

from cutaway.capture.interventions.targets import ModelIndex
from cutaway.core.errors import InputError, MemoryLimitError
from cutaway.core.formatting import hint, human_bytes
from cutaway.lm.arguments import byte_limit
from cutaway.lm.logit_attribution.contributions import Split, split, split_experts
from cutaway.lm.logit_attribution.direction import Direction, direction
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.output_drift import drift_notes
from cutaway.lm.model.parts import Contribution, Stack
from cutaway.lm.model.unit_values import feed_forward_values
from cutaway.lm.saliency.targets import class_texts, make_objective, target_indices
from cutaway.results.lm.generation import Contrast, Generation
from cutaway.results.lm.logit_attribution import AttributedBy, Group, LogitAttribution

LEVELS: tuple[str, ...] = get_args(AttributedBy)


def logit_attribution(
    gen: Generation,
    by: AttributedBy = "component",
    *,
    contrast: Contrast = None,
    only: int | slice | Sequence[int] | None = None,
    limit: int = 2**30,
) -> LogitAttribution:
    """Direct logit attribution: what each part adds to the logit; see `Generation.logit_attribution`.

    The final residual stream is the sum of everything added to it. With the scale of the final norm frozen, the logit
    is a linear map of that stream, so it is a sum too.
    """
    if by not in LEVELS:
        raise InputError(f"by={by!r}: give {', '.join(map(repr, LEVELS))}.{hint(by, LEVELS)}")
    limit = byte_limit(limit)
    with torch.inference_mode(False):
        chosen = target_indices(gen, only)
        run = PromptRun.of(gen)
        indices = torch.tensor(chosen, device=run.device)
        run = replace(run, rows=run.rows[indices], classes=run.classes[indices])
        stack = _residual_stack(run)
        _check(run, stack, by, limit)
        objective = make_objective(gen, "logit", contrast, chosen, run.device)
        site_values = _SiteValues.of(run, stack, by)
        towards = direction(run, objective, site_values.last)
        groups, columns = _groups(run, stack, by, site_values, towards)
    is_plain = objective.others is None and not towards.is_capped
    notes = drift_notes(gen, "logit" if is_plain else "", towards.logits.cpu().numpy(), chosen)
    notes += ["logits before the soft cap of the model"] if towards.is_capped else []
    return LogitAttribution(
        by=by,
        groups=tuple(groups),
        values=torch.cat(columns, 1).cpu().numpy(),
        logits=towards.logits.cpu().numpy(),
        targets=tuple(gen.targets.pieces[i] for i in chosen),
        contrast=() if objective.others is None else class_texts(gen, objective.others),
        is_capped=towards.is_capped,
        about={name: gen.about[name] for name in ("model", "name") if name in gen.about},
        notes=tuple(notes),
    )


@dataclass(frozen=True, slots=True)
class _SiteValues:
    """Values of one forward pass."""

    last: Tensor
    """(position, d): the residual stream after the last block."""
    values: dict[str, Tensor]
    """Site → (target, unit); (position, unit) if the positions of the targets are not known yet."""
    is_cut: bool

    @staticmethod
    def of(run: PromptRun, stack: Stack, by: str) -> _SiteValues:
        parts = [part for block in stack.blocks for part in block.contributions]
        sites = [stack.stream[0], *(part.site for part in parts)]
        if by == "head":
            sites += [part.heads.mixed for part in parts if part.heads is not None and part.heads.mixed is not None]
        if by == "neuron":
            sites += [part.units.site for part in parts if part.units is not None and part.units.n_experts == 1]
        is_cut = run.kind != "classifier"  # a sequence classifier picks a position itself
        end = stack.stream[-1]
        values: dict[str, Tensor] = {}

        def note(site: str, value: Tensor) -> None:
            flat = value.detach().reshape(-1, value.shape[-1])  # one sample: rows are positions
            values[site] = flat[run.rows] if is_cut and site != end else flat.clone()

        with run.observe(list(dict.fromkeys([*sites, end])), note):
            run.forward()
        return _SiteValues(values[end], values, is_cut)

    def at(self, site: str, rows: Tensor) -> Tensor:
        """(target, unit)."""
        return self.values[site] if self.is_cut else self.values[site][rows]


def _groups(
    run: PromptRun, stack: Stack, by: str, site_values: _SiteValues, towards: Direction
) -> tuple[list[Group], list[Tensor]]:
    """The groups of parts, and what each part adds (target, part)."""
    addresses = ModelIndex.of(run.model)
    rows, u = towards.rows, towards.u

    def along(site: str) -> Tensor:
        return (site_values.at(site, rows).double() * u).sum(-1)

    parts: list[tuple[Group, Tensor]] = [
        (Group("embedding", "embedding", stack.stream[0]), along(stack.stream[0])[:, None])
    ]
    # Rows of experts are sorted by expert, not by position.
    experts = _experts(run, stack, by)
    together: list[Tensor] = []
    for block in stack.blocks:
        layer = block.index
        if by == "layer":
            total = sum((along(part.site) for part in block.contributions), torch.zeros_like(u[:, 0]))
            parts.append((Group("layer", f"layer {layer}", block.address, layer), total[:, None]))
            continue
        for part in block.contributions:
            what = _part_name(part)
            whole = Group(part.kind, f"{layer} {what}", part.site, layer, is_cross=what.startswith("cross"))
            value = along(part.site)
            if by == "mlp" and part.kind == "attention":
                together.append(value)
                continue
            pieces: Split | None = None
            heads, units = part.heads, part.units
            given = site_values.at(part.site, rows)
            if by == "head" and heads is not None and heads.mixed is not None:
                taken = site_values.at(heads.mixed, rows)
                pieces = split(addresses, heads.out, taken, given, u, site=part.site)
                pieces = Split(pieces.values.reshape(len(u), heads.n_heads, -1).sum(-1), pieces.bias)
                whole = replace(whole, kind="head", site=heads.mixed, n=heads.n_heads)
            elif by == "neuron" and units is not None:
                if units.n_experts > 1:
                    pieces = split_experts(addresses, units, experts[units.site][rows], given, u)
                else:
                    pieces = split(addresses, units.down, site_values.at(units.site, rows), given, u, site=part.site)
                n = units.width * units.n_experts
                whole = replace(whole, kind="neuron", site=units.site, n=n, n_experts=units.n_experts)
            parts.append((whole, value[:, None] if pieces is None else pieces.values))
            if pieces is not None and bool((pieces.bias != 0).any()):
                parts.append((Group("bias", f"{layer} {what} bias", part.site, layer), pieces.bias[:, None]))
    if together:
        parts.insert(1, (Group("attention", "attention of all layers", ""), sum(together)[:, None]))  # type: ignore[index]
    if bool((towards.constant != 0).any()):
        site = stack.final_norm or run.anatomy.head
        parts.append((Group("bias", "final bias", site), towards.constant[:, None]))
    return [group for group, _ in parts], [value for _, value in parts]


def _experts(run: PromptRun, stack: Stack, by: str) -> dict[str, Tensor]:
    """Site → (position, expert · unit), if there are experts."""
    if by != "neuron":
        return {}
    units = [each for each in run.anatomy.units(stack.role) if each.n_experts > 1]
    values_by_layer = feed_forward_values(run, stack.role, units) if units else []
    return {each.site: values for each, values in zip(units, values_by_layer, strict=True)}


def _part_name(part: Contribution) -> str:
    if part.kind != "attention":
        return part.kind
    return "cross attention" if part.heads is not None and part.heads.is_cross else "attention"


def _residual_stack(run: PromptRun) -> Stack:
    stack = run.anatomy.stack
    if not stack.is_residual:
        raise InputError(
            f"{type(run.model).__name__} has norms in its residual stream, so the contributions of its parts do not "
            "sum to a logit: use gen.saliency() instead."
        )
    return stack


def _check(run: PromptRun, stack: Stack, by: str, limit: int) -> None:
    """Raises if the model lacks the parts, or if the result does not fit the limit."""
    if by == "head":
        run.anatomy.heads(stack.role)
    if by not in ("neuron", "mlp"):
        return
    units = run.anatomy.units(stack.role)
    n = sum(each.width * each.n_experts for each in units) * run.n_targets * 8
    if by == "neuron" and n > limit:
        raise MemoryLimitError(
            f"contributions of {n // 8 // run.n_targets:,} neurons to {run.n_targets:,} targets take "
            f"{human_bytes(n)}, but the limit is {human_bytes(limit)}: choose targets, only=[-1], or give "
            f"limit={n}."
        )
