"""Pages about units, computed and put together in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cutaway.core import late
from cutaway.neurons.words import histograms, top_contexts, top_words
from cutaway.results.ranking import Ranking


def page(
    acts: Any,
    unit: int | str,
    labels: Any = None,
    *,
    rankings: Iterable[Ranking] = (),
    effects: Sequence[tuple[str, float, float]] = (),
    min_count: int = 2,
) -> Any:
    """All about one unit as a page: `cutaway.show` shows it, `print` prints it, `.to_html(path)` writes it.

    Args:
        unit: its index or its name, `encoder.layer.3#17`.
        labels: one for each row: how its values lie for each of them.
        rankings: methods whose rank of it is told.
        effects: what its ablation changes: a name, the number before, the number after.
        min_count: how often a word has to occur to be among its top words.
    """
    words = top_words(acts, unit, min_count=min_count)
    return late.call(
        "neuron_page",
        words.unit,
        words=words,
        contexts=top_contexts(acts, unit),
        histograms=None if labels is None else histograms(acts, unit, labels),
        rankings=rankings,
        effects=effects,
        acts=acts if hasattr(acts, "n_items") else None,
    )
