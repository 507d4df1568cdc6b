"""A lens as a page: what each layer would have written, coloured by the rank of what was."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from cutaway.core.formatting import figures, percent
from cutaway.results.lens import Lens, Watched
from cutaway.results.token_names import quoted, readable
from cutaway.views.pages.model import Column, Fact, Facts, Heatmap, Line, Lines, Page, Prose, Section, Table
from cutaway.views.pages.provenance import counted, model_name, told

_MOST_TARGETS = 60
"""Columns of the picture; the last ones are shown where there are more."""
_MOST_LINES = 8
_MOST_APART = 4
"""Targets that have a picture or table of their own."""
_MOST_WATCHED = 2
_PALEST = 10_000
_NOTED = 5
_FAR = 2.0
_EMBEDDING = "embedding"


def lens_page(lens: Lens) -> Page:
    """All of a lens."""
    shown = np.arange(max(0, len(lens.targets) - _MOST_TARGETS), len(lens.targets))
    names = _names(lens)
    sections = [*_picture(lens, shown, names), Section("In short", "", [Facts(_in_short(lens))], is_wide=True)]
    notes = [Prose(_sentence(note)) for note in lens.notes]
    sections[0] = replace(sections[0], plates=[*notes, *sections[0].plates])
    if lens.watched is not None and len(lens.watched):
        sections += _watched(lens, lens.watched, shown, names)
    sections += [_lines(lens, shown, names), _distances(lens), _layers(lens), *_words(lens, shown, names)]
    n = counted(len(lens), "layer")
    about = told(model_name(lens.about), f"{n}, each read as if it were the last", counted(len(lens.targets), "target"))
    return Page(lens.title, about, sections, topic="language")


def _names(lens: Lens) -> list[str]:
    """Targets as they are read; with their number where a text comes twice."""
    texts = [readable(text) for text in lens.targets]
    return [text if texts.count(text) == 1 else f"{text} ({place})" for place, text in enumerate(texts)]


def _in_short(lens: Lens) -> list[Fact]:
    settled = lens.settled
    n_first = int((settled >= 0).sum())
    facts = [
        Fact("targets", f"{len(lens.targets):,}", _said_of(lens)),
        Fact("layers", f"{len(lens):,}", "with the embedding, before the first block"),
        Fact("final norm", "at every layer" if lens.norm else "at the last layer alone", "" if lens.norm else "raw"),
        Fact("the likeliest in the end", f"{n_first:,}", f"of {len(lens.targets):,} targets"),
    ]
    if n_first:
        middle = int(np.sort(settled[settled >= 0])[(n_first - 1) // 2])
        facts.append(Fact("settled", f"by {_layer(lens, middle)}", "half of those are first from there to the end"))
    return facts


def _said_of(lens: Lens) -> str:
    n = int(lens.is_written.sum())
    return "all chosen by the model" if n == len(lens.targets) else f"{n:,} of them chosen by the model"


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:]


def _layer(lens: Lens, place: int) -> str:
    name = lens.layers[place]
    return f"layer {name}" if name[:1].isdigit() else f"the {name}"


def _picture(lens: Lens, shown: np.ndarray, names: list[str]) -> list[Section]:
    if not len(shown):
        return []
    pieces = lens.top_pieces
    low = max(10, min(_PALEST, lens.n_classes or _PALEST))
    heatmap = Heatmap(
        lens.layers,
        [names[target] for target in shown],
        lens.ranks[:, shown].tolist(),
        low=float(low),
        high=1.0,
        is_log=True,
        texts=[[readable(pieces[layer, target, 0]) for target in shown] for layer in range(len(lens))],
        notes=[[_note(lens, pieces, layer, target) for target in shown] for layer in range(len(lens))],
    )
    about = (
        "Columns are what was written, rows are layers, the end below. In each cell stands what the layer would have "
        "written itself, and small the rank there of what was: the stronger the colour, the nearer to 1."
    )
    if len(shown) < len(lens.targets):
        about += f" The last {len(shown)} of {len(lens.targets):,} are shown."
    return [Section("Layer by layer", about, [heatmap], is_wide=True)]


def _note(lens: Lens, pieces: np.ndarray, layer: int, target: int) -> str:
    best = zip(pieces[layer, target, :_NOTED], lens.top_logprobs[layer, target, :_NOTED], strict=True)
    likeliest = ", ".join(f"{quoted(piece)} {percent(float(np.exp(logprob)))}" for piece, logprob in best)
    own = f"rank {lens.ranks[layer, target]:,}, probability {percent(float(np.exp(lens.logprobs[layer, target])))}"
    return f"{own}; likeliest: {likeliest}"


def _watched(lens: Lens, watched: Watched, shown: np.ndarray, names: list[str]) -> list[Section]:
    tokens = [readable(piece) for piece in watched.pieces]
    low = float(max(10, min(_PALEST, lens.n_classes or _PALEST)))
    found = []
    for target in shown[:_MOST_WATCHED]:
        heights = np.log10(watched.ranks[:, target])  # (layer, token)
        lines = [Line(name, heights[:, place].tolist()) for place, name in enumerate(tokens)]
        chart = Lines(*_x(lens, "log₁₀ of the rank"), lines)
        ranks = Heatmap(lens.layers, tokens, watched.ranks[:, target].tolist(), low=low, high=1.0, is_log=True)
        about = (
            f"The ranks of {', '.join(tokens)} at every layer, where {names[target]} was written: at 0 a token is the "
            f"likeliest. {_counting(lens)}"
        )
        found.append(Section(f"Watched at {names[target]}", about, [chart, ranks]))
    return found


def _x(lens: Lens, y: str) -> tuple[str, str, list[float]]:
    """Names of both axes and places on x: the numbers of blocks, as the rows of the picture have them."""
    places = _blocks(lens)
    return ("layer, in order", y, [float(at) for at in range(len(lens))]) if places is None else ("block", y, places)


def _blocks(lens: Lens) -> list[float] | None:
    """The number of each layer's block, of what is inside one a little less; None where names do not tell."""
    found: list[float] = []
    numbers = [
        -1 if name == _EMBEDDING else int(name.split()[0]) if name[:1].isdigit() else None for name in lens.layers
    ]
    for place, number in enumerate(numbers):
        if number is None:
            return None
        inside = sum(each == number for each in numbers[place + 1 :])  # what of the same block is still to come
        found.append(number - inside / max(1, numbers.count(number)))
    return found if all(a < b for a, b in pairwise(found)) else None


def _counting(lens: Lens) -> str:
    if _blocks(lens) is None:
        return ""
    return "Blocks count from 0, as above" + ("; −1 is the embedding." if _EMBEDDING in lens.layers else ".")


def _lines(lens: Lens, shown: np.ndarray, names: list[str]) -> Section:
    lines = [Line(names[target], lens.probs[:, target].tolist()) for target in shown[:_MOST_LINES]]
    about = f"How likely each layer holds what was written. {_counting(lens)}"
    if len(shown) > _MOST_LINES:
        about += f" The first {_MOST_LINES} of those above."
    return Section("Probability", about, [Lines(*_x(lens, "probability"), lines)])


def _distances(lens: Lens) -> Section:
    """The embedding alone can be so far away that nothing else would be seen."""
    kl: list[float | None] = [*_mean(lens.kl)]
    about = (
        "How far each layer is from what the model said in the end, and how undecided it is: nats, means of targets. "
        f"{_counting(lens)}"
    )
    others = [value for value in kl[1:] if value is not None]
    if lens.layers[0] == _EMBEDDING and kl[0] is not None and others and kl[0] > _FAR * max(others):
        about += f" The embedding is left out of the distance: {figures(kl[0])} nats."
        kl[0] = None
    lines = [Line("to the end (KL)", kl), Line("entropy", _mean(lens.entropies), is_dashed=True)]
    return Section("Distance to the end", about, [Lines(*_x(lens, "nats"), lines)])


def _mean(values: np.ndarray) -> list[float]:
    return values.mean(axis=1).tolist() if values.shape[1] else [float("nan")] * len(values)  # type: ignore[no-any-return]


def _layers(lens: Lens) -> Section:
    columns = [
        Column("layer"),
        Column("median rank", "number", "of what was written"),
        Column("first", "share", "of targets that are the likeliest here"),
        Column("as in the end", "share", "of targets whose likeliest is the one of the last layer"),
        Column("mean probability", "share", "of what was written"),
        Column("entropy", "number", "in nats, the mean of targets"),
        Column("KL to the end", "number", "in nats, the mean of targets"),
        Column("where"),
    ]
    agrees = lens.top_ids[..., 0] == lens.top_ids[-1, :, 0]
    rows = [
        (
            name,
            float(np.median(lens.ranks[layer])),
            float((lens.ranks[layer] == 1).mean()),
            float(agrees[layer].mean()),
            float(lens.probs[layer].mean()),
            float(lens.entropies[layer].mean()),
            float(lens.kl[layer].mean()),
            lens.sites[layer],
        )
        for layer, name in enumerate(lens.layers)
        if lens.targets
    ]
    return Section("Layers", "", [Table(columns, rows)], is_wide=True)


def _words(lens: Lens, shown: np.ndarray, names: list[str]) -> list[Section]:
    """What each layer would have written in the place of the first targets."""
    plates = []
    for target in shown[:_MOST_APART]:
        columns = [Column("layer"), Column("rank", "number", "of what was written"), Column("probability", "share")]
        columns += [Column(str(place + 1)) for place in range(min(_NOTED, lens.k))]
        rows: list[tuple[str | float, ...]] = [
            (
                name,
                int(lens.ranks[layer, target]),
                float(lens.probs[layer, target]),
                *(f"{quoted(piece)} {percent(share)}" for piece, share in best),
            )
            for layer, (name, best) in enumerate(
                zip(lens.layers, lens.top(min(_NOTED, lens.k), target=int(target)), strict=True)
            )
        ]
        plates.append(Table(columns, rows, title=f"In the place of {names[target]}"))
    about = "The likeliest of each layer, best first."
    return [Section("What they would have written", about, plates, is_wide=True)] if plates else []
