"""`gen.saliency()`: how much each token mattered to each token that was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from cutaway.core.errors import InputError
from cutaway.core.formatting import nearest
from cutaway.lm.attention.weights import attention_weights
from cutaway.lm.model.forward_run import Reading
from cutaway.lm.model.head import tail
from cutaway.lm.model.output_drift import changed
from cutaway.lm.saliency.baselines import UNSEEN, ZERO, baselines
from cutaway.lm.saliency.gradients import Scored, gradient, integrated
from cutaway.lm.saliency.memory import LIMIT, cost
from cutaway.lm.saliency.occlusion import occlusion
from cutaway.lm.saliency.rollout import flow, rollout, steps_of
from cutaway.lm.saliency.target_groups import groups, joined
from cutaway.lm.saliency.targets import Explained, chosen_targets, explained, named
from cutaway.results.generation import Generation, Segment, Tokens
from cutaway.results.saliency import Saliency

Method = Literal["gradient", "grad_x_input", "integrated_gradients", "occlusion", "rollout", "flow"]
METHODS: tuple[str, ...] = get_args(Method)
_OF_ATTENTION = ("rollout", "flow")
_FAR = 0.1
"""The share of a change that integrated gradients may miss before it is said."""


def saliency(
    gen: Generation,
    method: str = "grad_x_input",
    *,
    target: Any = "logprob",
    contrast: Any = None,
    only: int | Sequence[int] | None = None,
    baseline: Any = None,
    steps: int | None = None,
    limit: int = LIMIT,
) -> Saliency:
    """How much each token mattered to each target: `gen.saliency()`.

    Args:
        method: "gradient", "grad_x_input", "integrated_gradients", "occlusion"; "rollout" and "flow" of attention.
        target: what is explained: "logprob", "logit", "probability", or a function of logits (sample, target, class)
            and classes (target,) that gives values (sample, target).
        contrast: why this token rather than that one: a token by text or id, or one for each target; or a label.
        only: which targets, counted from 0; all if not given.
        baseline: what stands for nothing, for integrated gradients and occlusion: "zero", "pad", "mask", the id of a
            token, or a vector; for occlusion also "unseen": nothing attends to the token. Zero if not given.
        steps: points on the way from the baseline, for integrated gradients; 50 if not given.
        limit: bytes that may be used beside the model.
    """
    _check(method, target, contrast, baseline, steps)
    baseline, steps = ZERO if baseline is None else baseline, 50 if steps is None else steps
    chosen = chosen_targets(gen, only)
    with torch.inference_mode(False):
        reading = Reading.of(gen).of_targets(chosen)
        asked = explained(gen, target, contrast, chosen, reading.device)
        found = (
            _through(reading, method)
            if method in _OF_ATTENTION
            else _scored(
                reading,
                method,
                asked,
                tokenizer=gen._tokenizer and gen.tokenizer,
                baseline=baseline,
                steps=steps,
                limit=limit,
            )
        )
    about: dict[str, object] = {name: gen.about[name] for name in ("model", "name") if name in gen.about}
    if method in ("integrated_gradients", "occlusion"):
        about["baseline"] = baseline if isinstance(baseline, (str, int)) else "a vector"
    if method == "integrated_gradients":
        about["steps"] = steps
    return _result(gen, reading, method, asked, found, chosen, about)


def _scored(
    reading: Reading, method: str, asked: Explained, *, tokenizer: Any, baseline: Any, steps: int, limit: int
) -> Scored:
    costs = cost(reading, limit)
    if method == "occlusion":
        is_unseen = isinstance(baseline, str) and baseline == UNSEEN
        instead = None if is_unseen else baselines(reading, tokenizer, baseline)
        return occlusion(reading, asked, costs, baseline=instead)
    costs.check()  # before anything of it has run
    parts = groups(reading.rows.tolist(), costs.rows) if reading.kind == "causal" else [range(reading.n_targets)]
    found = []
    for part in parts:
        own, of = reading.of_targets(part), asked.of_targets(part)
        costs = cost(own, limit)
        if method == "integrated_gradients":
            path = baselines(own, tokenizer, baseline)
            found.append(integrated(own, of, costs, baseline=path, steps=steps))
        else:
            found.append(gradient(own, of, costs, times_input=method == "grad_x_input"))
    return joined(found, parts, sum(len(reading.ids(role)) for role in reading.roles))


def _through(reading: Reading, method: str) -> Scored:
    """What attention lets through to the row of each target."""
    is_double = len(reading.roles) > 1
    below = steps_of(_plain(attention_weights(reading, "encoder"))) if is_double else None
    cross = _plain(attention_weights(reading, "decoder", is_cross=True)) if is_double else None
    above = steps_of(_plain(attention_weights(reading, "decoder")), cross)
    rows = _looked_at(reading)
    found = rollout(above, below)[rows] if method == "rollout" else flow(above, rows, below)
    scores = torch.tensor(found, dtype=torch.float64)
    return Scored(scores, scores, torch.full((len(rows),), torch.nan, dtype=torch.float64))


def _looked_at(reading: Reading) -> list[int]:
    """The position of the last layer that each target comes from; of a classifier of texts, the one that it picks."""
    hidden = reading.hidden()[-1:].clone().requires_grad_()
    rows: list[int] = reading.rows.tolist()
    if reading.kind != "classifier" or any(rows):
        return rows
    with torch.enable_grad():
        logits = tail(reading, hidden)
        if logits.shape[1] == hidden.shape[1] > 1:
            return rows
        (found,) = torch.autograd.grad(logits.square().sum(), hidden)
    return [int(found[0].abs().sum(-1).argmax())] * len(rows)


def _result(
    gen: Generation,
    reading: Reading,
    method: str,
    asked: Explained,
    found: Scored,
    chosen: Sequence[int],
    about: dict[str, object],
) -> Saliency:
    source, read = gen.source, gen.read
    n_source = 0 if source is None else len(source)
    sums, norms = _laid(found.sums, n_source + len(read)), _laid(found.norms, n_source + len(read))
    if reading.is_causal:
        future = np.arange(-n_source, len(read))[None] > reading.rows.cpu().numpy()[:, None]
        sums[future] = norms[future] = np.nan
    totals = np.nansum(norms, 1, keepdims=True)
    empty = np.flatnonzero(totals[:, 0] == 0).tolist()
    known = asked.target if asked.others is None and isinstance(asked.target, str) else ""
    notes = changed(gen, known, found.values.cpu().numpy(), chosen)
    notes += [f"Nothing changes the {asked.name} of target {', '.join(map(str, empty))}."] if empty else []
    ends = None if found.baseline_values is None else found.baseline_values.cpu().numpy()
    values = found.values.cpu().numpy()
    delta = None if ends is None else np.nansum(sums, 1) - (values - ends)
    if ends is not None and delta is not None:
        notes += _incomplete(delta, values - ends)
    is_through = method in _OF_ATTENTION
    written = np.arange(n_source + len(read)) >= n_source + gen.n_prompt
    return Saliency(
        method=method,
        target="attention" if is_through else asked.name,
        scores=norms / np.where(totals == 0, 1.0, totals),
        signed=sums,
        targets=tuple(gen.targets.pieces[i] for i in chosen),
        positions=(*(source.pieces if source is not None else ()), *read.pieces),
        roles=("encoder",) * n_source + ("decoder",) * len(read),
        is_written=written,
        places=np.array([_place(gen, i, n_source) for i in chosen], np.int64),
        values=values,
        contrast=() if asked.others is None else named(gen, asked.others),
        delta=delta,
        baseline_values=ends,
        word_of=_words(source, read),
        spans=_spans(source, read),
        about=about,
        notes=tuple(notes),
    )


def _incomplete(delta: Any, changes: Any) -> list[str]:
    """A warning where sums are far from what they should be."""
    n = int((np.abs(delta) > _FAR * np.maximum(np.abs(changes), 1e-3)).sum())
    if not n:
        return []
    worst = int(np.abs(delta).argmax())
    return [
        f"Not converged for {n} of {len(delta)} targets: the sums miss what the path changes by up to "
        f"{delta[worst]:.3g} (of {changes[worst]:.3g}); give more steps=, another baseline=, or ask for "
        "method='occlusion'."
    ]


def _place(gen: Generation, target: int, n_source: int) -> int:
    """Where a target stands among the positions."""
    row = int(gen.rows[target])
    if gen.kind == "classifier":
        return -1 if len(set(gen.rows.tolist())) == 1 and row == 0 else row
    return n_source + row + (gen.kind != "masked")


def _words(source: Tokens | None, read: Tokens) -> Any:
    if source is None:
        return read.words.copy()
    return np.concatenate([source.words, read.words + int(source.words.max(initial=-1)) + 1])


def _spans(source: Tokens | None, read: Tokens) -> tuple[Segment, ...]:
    n = 0 if source is None else len(source)
    moved = tuple(Segment(each.name, each.start + n, each.end + n) for each in read.segments)
    return (*(() if source is None else source.segments), *moved)


def _laid(values: Tensor, n: int) -> Any:
    """(target, position) with the positions that were not run: NaN."""
    found = np.full((len(values), n), np.nan)
    found[:, : values.shape[1]] = values.cpu().numpy()
    return found


def _check(method: str, target: Any, contrast: Any, baseline: Any, steps: int | None) -> None:
    if method not in METHODS:
        near = nearest(str(method), METHODS)
        hint = f" Nearest: {near[0]!r}." if near else ""
        raise InputError(f"method={method!r}: give {', '.join(map(repr, METHODS))}.{hint}")
    if method in _OF_ATTENTION and (contrast is not None or target != "logprob"):
        raise InputError(f"{method} looks at attention alone: it knows neither target= nor contrast=.")
    if isinstance(baseline, str) and baseline == UNSEEN and method != "occlusion":
        raise InputError("baseline='unseen' is for occlusion: a way from there to the text is not defined.")
    if steps is not None and method != "integrated_gradients":
        raise InputError(f"steps= is for integrated_gradients; {method} has no way from a baseline.")
    if baseline is not None and method not in ("integrated_gradients", "occlusion"):
        raise InputError(f"baseline= is for integrated_gradients and occlusion; {method} compares with nothing.")
    if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int) or steps < 1):
        raise InputError(f"steps={steps!r}: 1 is the least.")


def _plain(weights: Tensor) -> Any:
    return weights.detach().double().cpu().numpy()
