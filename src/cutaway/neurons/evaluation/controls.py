"""Control tasks: random labels per word type, which a probe can only memorize.

Hewitt and Liang, "Designing and interpreting probes with control tasks", EMNLP 2019.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from cutaway.core.errors import InputError
from cutaway.neurons.labels.labels import EncodedLabels, encode


def control_labels(
    labels: Any, words: Iterable[Any], *, seed: int = 0, like: Literal["same", "uniform"] = "same"
) -> EncodedLabels:
    """Labels of a control task: every word type gets one random label, independent of its context.

    >>> control = control_labels(["a", "b", "a", "b"], ["the", "cat", "the", "dog"])
    >>> bool(control.codes[0] == control.codes[2])
    True

    Args:
        labels: the labels of the task, from which the random labels are drawn.
        words: one per row.
        seed: seed of the random labels.
        like: "same" to draw labels with their frequency in the task, "uniform" to draw them equally often.
    """
    types: dict[Any, int] = {}
    numbers = np.array([types.setdefault(word, len(types)) for word in words], np.int64)
    encoded = encode(labels, len(numbers))
    if like not in ("same", "uniform"):
        raise InputError(f"like={like!r}: use 'same' or 'uniform'.")
    random = np.random.default_rng(seed)
    # Drawing from the rows, not from the classes, keeps the class frequencies of the task.
    pool = np.arange(len(encoded.classes)) if like == "uniform" and encoded.kind == "classes" else encoded.codes
    codes = random.choice(pool, len(types))[numbers]  # multilabel: draws whole rows of labels
    if encoded.kind == "numbers":
        return replace(encoded, codes=codes)
    counts = np.bincount(codes, minlength=len(encoded.classes)) if codes.ndim == 1 else codes.sum(axis=0)
    return replace(encoded, codes=codes, counts=counts.astype(np.int64))
