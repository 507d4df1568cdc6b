"""The page of activation patching: a map of layers × tokens or layers × heads, and the largest effects."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cutaway.core.formatting import figures
from cutaway.results.lm.token_names import readable
from cutaway.results.patching import Patching
from cutaway.views.pages.model import Bars, Column, Fact, Facts, Heatmap, Page, Section, Table
from cutaway.views.pages.site_names import short_site_names

_PARTS = {
    "stream": "output of the layer",
    "attention": "contribution of attention",
    "mlp": "contribution of the feed-forward network",
    "heads": "single heads",
}
_MOST_NUMBERS = 400
_MOST_CELLS = 200


def patching_page(patching: Patching) -> Page:
    """The page of a patching sweep."""
    about = "How much of the clean result one value of the clean run restores: 0 is nothing, 1 is all of it."
    sections = [Section("Summary", "", [Facts(_facts(patching))]), _map(patching), _best(patching)]
    return Page(f"Patching of {patching.model}", about, sections, topic="language")


def _facts(patching: Patching) -> list[Fact]:
    about = patching.about
    facts = [Fact(name, str(about[name])) for name in ("clean", "corrupted") if name in about]
    if "target" in about:
        difference = f"{readable(str(about['target']))} − {readable(str(about['contrast']))}"
        facts.append(Fact("measured", difference, "logit difference"))
        facts.append(Fact("patched", _PARTS.get(str(about["part"]), str(about["part"]))))
    facts.append(Fact("clean result", figures(float(patching.clean.mean()), 4)))
    facts.append(Fact("corrupted result", figures(float(patching.corrupted.mean()), 4)))
    return facts


def _map(patching: Patching) -> Section:
    share, rows = patching.share, _row_names(patching)
    heads = patching.heads
    if heads is not None:
        return _of_heads(patching, heads)
    if patching.positions[0] < 0:
        bars = Bars(rows, share[:, 0].tolist(), is_signed=bool(np.nanmin(share) < 0))
        return Section("Layers", "All positions of a layer at once.", [bars])
    high = 1.0 if patching.about.get("part", "stream") == "stream" else 0.0
    heatmap = _heatmap(rows, _column_names(patching), share, high)
    return Section("Layers and tokens", "Each layer, at each token.", [heatmap], is_wide=True)


def _of_heads(patching: Patching, heads: NDArray[np.int64]) -> Section:
    """Layers × heads; of several positions the one where a head has the largest effect."""
    share = patching.share
    sites = list(dict.fromkeys(patching.sites))
    values = np.full((len(sites), int(heads.max()) + 1), np.nan)
    most = np.take_along_axis(share, np.abs(np.nan_to_num(share)).argmax(axis=1)[:, None], axis=1)[:, 0]
    for site, head, value in zip(patching.sites, heads.tolist(), most.tolist(), strict=True):
        values[sites.index(site), head] = value
    about = "Each head of each layer" + (", at the token with the largest effect." if share.shape[1] > 1 else ".")
    rows = [f"layer {name}" if name.isdigit() else name for name in short_site_names(sites)]
    heatmap = _heatmap(rows, [f"head {head}" for head in range(values.shape[1])], values)
    return Section("Heads", about, [heatmap], is_wide=True)


def _best(patching: Patching) -> Section:
    share = patching.share
    order = np.argsort(np.where(np.isnan(share), np.inf, -np.abs(share)), axis=None, kind="stable")[:_MOST_CELLS]
    columns = [Column("where"), Column("token"), Column("recovered", "bar"), Column("result", "number"), Column("site")]
    names = _column_names(patching)
    rows = []
    for row, column in (divmod(int(place), share.shape[1]) for place in order):
        where = names[column] if patching.positions[column] >= 0 else "all"
        result = float(patching.scores[row, column].mean())
        rows.append((patching.name_of(row), where, float(share[row, column]), result, patching.sites[row]))
    return Section("Largest effects", "", [Table(columns, rows)], is_wide=True)


def _row_names(patching: Patching) -> list[str]:
    return list(patching.row_names) if patching.row_names else short_site_names(patching.sites)


def _column_names(patching: Patching) -> list[str]:
    """Positions with their tokens; both tokens if the prompts differ."""
    if not patching.clean_pieces:
        return [str(position) for position in patching.positions.tolist()]
    return [
        f"{position} {readable(one)}" + ("" if one == other else f" / {readable(other)}")
        for position, one, other in zip(
            patching.positions.tolist(), patching.clean_pieces, patching.corrupted_pieces, strict=True
        )
    ]


def _heatmap(rows: list[str], columns: list[str], values: NDArray[np.float64], high: float = 0.0) -> Heatmap:
    """The map; shares below one thousandth are rounded to 0, because they are no effect."""
    is_small = values.size <= _MOST_NUMBERS
    most = float(np.abs(np.nan_to_num(values)).max(initial=0.0))
    shown = (np.round(values, 3) + 0.0).tolist()
    return Heatmap(rows, columns, shown, high=max(high, most), is_diverging=True, shows_numbers=is_small)
