"""Where a result comes from: its model by a name that people use, and what is technical, at the end of a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from cutaway.core.formatting import figures
from cutaway.views.pages.model import Column, Section, Table

_HASH = re.compile(r"^[0-9a-f]{12,}$")
_PLAIN = ("snapshots", "blobs", "refs", "model", "models", "final", "best", "last", "output", "outputs", "")
"""Folders whose names tell nothing of a model."""
_NAMED = {
    "model": "class",
    "name": "model",
    "n_rows": "rows",
    "kind": "labels are",
    "counts": "rows of each label",
    "standardize": "values standardized",
    "standardise": "values standardized",  # as rankings of older versions have it
    "n": "asked for",
}
_SHOWN = ("name", "model", "dtype", "tokenizer", "torch", "transformers")
"""In this order; all else follows."""


def model_name(about: Mapping[str, object]) -> str:
    """The model as one would call it; its class where it has no name.

    >>> model_name({"name": "HuggingFaceTB/SmolLM2-135M"}), model_name({"model": "GPT2LMHeadModel", "name": ""})
    ('SmolLM2-135M', 'GPT2LMHeadModel')
    >>> model_name({"name": "/cache/models--org--tiny/snapshots/0123456789abcdef"}), model_name({"name": "/a/b/best"})
    ('tiny', 'b')
    """
    parts = re.split(r"[\\/]+", str(about.get("name") or ""))
    sensible = [part for part in parts if part.lower() not in _PLAIN and not _HASH.match(part)]
    if not sensible:
        return str(about.get("model") or "a model")
    last = sensible[-1]
    if re.match(r"checkpoint[-_]?\d+$", last) and len(sensible) > 1:
        last = f"{sensible[-2]}, {last}"
    return last.rpartition("--")[2]


def told(*parts: object) -> str:
    """One quiet line: `SmolLM2-135M · gradient × input · 12 targets`."""
    return " · ".join(str(part) for part in parts if part)


def counted(n: int, what: str) -> str:
    """
    >>> counted(1, "layer"), counted(1200, "head")
    ('1 layer', '1,200 heads')
    """
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def made_section(about: Mapping[str, object], more: Iterable[tuple[str, object]] = (), said: str = "") -> Section:
    """What is technical: class, versions, options. No path on anybody's disk."""
    order = [*(name for name in _SHOWN if about.get(name)), *(name for name in about if name not in _SHOWN)]
    rows = [
        (_NAMED.get(name, name.replace("_", " ")), model_name(about) if name == "name" else _said(about[name]))
        for name in order
        if about[name] not in (None, "")
    ]
    rows += [(name, str(value)) for name, value in more]
    return Section("How it was made", said, [Table([Column("what"), Column("")], rows)])


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_said(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_said, value))
    return f"{value:,}" if isinstance(value, int) else figures(value) if isinstance(value, float) else str(value)
