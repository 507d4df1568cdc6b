"""The page of attention weights: attention by target and by head, statistics of heads, and maps of picked heads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cutaway.core.formatting import percent, plural
from cutaway.results.lm.attention import Attention
from cutaway.results.lm.token_names import readable
from cutaway.views.pages.model import (
    Cell,
    ColoredText,
    Column,
    Fact,
    Facts,
    Heatmap,
    Page,
    Prose,
    Section,
    Table,
    Text,
)
from cutaway.views.pages.provenance import model_name, provenance_section, summary_line

_MOST_CELLS = 6000
_MOST_MAPS = 12
_MOST_MEANS = 4
_MOST_CHANNELS = 40
_MOST_TARGETS = 8
_MOST_ROWS = 40
_MOST_NUMBERS = 9
_MOST_NARROW = 18


def attention_page(attention: Attention) -> Page:
    """The page of all heads, or of a picked layer and head."""
    sections = [
        *_by_target(attention),
        *_by_head(attention),
        *_maps(attention),
        *_heads(attention),
        _provenance(attention),
    ]
    is_one = len(attention.layers) * attention.n_heads == 1
    if is_one:
        sections.insert(-1, Section("Head statistics", "", [Facts(_sink_facts(attention))]))
    if attention.notes:
        notes = [Prose(note) for note in attention.notes]
        sections[0] = replace(sections[0], blocks=[*notes, *sections[0].blocks])
    of = "" if is_one else f"{plural(len(attention.layers), 'layer')} × {plural(attention.n_heads, 'head')}"
    about = summary_line(
        model_name(attention.about), "attention weights", of, *map(_remark, _sink_facts(attention)[:1])
    )
    return Page(attention.title, about, sections, topic="language")


def _remark(fact: Fact) -> str:
    return f"{fact.value} {fact.name}"


def _provenance(attention: Attention) -> Section:
    n, m = attention.weights.shape[2:]
    more = [
        ("layers", f"{len(attention.layers):,} of {attention.n_layers:,}"),
        ("heads per layer", f"{attention.n_heads:,}"),
        ("tokens", f"{n:,} queries × {m:,} keys"),
    ]
    if attention.weights.dtype == np.float16:
        more.append(("stored as", "float16, to stay within the limit"))
    return provenance_section(attention.about, more, "Each row of weights sums to 1.")


def _sink_facts(attention: Attention) -> list[Fact]:
    is_one = len(attention.layers) * attention.n_heads == 1
    of = "" if is_one else "mean over heads"
    facts = [("on the first token", attention.first)]
    if is_one and not attention.is_cross:
        facts += [("on the previous token", attention.previous), ("on the token itself", attention.itself)]
    shares = [Fact(name, percent(float(values.mean())), of) for name, values in facts if np.isfinite(values).all()]
    return [*shares, *([Fact("entropy", f"{float(attention.entropy.mean()):.2f}", "nats")] if is_one else [])]


def _by_target(attention: Attention) -> list[Section]:
    """One channel per target: the mean over heads, with the first token left out of the scale."""
    if not len(attention.rows):
        return []
    rows = attention.of_targets().mean((0, 1), dtype=np.float64)
    values = [_visible(attention, target, rows[target]) for target in range(len(attention.targets))]
    most = [_largest_share(row) for row in values]
    at = _places(attention)
    chooses = [at.get(place, -1) for place in range(len(attention.keys))] if at else []
    text = Text(list(attention.keys), values, marks=sorted(at), chooses=chooses)
    how = "Point at a target, or choose one" if at else "Choose a target"
    is_one = len(attention.layers) * attention.n_heads == 1
    about = (
        f"{how}: what the {'head' if is_one else 'model'} attended to when it predicted this token"
        f"{'' if is_one else ', mean over heads and layers'}. Many heads rest on the first token (an attention "
        "sink), so the full color is the largest share of any other token."
    )
    block = ColoredText(
        _targets(attention), [text], is_signed=False, most=most, is_share=True, missing="not seen by this target"
    )
    return [Section("Attention by target", about, [block], is_wide=True)]


def _by_head(attention: Attention) -> list[Section]:
    """One channel per head, one text per target; a single head has its own section above."""
    if not len(attention.rows) or len(attention.layers) * attention.n_heads == 1:
        return []
    rows = attention.of_targets()
    order = _heads_by_sink(attention)[:_MOST_CHANNELS]
    targets = range(min(len(attention.targets), _MOST_TARGETS))
    names = _targets(attention)
    texts = []
    for target in targets:
        values = [_visible(attention, target, rows[i, j, target]) for i, j in order]
        texts.append(Text(list(attention.keys), values, names[target]))
    most = [_largest_share([value for text in texts for value in text.values[c]]) for c in range(len(order))]
    about = "Choose a head: one text per target, colored by the attention of that head when it was predicted."
    if len(targets) < len(names):
        about += f" {len(targets)} of {len(names):,} targets."
    left = attention.weights.shape[0] * attention.n_heads - len(order)
    if left > 0:
        about += f" The {len(order)} heads with the least attention to the first token; pick(layer, head) shows others."
    heads = [_name(attention, i, j) for i, j in order]
    block = ColoredText(heads, texts, is_signed=False, most=most, is_share=True, missing="not seen by this target")
    return [Section("Attention by head", about, [block], is_wide=True)]


def _maps(attention: Attention) -> list[Section]:
    """The whole map of each head, if few were picked and they fit; otherwise the mean over heads of some layers."""
    n, m = attention.weights.shape[2:]
    if n * m > _MOST_CELLS:
        return []
    if len(attention.layers) * attention.n_heads <= _MOST_MAPS:
        pairs = [(i, j) for i in range(len(attention.layers)) for j in range(attention.n_heads)]
        maps = [(_name(attention, i, j), attention.weights[i, j].astype(np.float64)) for i, j in pairs]
    else:
        means = attention.mean()
        some = np.unique(np.linspace(0, len(means) - 1, min(_MOST_MEANS, len(means))).round().astype(int))
        maps = [(f"layer {attention.layers[i]}, mean over heads", means[i]) for i in some.tolist()]
    about = "Rows are queries, columns are keys. The full color is the largest share of any token other than the first."
    if attention.n_heads > 1:
        about += " pick(layer, head) shows a single head."
    rows, columns = ([readable(piece) for piece in each] for each in (attention.queries, attention.keys))
    return [
        Section(
            f"{name[0].upper()}{name[1:]}",
            about if place == 0 else "",
            [
                Heatmap(
                    rows,
                    columns,
                    _past(attention, values),
                    low=0.0,
                    high=_map_maximum(values),
                    is_share=True,
                    shows_numbers=m <= _MOST_NUMBERS,
                )
            ],
            is_wide=m > _MOST_NARROW,
        )
        for place, (name, values) in enumerate(maps)
    ]


def _heads(attention: Attention) -> list[Section]:
    """Statistics of each head; a single head has them as facts."""
    if len(attention.layers) * attention.n_heads == 1:
        return []
    names = [f"layer {layer}" for layer in attention.layers.tolist()][::-1]
    columns = [str(head) for head in attention.heads]
    shares = [("On the first token", attention.first)]
    if not attention.is_cross:
        shares += [("On the previous token", attention.previous), ("On the token itself", attention.itself)]
    blocks = [
        Heatmap(names, columns, values[::-1].tolist(), low=0.0, is_share=True, shows_numbers=False, title=title)
        for title, values in shares
    ]
    entropy = attention.entropy[::-1].tolist()
    blocks.append(Heatmap(names, columns, entropy, low=0.0, shows_numbers=False, title="Entropy"))
    about = (
        "Layer by head, last layer on top; each map has its own scale. Entropy is how widely a head attends, in nats: "
        "0 for a single token."
    )
    return [
        Section("Head statistics", about, blocks, is_wide=True),
        Section("Heads by attention to the first token", "Least first.", [_table(attention)], is_wide=True),
    ]


def _table(attention: Attention) -> Table:
    columns = [Column("head"), Column("entropy", "number", "in nats"), Column("first", "share")]
    own = None if attention.is_cross else (attention.previous, attention.itself)
    if own is not None:
        columns += [Column("previous", "share"), Column("itself", "share")]
    columns.append(Column("site"))
    entropy, first = attention.entropy, attention.first
    rows: list[list[Cell]] = []
    for i, j in _heads_by_sink(attention)[:_MOST_ROWS]:
        row: list[Cell] = [_name(attention, i, j), float(entropy[i, j]), float(first[i, j])]
        if own is not None:
            row += [float(own[0][i, j]), float(own[1][i, j])]
        rows.append([*row, attention.sites[i]])
    return Table(columns, rows)


def _heads_by_sink(attention: Attention) -> list[tuple[int, int]]:
    """Indices of the heads, those with the least attention to the first token first."""
    first = np.nan_to_num(attention.first, nan=1.0)
    order = np.argsort(first, axis=None, kind="stable")
    return [(int(i), int(j)) for i, j in zip(*np.unravel_index(order, first.shape), strict=True)]


def _visible(attention: Attention, target: int, row: np.ndarray) -> list[float | None]:
    """A row of weights; None for later positions."""
    if attention.is_cross or attention.role == "encoder":
        return [float(value) for value in row]
    at = int(attention.positions[attention.rows[target]])
    is_causal = float(np.asarray(row[at + 1 :], float).sum()) == 0.0
    return [float(value) if i <= at or not is_causal else None for i, value in enumerate(row)]


def _past(attention: Attention, values: np.ndarray) -> list[list[float | None]]:
    square = not attention.is_cross and len(attention.queries) == len(attention.keys)
    if not square or np.triu(values, 1).any():
        return [[float(value) for value in row] for row in values]
    return [[float(value) if j <= i else None for j, value in enumerate(row)] for i, row in enumerate(values)]


def _largest_share(row: list[float | None]) -> float:
    """The largest share of any token other than the first."""
    return max((value for value in row[1:] if value is not None), default=0.0) or 1.0


def _map_maximum(values: np.ndarray) -> float:
    """The same for a whole map."""
    return float(np.nan_to_num(values)[:, 1:].max(initial=0.0)) or 1.0


def _places(attention: Attention) -> dict[int, int]:
    """Key positions of the targets, with their numbers: a target is one position after the row that predicted it."""
    if attention.is_cross:
        return {}
    after = enumerate(int(attention.positions[row]) + 1 for row in attention.rows.tolist())
    return {at: target for target, at in after if at < len(attention.keys)}


def _targets(attention: Attention) -> list[str]:
    return [f"{i} {readable(piece)}" for i, piece in enumerate(attention.targets)]


def _name(attention: Attention, i: int, j: int) -> str:
    return f"layer {attention.layers[i]}, head {attention.heads[j]}"
