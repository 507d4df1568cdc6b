"""The page of a generation: text colored by confidence, scores of each step, and alternatives."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutaway.core.formatting import figures, percent
from cutaway.results.lm.generation import Generation
from cutaway.results.lm.token_names import quoted, readable
from cutaway.results.lm.tokens import Tokens
from cutaway.views.pages.model import (
    Bars,
    Block,
    Cell,
    ColoredText,
    Column,
    Fact,
    Facts,
    Line,
    Lines,
    Page,
    Prose,
    Section,
    Table,
    Text,
)
from cutaway.views.pages.provenance import model_name, provenance_section
from cutaway.views.pages.results.beams import beams_section

_BIT = math.log(2)
_CHANNELS = ("probability", "entropy, bits", "rank", "surprisal, bits")
_FULL_RANK = 20.0
_MOST_CANDIDATES = 8
_MOST_STEPS = 100
_MOST_OTHERS = 3
_MOST_PROMPT = 200
_FEW = 3
"""With fewer steps there is no curve."""
_OTHERS = ("masked", "classifier")
"""Kinds that do not generate step by step."""
_ONE = {"masked": "mask", "classifier": "label"}
"""What a target of these kinds is."""
_CUTS = {"temperature", "top_k", "top_p", "do_sample", "seed", "num_beams", "eos_token_id", "max_length"}
"""Only with these options can the page tell what excluded a candidate: top-k applies first, then top-p."""


def generation_page(gen: Generation) -> Page:
    """The page of a generation."""
    sections = [_text(gen), _in_short(gen), *_labels(gen), *_curves(gen), _steps(gen), *_candidates(gen)]
    sections += [beams_section(gen.beams)] if gen.beams is not None and len(gen.beams) else []
    sections += [*_segments(gen), provenance_section(gen.about)]
    return Page(gen.title, _about(gen), sections, topic="language")


def _about(gen: Generation) -> str:
    by = f"By {model_name(gen.about)}"
    if gen.kind == "classifier" or not gen.prompt:
        return by
    return f"{by}, {'in' if gen.kind == 'masked' else 'after'} “{_cut(gen.prompt, _MOST_PROMPT)}”"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def surprisal(gen: Generation) -> NDArray[np.float64]:
    """(target,): surprisal of each target in bits."""
    bits: NDArray[np.float64] = -gen.steps.logprobs / _BIT
    return bits


def _text(gen: Generation) -> Section:
    """The tokens read and generated; a token has the scores of the target at its position."""
    n = len(gen.read)
    values: list[list[float | None]] = [[None] * n for _ in _CHANNELS]
    pieces, marks = list(gen.read.pieces), []
    numbers = (gen.steps.probs, gen.steps.entropies / _BIT, gen.steps.ranks, surprisal(gen))
    for target, place in places(gen):
        marks.append(place)
        if gen.kind == "masked":
            pieces[place] = gen.targets.pieces[target]
        for row, of_channel in zip(values, numbers, strict=True):
            row[place] = float(of_channel[target])
    about = {
        "masked": "Framed tokens were masks.",
        "classifier": "The input. Tokens with a label are framed."
        if marks
        else "The input; the label is for the whole text.",
    }.get(gen.kind, "Framed tokens were generated; the others are the prompt.")
    texts = [] if gen.source is None else [Text(gen.source.pieces, [[None] * len(gen.source)] * 4, "source")]
    texts.append(Text(pieces, values, "generated" if gen.source is not None else "", sorted(set(marks))))
    most = [1.0, float(numbers[1].max(initial=0.0)), _FULL_RANK, float(numbers[3].max(initial=0.0))]
    if gen.kind == "classifier" and not marks:
        return Section("Text", about, [Prose(gen.prompt or "".join(pieces))], is_wide=True)
    missing = {"masked": "not masked", "classifier": "no label"}.get(gen.kind, "prompt, not generated")
    block = ColoredText(_CHANNELS, texts, is_signed=False, most=most, missing=missing)
    return Section("Text", about, [block], is_wide=True)


def places(gen: Generation) -> list[tuple[int, int]]:
    """Positions of the targets among the tokens read; of several at one position the most likely comes last."""
    if gen.kind in ("causal", "encoder-decoder"):
        return [(target, gen.n_prompt + target) for target in range(len(gen))]
    if gen.kind == "classifier" and not gen.rows.any():  # labels of whole texts are all at row 0
        return []
    order = np.argsort(gen.steps.logprobs, kind="stable")
    return [(int(target), int(gen.rows[target])) for target in order]


def _in_short(gen: Generation) -> Section:
    steps = gen.steps
    facts = []
    read = gen.read if gen.source is None else gen.source
    n_given = gen.n_prompt if gen.source is None else len(read)
    facts.append(Fact("prompt tokens", f"{n_given:,}"))
    what = {"masked": "masks filled", "classifier": "labels"}.get(gen.kind, "tokens generated")
    facts.append(Fact(what, f"{len(gen):,}"))
    if len(gen) and np.isnan(steps.probs).all():
        facts.append(Fact("predicted value", ", ".join(figures(float(value)) for value in steps.logits)))
    elif len(gen):
        facts.append(Fact("mean probability", percent(float(steps.probs.mean()))))
        if gen.kind in ("causal", "encoder-decoder"):
            perplexity = math.exp(min(700.0, -float(steps.logprobs.mean())))
            facts.append(Fact("perplexity", figures(perplexity), "of the generated text, by the model itself"))
        first = int((steps.ranks == 1).sum())
        facts.append(Fact("most likely token chosen", f"{first:,} of {len(gen):,}", "times"))
    facts.append(Fact("decoding", _decoding(gen)))
    if "seed" in gen.decoding and steps.drawn is not None:
        facts.append(Fact("seed", str(gen.decoding["seed"])))
    if steps.n_kept is not None and len(gen):
        low, high = int(steps.n_kept.min()), int(steps.n_kept.max())
        facts.append(Fact("could be sampled", f"{low:,}" if low == high else f"{low:,} to {high:,}", "tokens per step"))
    return Section("Summary", "", [Facts(facts)], is_wide=True)


def _decoding(gen: Generation) -> str:
    if gen.kind in _OTHERS:
        return "none: most likely token" if gen.kind == "masked" else "none: labels"
    if gen.decoding.get("forced"):
        return "none: the text was given"
    given = {name: value for name, value in gen.decoding.items() if name not in ("seed", "do_sample")}
    options = ", ".join(f"{name} {value}" for name, value in given.items())
    how = "beams" if gen.beams is not None else "sampling" if gen.steps.drawn is not None else "greedy"
    return f"{how}: {options}" if options else how


def _curves(gen: Generation) -> list[Section]:
    if len(gen) < _FEW:
        return []
    names = [readable(piece) for piece in gen.targets.pieces]
    x, over = list(range(len(gen))), _ONE.get(gen.kind, "step")
    lines = [Line("model", gen.steps.probs.tolist())]
    if gen.steps.drawn is not None:
        lines.append(Line("sampling", gen.steps.drawn.tolist(), is_dashed=True))
    bits = [Line("surprisal", surprisal(gen).tolist()), Line("entropy", (gen.steps.entropies / _BIT).tolist())]
    blocks: list[Block] = [
        Lines(over, "probability", x, lines, x_names=names, title="Probability"),
        Lines(over, "bits", x, bits, x_names=names, title="Surprisal and entropy"),
    ]
    about = "Entropy is the expected surprisal of the model, surprisal the actual one."
    return [Section("Confidence", about, blocks, is_wide=True)]


def _steps(gen: Generation) -> Section:
    """One row per target."""
    steps = gen.steps
    what = "label" if gen.kind == "classifier" else "token"
    one = _ONE.get(gen.kind, "step")
    columns = [
        Column(one if one != what else "", "number"),
        *([Column("at")] if gen.kind in _OTHERS else []),
        Column(what),
    ]
    columns += [
        Column("probability", "share", "from the model's logits, before temperature, top-k and top-p"),
        Column("rank", "number", "1 + number of more likely tokens"),
        Column("surprisal", "number", "in bits: −log₂ of the probability"),
        Column("entropy", "number", "in bits, of the whole distribution"),
    ]
    if steps.drawn is not None:
        columns.append(Column("sampled with", "share", "its probability after temperature, top-k and top-p"))
    if steps.n_kept is not None:
        columns.append(Column("could be sampled", "number", "number of tokens that were not excluded"))
    columns.append(Column("instead"))
    bits = surprisal(gen)
    rows: list[list[Cell]] = []
    for i, piece in enumerate(gen.targets.pieces):
        row: list[Cell] = [i, *([_at(gen, i)] if gen.kind in _OTHERS else []), readable(piece)]
        row += [float(steps.probs[i]), int(steps.ranks[i]), float(bits[i]), float(steps.entropies[i] / _BIT)]
        row += [] if steps.drawn is None else [float(steps.drawn[i])]
        row += [] if steps.n_kept is None else [int(steps.n_kept[i])]
        rows.append([*row, _alternatives(gen, i)])
    return Section(f"Each {one}", "", [Table(columns, rows)], is_wide=True)


def _at(gen: Generation, target: int) -> str:
    """The token that a target belongs to."""
    row = int(gen.rows[target])
    return "whole text" if not places(gen) else f"{row} {readable(gen.read.pieces[row])}"


def _alternatives(gen: Generation, target: int) -> str:
    steps = gen.steps
    alternatives = [
        f"{quoted(piece)} {percent(math.exp(logprob))}"
        for piece, token, logprob in zip(
            steps.candidate_pieces[target],
            steps.candidates[target].tolist(),
            steps.candidate_logprobs[target].tolist(),
            strict=True,
        )
        if token != gen.target_ids[target]
    ]
    return ", ".join(alternatives[:_MOST_OTHERS])


def _labels(gen: Generation) -> list[Section]:
    """For one label of a whole text: the probability of each label."""
    if gen.kind != "classifier" or len(set(gen.rows.tolist())) != 1 or not len(gen):
        return []
    probs = np.exp(gen.steps.candidate_logprobs[0]).tolist()
    return [Section("All labels", "", [Bars([*gen.steps.candidate_pieces[0]], probs)])]


def _candidates(gen: Generation) -> list[Section]:
    """The alternatives at each step, and whether decoding excluded them."""
    steps = gen.steps
    if gen.kind == "classifier" or not len(gen):
        return []
    columns = [
        Column(_ONE.get(gen.kind, "step"), "number"),
        Column("instead of"),
        Column("candidate"),
        Column("rank", "number"),
        Column("probability, %", "bar", "from the model's logits"),
        *([] if steps.kept is None else [Column("after decoding, %", "bar", "after temperature, top-k and top-p")]),
        Column("outcome"),
    ]
    rows = [row for i in range(min(len(gen), _MOST_STEPS)) for row in _rows_of(gen, i)]
    each = _ONE.get(gen.kind, "step")
    about = f"The {_MOST_CANDIDATES} most likely at each {each}; gen.candidates() has {steps.candidates.shape[1]}."
    if len(gen) > _MOST_STEPS:
        about += f" The first {_MOST_STEPS} steps of {len(gen):,}."
    if steps.kept is not None:
        about += " Decoding changes probabilities before sampling; excluded candidates have none."
    return [Section("Candidates", about, [Table(columns, rows)], is_wide=True)]


def _rows_of(gen: Generation, step: int) -> list[list[Cell]]:
    steps, chosen = gen.steps, int(gen.target_ids[step])
    ids = steps.candidates[step].tolist()
    shown = list(range(min(_MOST_CANDIDATES, len(ids))))
    if chosen in ids and ids.index(chosen) not in shown:
        shown.append(ids.index(chosen))
    head: list[Cell] = [step, readable(gen.targets.pieces[step])]
    rows = []
    for place in shown:
        kept = None if steps.kept is None else float(steps.kept[step, place])
        row = [*head, readable(steps.candidate_pieces[step][place]), place + 1]
        row += [100 * math.exp(steps.candidate_logprobs[step, place]), *([] if kept is None else [100 * kept])]
        rows.append([*row, _outcome(gen, place, kept, is_chosen=ids[place] == chosen)])
    if chosen not in ids:
        drawn = [] if steps.kept is None else [None if steps.drawn is None else 100 * float(steps.drawn[step])]
        own: list[Cell] = [head[1], int(steps.ranks[step]), 100 * float(steps.probs[step]), *drawn]
        rows.append([*head, *own, _chosen_word(gen)])
    return rows


def _chosen_word(gen: Generation) -> str:
    return "filled in" if gen.kind == "masked" else "given" if gen.decoding.get("forced") else "generated"


def _outcome(gen: Generation, place: int, kept: float | None, *, is_chosen: bool) -> str:
    if is_chosen:
        return _chosen_word(gen)
    if kept is None:
        return ""
    if kept > 0:
        return "possible"
    top_k = gen.decoding.get("top_k")
    if set(gen.decoding) <= _CUTS:
        if isinstance(top_k, int) and 0 < top_k <= place:
            return "excluded by top-k"
        if isinstance(top_k, int) and gen.decoding.get("top_p") is not None:
            return "excluded by top-p"
    return "excluded"


def _segments(gen: Generation) -> list[Section]:
    """The fields of a template, or the messages of a chat."""
    read: Tokens = gen.read if gen.source is None else gen.source
    if not read.segments:
        return []
    rows: Sequence[Sequence[Cell]] = [
        (each.name, each.end - each.start, "".join(read.pieces[each.start : each.end]).strip())
        for each in read.segments
    ]
    return [Section("Segments", "", [Table([Column("name"), Column("tokens", "number"), Column("text")], rows)])]
