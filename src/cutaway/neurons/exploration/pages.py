"""Pages of units: `page` for one unit, `colored` for sentences colored by units."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from cutaway.core import late
from cutaway.neurons.exploration.words import histograms, top_contexts, top_words
from cutaway.results.neurons.ranking import Ranking
from cutaway.results.result import Result


def page(
    acts: Any,
    unit: int | str,
    labels: Any = None,
    *,
    rankings: Iterable[Ranking] | Mapping[str, Ranking] = (),
    effects: Sequence[tuple[str, float, float]] = (),
    min_count: int = 2,
) -> Result:
    """The page of one unit: `cutaway.show` displays it, `print` prints it, `.to_html(path)` writes it.

    Args:
        acts: the result of `cutaway.collect`, or `Activations.of(x, words=…)`.
        unit: index, or name such as `encoder.layer.3#17`.
        labels: one per row, for one histogram per label; default: one histogram of all rows.
        rankings: rankings to show the unit's rank in; a mapping names them.
        effects: effects of its ablation: name, value before, value after.
        min_count: minimum number of occurrences of a top word.
    """
    contexts = top_contexts(acts, unit)
    has_words = any(acts.words)  # rows that stand for samples have no words
    unit_page: Result = late.call(
        "neuron_page",
        contexts.unit,
        words=top_words(acts, unit, min_count=min_count) if has_words else None,
        contexts=contexts,
        histograms=histograms(acts, unit, labels),
        rankings=rankings,
        effects=effects,
        acts=acts if hasattr(acts, "n_items") else None,
    )
    return unit_page


def colored(
    acts: Any,
    units: int | str | Iterable[int | str],
    items: Sequence[int] | None = None,
    *,
    n: int = 12,
    scale: Literal["std", "raw"] = "std",
) -> Result:
    """The page with sentences colored by one or several units.

    Args:
        acts: the result of `cutaway.collect`, or `Activations.of(x, words=…)`.
        units: indices or names.
        items: indices of the sentences; default: the `n` sentences with the strongest activation of any unit.
        n: the number of sentences if `items` is not given.
        scale: what colors words: "std" for z-scores, "raw" for raw values.
    """
    units_page: Result = late.call("units_page", acts, units, items, n=n, scale=scale)
    return units_page
