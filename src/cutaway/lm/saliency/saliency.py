"""`gen.saliency()`: how much each input token mattered to each target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.core.formatting import hint
from cutaway.lm.arguments import byte_limit, option_names
from cutaway.lm.model.forward_run import PromptRun
from cutaway.lm.model.output_drift import drift_notes
from cutaway.lm.saliency.targets import Objective, class_texts, make_objective, target_indices
from cutaway.lm.saliency.task import SaliencyTask, TargetScores
from cutaway.results.lm.generation import Contrast, Generation
from cutaway.results.lm.saliency import METHODS, Saliency
from cutaway.results.lm.tokens import Segment, Tokens

_TOLERANCE = 0.1
"""Largest error of integrated gradients, as a share of the change along the path, that gets no warning."""


def saliency(
    gen: Generation,
    method: str = "grad_x_input",
    *,
    target: str | Callable[..., Any] = "logprob",
    contrast: Contrast = None,
    only: int | slice | Sequence[int] | None = None,
    baseline: Any = None,
    steps: int | None = None,
    limit: int = 4 * 2**30,
) -> Saliency:
    """Score how much each input token mattered to each target; see `Generation.saliency` for the arguments."""
    given = {name: value for name, value in (("baseline", baseline), ("steps", steps)) if value is not None}
    score, options = _method_with_options(method, target, contrast, given)
    limit = byte_limit(limit)
    chosen = target_indices(gen, only)
    # Tensors that are created in inference mode cannot take part in autograd.
    with torch.inference_mode(False):
        run = PromptRun.of(gen).select_targets(chosen)
        objective = make_objective(gen, target, contrast, chosen, run.device)
        task = SaliencyTask(run, objective, gen._tokenizer and gen.tokenizer, limit)
        scores = score(task, **options)
    about: dict[str, object] = {name: gen.about[name] for name in ("model", "name") if name in gen.about}
    about |= {name: value if isinstance(value, (str, int)) else "a vector" for name, value in options.items()}
    return _result(gen, run, method, objective, scores, chosen, about)


def _method_with_options(
    method: str, target: Any, contrast: Any, given: Mapping[str, Any]
) -> tuple[Callable[..., TargetScores], dict[str, Any]]:
    """The function of a method, and all its options: the given ones and the defaults."""
    if not isinstance(method, str) or method not in METHODS:
        raise InputError(f"method={method!r} is unknown.{hint(method, METHODS)} There are {', '.join(METHODS)}.")
    if not METHODS[method].is_signed:
        # Attention weights are the same whichever value is explained, so these options would be ignored silently.
        given_values = (("target", target != "logprob"), ("contrast", contrast is not None))
        ignored = [name for name, is_given in given_values if is_given]
        if ignored:
            raise InputError(f"method={method!r} uses attention alone: leave out {option_names(ignored)}.")
    score = _function_of(method)
    defaults = _options_of(score)
    for option in given:
        if option not in defaults:
            readers = " and ".join(name for name in METHODS if option in _options_of(_function_of(name)))
            raise InputError(f"method={method!r} does not use {option}=, which is for {readers}: leave it out.")
    return score, {**defaults, **given}


def _function_of(method: str) -> Callable[..., TargetScores]:
    module, _, name = METHODS[method].place.partition(":")
    function: Callable[..., TargetScores] = getattr(import_module(module), name)
    return function


def _options_of(score: Callable[..., TargetScores]) -> dict[str, Any]:
    """The options of a method with their defaults: its keyword-only parameters."""
    parameters = signature(score).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def _result(
    gen: Generation,
    run: PromptRun,
    method: str,
    objective: Objective,
    scores: TargetScores,
    chosen: Sequence[int],
    about: dict[str, object],
) -> Saliency:
    source, read = gen.source, gen.read
    n_source = 0 if source is None else len(source)
    sums, norms = (_padded(values, n_source + len(read)) for values in (scores.sums, scores.norms))
    if run.is_causal:
        future = np.arange(-n_source, len(read))[None] > run.rows.cpu().numpy()[:, None]
        sums[future] = norms[future] = np.nan
    # A contrast of a token with itself is 0 everywhere: there is nothing to normalize, and a note says so.
    totals = np.nansum(norms, 1, keepdims=True)
    empty = np.flatnonzero(totals[:, 0] == 0).tolist()
    comparable = objective.target if objective.others is None and isinstance(objective.target, str) else ""
    values = scores.values.cpu().numpy()
    notes = drift_notes(gen, comparable, values, chosen)
    notes += [f"No token changes the {objective.name} of target {', '.join(map(str, empty))}."] if empty else []
    baseline_values = None if scores.baseline_values is None else scores.baseline_values.cpu().numpy()
    delta = None if baseline_values is None else np.nansum(sums, 1) - (values - baseline_values)
    if baseline_values is not None and delta is not None:
        notes += _convergence_notes(delta, values - baseline_values)
    return Saliency(
        method=method,
        target=objective.name if METHODS[method].is_signed else "attention",
        scores=norms / np.where(totals == 0, 1.0, totals),
        signed=sums,
        targets=tuple(gen.targets.pieces[i] for i in chosen),
        positions=(*(source.pieces if source is not None else ()), *read.pieces),
        roles=("encoder",) * n_source + ("decoder",) * len(read),
        is_written=np.arange(n_source + len(read)) >= n_source + gen.n_prompt,
        places=np.array([_target_position(gen, i, n_source) for i in chosen], np.int64),
        values=values,
        contrast=() if objective.others is None else class_texts(gen, objective.others),
        delta=delta,
        baseline_values=baseline_values,
        word_of=_word_numbers(source, read),
        spans=_segments(source, read),
        about=about,
        notes=tuple(notes),
    )


def _convergence_notes(delta: Any, changes: Any) -> list[str]:
    """A warning where the scores do not sum to the change along the path."""
    n = int((np.abs(delta) > _TOLERANCE * np.maximum(np.abs(changes), 1e-3)).sum())
    if not n:
        return []
    worst = int(np.abs(delta).argmax())
    return [
        f"Not converged for {n} of {len(delta)} targets: the sum of the scores differs from the change along the path "
        f"by up to {delta[worst]:.3g} (of {changes[worst]:.3g}). Use more steps=, another baseline=, or "
        "method='occlusion'."
    ]


def _target_position(gen: Generation, target: int, n_source: int) -> int:
    """The position of the target itself; -1 for the label of a whole text."""
    row = int(gen.rows[target])
    if gen.kind == "classifier":
        return -1 if len(set(gen.rows.tolist())) == 1 and row == 0 else row
    return n_source + row + (gen.kind != "masked")


def _word_numbers(source: Tokens | None, read: Tokens) -> Any:
    if source is None:
        return read.words.copy()
    return np.concatenate([source.words, read.words + int(source.words.max(initial=-1)) + 1])


def _segments(source: Tokens | None, read: Tokens) -> tuple[Segment, ...]:
    n = 0 if source is None else len(source)
    shifted = tuple(Segment(each.name, each.start + n, each.end + n) for each in read.segments)
    return (*(() if source is None else source.segments), *shifted)


def _padded(values: Tensor, n: int) -> Any:
    """(target, position), filled with NaN up to n positions: those after the last target did not run."""
    padded = np.full((len(values), n), np.nan)
    padded[:, : values.shape[1]] = values.cpu().numpy()
    return padded
