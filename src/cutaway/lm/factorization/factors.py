"""`gen.factors()`: factorizes the activations of neurons over one text or several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.capture.interventions.targets import units_by_site
from cutaway.core.errors import InputError, InputTypeError
from cutaway.core.formatting import listed, type_text
from cutaway.lm.arguments import whole_number
from cutaway.lm.factorization.factorize import factorize, relative_error
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.parts import Stack, layer_indices
from cutaway.lm.model.unit_values import unit_values
from cutaway.results.lm.factors import FactorMethod, Factors, FactorText, NmfStart
from cutaway.results.lm.generation import Generation, LayerChoice
from cutaway.results.lm.tokens import Role

_SELECTION = ("layers", "at", "role")
"""Options that say which neurons were used, so that `Factors.on` can collect them for another text."""


def factors(
    gen: Generation | Sequence[Generation],
    n: int = 5,
    *,
    layers: LayerChoice = None,
    method: FactorMethod = "nmf",
    seed: int = 0,
    at: Any = None,
    role: Role | None = None,
    start: NmfStart | None = None,
    max_iter: int | None = None,
    tolerance: float | None = None,
) -> Factors:
    """Factorize the activations of feed-forward neurons over the tokens that a model read and generated.

        gen.factors(5).text()
        cutaway.lm.factors([gen, other], 8, layers=slice(6, None))

    Args:
        gen: a generation, or several that share their factors.
        n: how many factors.
        layers: blocks, counted from 0: `4`, `-1`, `[0, 1]`, `slice(6, None)`; all by default. In an encoder–decoder,
            of both stacks.
        method: "nmf", "pca" or "kmeans" (clusters of neurons).
        seed: seed for the initialization of NMF and k-means.
        at: other sites, for a model without feed-forward neurons: `"backbone.layers.*.mixer.out_proj@in.0"`.
        role: only "encoder" or "decoder"; by default both, if the model has both.
        start: for "nmf": initialization, "svd" (the default), or "random" as in Ecco.
        max_iter: for "nmf": most iterations; 500 by default.
        tolerance: for "nmf": when to stop; 1e-4 by default.
    """
    gens = _as_list(gen)
    n = whole_number(n, "n")  # before the model runs
    neurons = _neuron_matrix(gens, layers, at, role)
    parts = {name: neurons.values[:, place] for name, place in neurons.places.items()}
    result = factorize(parts, n, method, seed=seed, start=start, max_iter=max_iter, tolerance=tolerance)
    of = {name: gens[0].about[name] for name in ("model", "name") if name in gens[0].about}
    about = {**of, **result.about, **neurons.chosen}
    return replace(result, texts=neurons.texts, about=about, notes=(*neurons.notes, *result.notes))


def on(factors: Factors, gen: Generation | Sequence[Generation]) -> Factors:
    """Factors of one text, applied to another."""
    if not set(_SELECTION) & set(factors.about):
        raise InputError("these factors are of plain activations: use factors.transform(values).")
    chosen = {name: factors.about.get(name) for name in _SELECTION}
    neurons = _neuron_matrix(_as_list(gen), chosen["layers"], chosen["at"], chosen["role"])  # type: ignore[arg-type]
    if tuple(neurons.places) != factors.layer_names:
        raise InputError(
            f"this generation has neurons at {listed(map(repr, neurons.places), 1)}, but the factors are of "
            f"{listed(map(repr, factors.layer_names), 1)}: use its model."
        )
    weights = factors.transform(neurons.values)
    # the error of NMF is that of what it approximates: negative activations count as 0
    target = np.maximum(neurons.values, 0) if factors.method == "nmf" else neurons.values
    error = relative_error(target, weights, factors.units, factors.mean)
    return replace(factors, weights=weights, texts=neurons.texts, error=error, notes=neurons.notes)


@dataclass(frozen=True, slots=True)
class _NeuronMatrix:
    """The neurons of some texts as a matrix."""

    values: NDArray[np.float32]
    """(position, unit): the texts one after another."""
    places: dict[str, slice]
    """Site → its columns, in the order of the model."""
    texts: tuple[FactorText, ...]
    chosen: dict[str, object]
    notes: tuple[str, ...]


def _neuron_matrix(gens: list[Generation], layers: LayerChoice, at: Any, role: Role | None) -> _NeuronMatrix:
    blocks: list[tuple[FactorText, dict[str, NDArray[np.float32]]]] = []
    chosen: dict[str, object] = {"layers": None, "at": None, "role": role}
    notes: tuple[str, ...] = ()
    start = 0
    for number, gen in enumerate(gens):
        run = PromptRun.of(gen)
        for each in _roles(run, role, at):
            stack = run.anatomy.part(each)
            if at is not None:
                columns = _at_sites(run, at)
                chosen["at"] = list(columns)
            else:
                indices = layer_indices(layers, len(stack.blocks))
                columns, notes = _feed_forward(run, stack, indices)
                chosen["layers"] = None if layers is None else indices
            text = _text(gen, each, start, f"{number}" if len(gens) > 1 else "", len(run.roles) > 1)
            columns = {site: values[: text.end - start] for site, values in columns.items()}
            blocks.append((text, columns))
            start = text.end
    widths = {site: values.shape[1] for _, columns in blocks for site, values in columns.items()}
    ends = np.cumsum([0, *widths.values()])
    places = {site: slice(int(a), int(b)) for site, a, b in zip(widths, ends, ends[1:], strict=False)}
    matrix = np.zeros((start, int(ends[-1])), np.float32)  # neurons of the decoder are 0 at positions of the encoder
    for text, columns in blocks:
        for site, values in columns.items():
            if values.shape[1] != widths[site]:
                raise InputError(
                    f"{site!r} has {values.shape[1]} and {widths[site]} units: use one model for all texts."
                )
            matrix[text.start : text.end, places[site]] = values
    return _NeuronMatrix(matrix, places, tuple(text for text, _ in blocks), chosen, notes)


def _feed_forward(
    run: PromptRun, stack: Stack, layers: list[int]
) -> tuple[dict[str, NDArray[np.float32]], tuple[str, ...]]:
    values_by_layer = unit_values(run, stack.role, layers=layers)
    units = [c.units for layer in layers for c in stack.blocks[layer].contributions if c.units is not None]
    if not units:
        raise InputError(f"layers={layers} of {run.anatomy.model_name} have no feed-forward neurons: choose others.")
    most = max(units, key=lambda each: each.n_experts)
    n_experts = most.n_experts
    note = (
        f"Neurons of the {n_experts} experts of a layer are counted one expert after another, {most.width} each. They "
        "share a site, so an edit of one reaches the same neuron of every expert."
    )
    columns = {each.site: _array(values) for each, values in zip(units, values_by_layer, strict=True)}
    return columns, (note,) if n_experts > 1 else ()


def _at_sites(run: PromptRun, at: Any) -> dict[str, NDArray[np.float32]]:
    sites = units_by_site(run.model, at)
    for site, units in sites.items():
        if units is not None:
            raise InputError(f"at= names single units of {site!r}, but factors need all of them: leave out '#…'.")
    return {site: _array(value) for site, value in run.unit_rows(list(sites)).items()}


def _text(gen: Generation, role: Role, start: int, number: str, is_encoder_decoder: bool) -> FactorText:
    """The tokens that a stack read; the last generated token was never read."""
    if role == "encoder" and gen.source is not None:
        name = f"{number} encoder".strip()
        return FactorText(start, start + len(gen.source), gen.source.pieces, None, name)
    name = f"{number} decoder".strip() if is_encoder_decoder else number
    is_written = gen.kind in ("causal", "encoder-decoder") and len(gen) > 0
    n = int(gen.rows.max()) + 1 if is_written else len(gen.read)
    return FactorText(start, start + n, gen.pieces, gen.n_prompt if is_written else None, name)


def _roles(run: PromptRun, role: Role | None, at: Any) -> tuple[Role, ...]:
    if role is not None and role not in run.roles:
        raise InputError(f"role={role!r}: {type(run.model).__name__} has {' and '.join(map(repr, run.roles))}.")
    if at is not None and role is None:
        return run.roles[-1:]
    return run.roles if role is None else (role,)


def _as_list(gen: Any) -> list[Generation]:
    gens = [gen] if isinstance(gen, Generation) else gen
    if not isinstance(gens, (list, tuple)) or not all(isinstance(each, Generation) for each in gens):
        raise InputTypeError(
            f"gen is {type_text(gen)}: give a generation of cutaway.generate, or a list of them. For plain "
            "activations, use cutaway.lm.factorize."
        )
    if not gens:
        raise InputError("the list of generations is empty: give at least one.")
    return list(gens)


def _array(values: Any) -> NDArray[np.float32]:
    array: NDArray[np.float32] = values.detach().float().cpu().numpy()
    return array
