"""The page of a logit lens: predictions by layer, colored by the rank of the target."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

from cutaway.core.formatting import figures, percent, plural
from cutaway.results.lm.lens import Lens, Watched
from cutaway.results.lm.token_names import quoted, readable
from cutaway.views.pages.model import Column, Fact, Facts, Heatmap, Line, Lines, Page, Prose, Section, Table
from cutaway.views.pages.provenance import model_name, summary_line

_MOST_TARGETS = 60
"""Columns of the map; with more targets the last ones are shown."""
_MOST_LINES = 8
_MOST_APART = 4
"""Targets with their own chart or table."""
_MOST_WATCHED = 2
_PALEST = 10_000
"""From this rank on, cells have the palest color: the map is about the ranks near 1."""
_NOTED = 5
_FAR = 2.0
"""The embedding is left out of the chart if its KL is this many times that of all layers, which it would flatten."""
_EMBEDDING = "embedding"


def lens_page(lens: Lens) -> Page:
    """The page of a lens."""
    shown = np.arange(max(0, len(lens.targets) - _MOST_TARGETS), len(lens.targets))
    names = _names(lens)
    sections = [*_picture(lens, shown, names), Section("Summary", "", [Facts(_in_short(lens))], is_wide=True)]
    notes = [Prose(_sentence(note)) for note in lens.notes]
    sections[0] = replace(sections[0], blocks=[*notes, *sections[0].blocks])
    if lens.watched is not None and len(lens.watched):
        sections += _watched_sections(lens, lens.watched, shown, names)
    sections += [_lines(lens, shown, names), _distances(lens), _layers(lens), *_words(lens, shown, names)]
    n = plural(len(lens), "layer")
    about = summary_line(model_name(lens.about), f"{n}, read by the logit lens", plural(len(lens.targets), "target"))
    return Page(lens.title, about, sections, topic="language")


def _names(lens: Lens) -> list[str]:
    """Readable targets; with their number if a text occurs twice."""
    texts = [readable(text) for text in lens.targets]
    return [text if texts.count(text) == 1 else f"{text} ({place})" for place, text in enumerate(texts)]


def _in_short(lens: Lens) -> list[Fact]:
    settled = lens.settled
    n_first = int((settled >= 0).sum())
    facts = [
        Fact("targets", f"{len(lens.targets):,}", _chosen_text(lens)),
        Fact("layers", f"{len(lens):,}", "including the embedding, before the first block"),
        Fact("final norm", "at every layer" if lens.norm else "only at the last layer", "" if lens.norm else "raw"),
        Fact("most likely at the output", f"{n_first:,}", f"of {len(lens.targets):,} targets"),
    ]
    if n_first:
        middle = int(np.sort(settled[settled >= 0])[(n_first - 1) // 2])
        facts.append(Fact("settled", f"by {_layer(lens, middle)}", "half of those stay the most likely from there on"))
    return facts


def _chosen_text(lens: Lens) -> str:
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
        "Columns are targets, rows are layers, the output at the bottom. A cell shows the prediction of the layer and, "
        "small, the rank of the target there: the stronger the color, the closer to 1."
    )
    if len(shown) < len(lens.targets):
        about += f" The last {len(shown)} of {len(lens.targets):,} are shown."
    return [Section("Predictions by layer", about, [heatmap], is_wide=True)]


def _note(lens: Lens, pieces: np.ndarray, layer: int, target: int) -> str:
    best = zip(pieces[layer, target, :_NOTED], lens.top_logprobs[layer, target, :_NOTED], strict=True)
    most_likely = ", ".join(f"{quoted(piece)} {percent(float(np.exp(logprob)))}" for piece, logprob in best)
    own = f"rank {lens.ranks[layer, target]:,}, probability {percent(float(np.exp(lens.logprobs[layer, target])))}"
    return f"{own}; most likely: {most_likely}"


def _watched_sections(lens: Lens, watched: Watched, shown: np.ndarray, names: list[str]) -> list[Section]:
    tokens = [readable(piece) for piece in watched.pieces]
    low = float(max(10, min(_PALEST, lens.n_classes or _PALEST)))
    sections = []
    for target in shown[:_MOST_WATCHED]:
        heights = np.log10(watched.ranks[:, target])  # (layer, token)
        lines = [Line(name, heights[:, place].tolist()) for place, name in enumerate(tokens)]
        chart = Lines(*_x(lens, "log₁₀ of the rank"), lines)
        ranks = Heatmap(lens.layers, tokens, watched.ranks[:, target].tolist(), low=low, high=1.0, is_log=True)
        about = (
            f"Ranks of {', '.join(tokens)} at every layer in place of {names[target]}; at 0 a token is the most "
            f"likely. {_counting(lens)}"
        )
        sections.append(Section(f"Watched tokens at {names[target]}", about, [chart, ranks]))
    return sections


def _x(lens: Lens, y: str) -> tuple[str, str, list[float]]:
    """Names of both axes and positions on x: the block numbers, as in the rows of the map."""
    places = _blocks(lens)
    return ("layer, in order", y, [float(at) for at in range(len(lens))]) if places is None else ("block", y, places)


def _blocks(lens: Lens) -> list[float] | None:
    """The block number of each layer, a little less for points inside a block; None if names have no number."""
    positions: list[float] = []
    numbers = [
        -1 if name == _EMBEDDING else int(name.split()[0]) if name[:1].isdigit() else None for name in lens.layers
    ]
    for place, number in enumerate(numbers):
        if number is None:
            return None
        inside = sum(each == number for each in numbers[place + 1 :])  # later points of the same block
        positions.append(number - inside / max(1, numbers.count(number)))
    return positions if all(a < b for a, b in pairwise(positions)) else None


def _counting(lens: Lens) -> str:
    if _blocks(lens) is None:
        return ""
    return "Blocks count from 0, as above" + ("; −1 is the embedding." if _EMBEDDING in lens.layers else ".")


def _lines(lens: Lens, shown: np.ndarray, names: list[str]) -> Section:
    lines = [Line(names[target], lens.probs[:, target].tolist()) for target in shown[:_MOST_LINES]]
    about = f"Probability of the target at each layer. {_counting(lens)}"
    if len(shown) > _MOST_LINES:
        about += f" The first {_MOST_LINES} of those above."
    return Section("Probability", about, [Lines(*_x(lens, "probability"), lines)])


def _distances(lens: Lens) -> Section:
    """KL and entropy by layer; the embedding alone can be so far away that it would hide the rest."""
    kl: list[float | None] = [*_mean(lens.kl)]
    about = (
        "KL divergence of each layer to the model's output, and its entropy: in nats, means over targets. "
        f"{_counting(lens)}"
    )
    others = [value for value in kl[1:] if value is not None]
    if lens.layers[0] == _EMBEDDING and kl[0] is not None and others and kl[0] > _FAR * max(others):
        about += f" The embedding is left out of the KL: {figures(kl[0])} nats."
        kl[0] = None
    lines = [Line("KL to the output", kl), Line("entropy", _mean(lens.entropies), is_dashed=True)]
    return Section("Distance to the output", about, [Lines(*_x(lens, "nats"), lines)])


def _mean(values: np.ndarray) -> list[float]:
    return values.mean(axis=1).tolist() if values.shape[1] else [float("nan")] * len(values)  # type: ignore[no-any-return]


def _layers(lens: Lens) -> Section:
    columns = [
        Column("layer"),
        Column("median rank", "number", "of the targets"),
        Column("first", "share", "of targets that are the most likely here"),
        Column("as the output", "share", "of targets with the same most likely token as the last layer"),
        Column("mean probability", "share", "of the targets"),
        Column("entropy", "number", "in nats, mean over targets"),
        Column("KL to the output", "number", "in nats, mean over targets"),
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
    """The predictions of each layer in place of the first targets."""
    blocks = []
    for target in shown[:_MOST_APART]:
        columns = [Column("layer"), Column("rank", "number", "of the target"), Column("probability", "share")]
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
        blocks.append(Table(columns, rows, title=f"In place of {names[target]}"))
    about = "The most likely tokens of each layer, best first."
    return [Section("Top predictions", about, blocks, is_wide=True)] if blocks else []
