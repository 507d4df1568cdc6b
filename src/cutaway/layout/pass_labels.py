"""Labels of edges that exist only in some passes of a loop, in rolled-up pictures."""

from __future__ import annotations

_MAX_SPANS = 3


def spans(numbers: set[int]) -> str:
    """Numbers as ranges.

    >>> spans({1, 2, 3, 7}), spans({2}), spans({1, 3, 5, 7, 9})
    ('1–3, 7', '2', '1, 3 … 9')
    """
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and ranges[-1][-1] == number - 1:
            ranges[-1] = [ranges[-1][0], number]
        else:
            ranges.append([number])
    words = ["–".join(map(str, span)) for span in ranges]
    return ", ".join(words) if len(words) <= _MAX_SPANS else f"{words[0]}, {words[1]} … {words[-1]}"


def passes_label(out: set[int], n_out: int, into: set[int], n_in: int) -> str:
    """The passes of the upper and the lower box that an edge connects; empty where it connects all.

    >>> passes_label({1, 2}, 3, {2, 3}, 3), passes_label({1}, 1, {1, 2}, 2)
    ('Out 1–2 In 2–3', '')
    """
    words = [f"Out {spans(out)}"] if len(out) < n_out else []
    words += [f"In {spans(into)}"] if len(into) < n_in else []
    return " ".join(words)
