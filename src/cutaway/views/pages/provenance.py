"""Where a result comes from: a readable name of its model, and the section with versions and options."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from cutaway.core.formatting import figures
from cutaway.views.pages.model import Column, Section, Table

_HASH = re.compile(r"^[0-9a-f]{12,}$")
_PLAIN = ("snapshots", "blobs", "refs", "model", "models", "final", "best", "last", "output", "outputs", "")
"""Folder names that say nothing about a model."""
_TITLES = {
    "model": "class",
    "name": "model",
    "n_rows": "rows",
    "kind": "labels are",
    "counts": "rows of each label",
    "standardise": "values standardized",  # in archives of earlier versions
    "standardize": "values standardized",
    "n": "requested",
}
_FIRST = ("name", "model", "dtype", "tokenizer", "torch", "transformers")
"""These come first; the rest follows."""


def model_name(about: Mapping[str, object]) -> str:
    """The usual name of a model; its class if it has no name.

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


def summary_line(*parts: object) -> str:
    """One line of details: `SmolLM2-135M · gradient × input · 12 targets`."""
    return " · ".join(str(part) for part in parts if part)


def provenance_section(
    about: Mapping[str, object], more: Iterable[tuple[str, object]] = (), about_it: str = ""
) -> Section:
    """Class, versions and options. Never shows a path on disk."""
    order = [*(name for name in _FIRST if about.get(name)), *(name for name in about if name not in _FIRST)]
    rows = [
        (_TITLES.get(name, name.replace("_", " ")), model_name(about) if name == "name" else _value_text(about[name]))
        for name in order
        if about[name] not in (None, "")
    ]
    rows += [(name, str(value)) for name, value in more]
    return Section("Provenance", about_it, [Table([Column("what"), Column("")], rows)])


def _value_text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_value_text(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_value_text, value))
    return f"{value:,}" if isinstance(value, int) else figures(value) if isinstance(value, float) else str(value)
