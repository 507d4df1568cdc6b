"""Splits a contribution to the residual stream into heads of an attention or neurons of a feed-forward network.

Both are columns of a linear map that leads to the stream. A factor or norm after it is found by comparing the output of
the map with the contribution; a norm is frozen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cutaway.capture.interventions.targets import ModelIndex
from cutaway.core.errors import InputError
from cutaway.core.sites import Site
from cutaway.lm.model.frozen_norms import frozen_norm
from cutaway.lm.model.parts import Units


@dataclass(frozen=True, slots=True)
class Split:
    """One contribution in parts; parts and bias sum to it."""

    values: Tensor
    """(target, part), float64."""
    bias: Tensor
    """(target,): the output of the map for zero input."""


def split(named: ModelIndex, address: str | None, taken: Tensor, given: Tensor, u: Tensor, *, site: str) -> Split:
    """What each input unit of a linear map adds along a direction.

    Args:
        address: of the module that is, or contains, the map.
        taken: (target, unit): the input of the map.
        given: (target, d): the contribution it leads to.
        u: (target, d): the direction.
        site: of the contribution; if a norm computes it, the norm is frozen.
    """
    for linear in _candidates(named, address):
        outputs = _apply(linear, taken)
        if outputs is None or outputs[0].shape != given.shape:
            continue
        out, bias = outputs
        onto = _pull_back_direction(named, out, given, u, site)
        if onto is None:
            continue
        direction, rest = onto
        # By autograd instead of .weight, whose orientation differs: the Conv1D of GPT-2 is transposed.
        leaf = taken.detach().clone().requires_grad_()
        with torch.enable_grad():
            (gradient,) = torch.autograd.grad((linear(leaf[None])[0].double() * direction).sum(), leaf)
        return Split(gradient.double() * taken.double(), (bias.double() * direction).sum(-1) + rest)
    raise InputError(
        f"found no linear map from the parts of {site!r} to the residual stream: use by='component', which does not "
        "split it."
    )


def _pull_back_direction(
    named: ModelIndex, out: Tensor, given: Tensor, u: Tensor, site: str
) -> tuple[Tensor, Tensor] | None:
    """The direction right after the map, and what a norm's bias adds; None if no factor or norm explains it."""
    limit = 1e-3 if given.dtype in (torch.float32, torch.float64) else 5e-2
    x, y = out.double(), given.double()
    factor = (x * y).sum(-1, keepdim=True) / x.square().sum(-1, keepdim=True).clamp_min(1e-300)  # or a frozen gate
    factor = factor.where((factor - 1).abs() >= limit / 10, 1.0)
    if bool((y - factor * x).norm() <= limit * y.norm()):
        return u * factor, torch.zeros_like(u[:, 0])
    where = Site.parse(site)
    norm = named.modules.get(where.address) if where.op is None else None
    frozen = None if norm is None else frozen_norm(norm, out)
    if frozen is None or not bool((y - frozen(x)).norm() <= limit * y.norm()):
        return None
    return frozen.pull_back(u), u @ frozen.bias


def _candidates(named: ModelIndex, address: str | None) -> Iterator[nn.Module]:
    """The module, its children (`nn.MultiheadAttention` contains its projection), and its parent (an adapter)."""
    module = None if address is None else named.modules.get(address)
    if address is None or module is None:
        return
    for _, each in module.named_modules():
        if not any(True for _ in each.children()):
            yield each
    around = named.modules.get(address.rpartition(".")[0])
    if around is not None:
        yield around


def _apply(linear: nn.Module, taken: Tensor) -> tuple[Tensor, Tensor] | None:
    """Its output for the input and for zeros; None if it is another kind of module."""
    try:
        with torch.no_grad():
            output, nothing = linear(taken[None]), linear(torch.zeros_like(taken[None]))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return None
    return (output[0], nothing[0]) if isinstance(output, Tensor) and isinstance(nothing, Tensor) else None


def split_experts(named: ModelIndex, units: Units, activations: Tensor, given: Tensor, u: Tensor) -> Split:
    """The same for experts, `expert · width + unit`: the router weights follow from the contribution by least squares.

    Args:
        activations: (target, expert · width): their units, 0 where a token was not routed.
    """
    weights = named.tensors.get(units.down or "")  # (expert, d, unit) or (expert, unit, d)
    values = activations.double().reshape(len(activations), units.n_experts, units.width)
    for way in () if weights is None else (weights.detach(), weights.detach().mT):
        if way.shape[1:] == (given.shape[-1], units.width):
            parts = _split_by_expert(way, values, given.double(), u)
            if parts is not None:
                return parts
    raise InputError(
        f"what the experts at {units.site!r} add is more than their units times {units.down!r}: use by='component', "
        "which does not split it."
    )


def _split_by_expert(weights: Tensor, values: Tensor, given: Tensor, u: Tensor) -> Split | None:
    parts = torch.zeros_like(values)
    for target, (units, whole) in enumerate(zip(values, given, strict=True)):
        used = (units != 0).any(-1).nonzero()[:, 0]
        down = weights[used].double()
        outs = torch.einsum("edu,eu->ed", down, units[used])
        routed = torch.linalg.lstsq(outs.mT, whole[:, None]).solution[:, 0]
        if (routed @ outs - whole).norm() > 1e-3 * whole.norm():
            return None
        back = torch.einsum("edu,d->eu", down, u[target])
        parts[target, used] = routed[:, None] * units[used] * back
    return Split(parts.reshape(len(parts), -1), torch.zeros_like(u[:, 0]))
