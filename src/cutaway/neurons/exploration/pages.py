"""Pages about units, computed and put together in one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from cutaway.core import late
from cutaway.neurons.exploration.words import histograms, top_contexts, top_words
from cutaway.results.ranking import Ranking


def page(
    acts: Any,
    unit: int | str,
    labels: Any = None,
    *,
    rankings: Iterable[Ranking] | Mapping[str, Ranking] = (),
    effects: Sequence[tuple[str, float, float]] = (),
    min_count: int = 2,
) -> Any:
    """All about one unit as a page: `cutaway.show` shows it, `print` prints it, `.to_html(path)` writes it.

    Args:
        unit: its index or its name, `encoder.layer.3#17`.
        labels: one for each row: how its values lie for each of them; without labels, how all of them lie.
        rankings: methods whose rank of it is told; in a mapping, each under a name of its own.
        effects: what its ablation changes: a name, the number before, the number after.
        min_count: how often a word has to occur to be among its top words.
    """
    contexts = top_contexts(acts, unit)
    has_words = any(acts.words)  # rows of samples have none
    return late.call(
        "neuron_page",
        contexts.unit,
        words=top_words(acts, unit, min_count=min_count) if has_words else None,
        contexts=contexts,
        histograms=histograms(acts, unit, labels),
        rankings=rankings,
        effects=effects,
        acts=acts if hasattr(acts, "n_items") else None,
    )


def colored(
    acts: Any,
    units: int | str | Iterable[int | str],
    items: Sequence[int] | None = None,
    *,
    n: int = 12,
    scale: Literal["std", "raw"] = "std",
) -> Any:
    """Sentences coloured by one or several units, as a page: show, print or write it.

    Args:
        units: their indices or names.
        items: the sentences, by number; without them, the `n` in which one of the units is strongest.
        scale: what colours words: "std", standard deviations from the unit's mean, or "raw", its values as they are.
    """
    return late.call("units_page", acts, units, items=items, n=n, scale=scale)
