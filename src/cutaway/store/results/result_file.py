"""Results on disk: `ranking.save(path)`, and what `cutaway.load(path)` makes of it without torch.

A result is a frozen dataclass. Its arrays are a block, all else is a document, which is written last: without it, the
result is not complete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Final

from cutaway.core import late
from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, InputError, StoreError, VersionError
from cutaway.core.formatting import nearest
from cutaway.store.format.fields import count, mapping, number, text
from cutaway.store.format.frames import MOST_ENTRIES, Plain, encode
from cutaway.store.reading.archive import Archive
from cutaway.store.results.decode import ResultReader
from cutaway.store.results.encode import ResultWriter
from cutaway.store.writing.writer import Writer

VERSION: Final = 1
"""Raised when a reader of the version before could no longer make a result of what is written; fields do not raise it.
"""
DOCUMENT: Final = "result"
BLOCK: Final = "arrays"
_MOST_TITLE: Final = 200
_FACTS: Final = ("model", "method", "unit")


@dataclass(frozen=True, slots=True)
class Registered:
    """A class whose instances can be saved."""

    module: str
    """Where it is defined; imported when it is asked for."""
    topic: str = ""
    """The tab of the viewer that lists it; a page says so itself."""


REGISTRY: Final[Mapping[str, Registered]] = {
    "Ablation": Registered("cutaway.results.ablation", "neurons"),
    "Attention": Registered("cutaway.results.attention", "language"),
    "Clusters": Registered("cutaway.results.clusters", "neurons"),
    "Comparison": Registered("cutaway.results.comparison", "neurons"),
    "Dissimilarities": Registered("cutaway.results.similarity", "language"),
    "Evaluation": Registered("cutaway.results.evaluation", "neurons"),
    "Factors": Registered("cutaway.results.factors", "language"),
    "Generation": Registered("cutaway.results.generation", "language"),
    "Histograms": Registered("cutaway.results.words", "neurons"),
    "Layers": Registered("cutaway.results.evaluation", "neurons"),
    "Lens": Registered("cutaway.results.lens", "language"),
    "LogitAttribution": Registered("cutaway.results.logit_attribution", "language"),
    "Page": Registered("cutaway.views.pages.model"),
    "Patching": Registered("cutaway.results.patching", "language"),
    "Ranking": Registered("cutaway.results.ranking", "neurons"),
    "Report": Registered("cutaway.results.report", "neurons"),
    "Saliency": Registered("cutaway.results.saliency", "language"),
    "Similarity": Registered("cutaway.results.similarity", "language"),
    "Stability": Registered("cutaway.results.comparison", "neurons"),
    "TopContexts": Registered("cutaway.results.words", "neurons"),
    "TopWords": Registered("cutaway.results.words", "neurons"),
}
"""Every class that a file may name. Dataclasses in their fields are known by the type hints."""


@dataclass(frozen=True, slots=True)
class Description:
    """What is known of a saved result before it is read."""

    type: str
    """The name of its class."""
    topic: str
    title: str
    made: float
    """When it was saved, in seconds since 1970."""
    of: Mapping[str, Any]
    """What it tells of: the model, the method, the unit, where it says so."""


def class_of(name: str) -> type:
    """A class of the registry; nothing else is ever imported because a file names it."""
    if name not in REGISTRY:
        close = ", ".join(nearest(name, REGISTRY))
        raise VersionError(
            f"there is a {name[:100]!r} there, which this version of Cutaway does not know"
            f"{f' (it knows {close})' if close else ''}: pip install --upgrade cutaway"
        )
    found: type = getattr(late.load_module(REGISTRY[name].module, name), name)
    return found


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Write a result into a new folder; `Result.save` says more."""
    document, arrays = packed(result)  # first of all: whatever fails here leaves no folder behind
    with Writer(path, kind="result") as writer:
        if arrays:
            writer.block(BLOCK, arrays)
        writer.document(DOCUMENT, document)  # last of all: without it, the result is not complete
    if writer.problems:
        raise StoreError(f"the result could not be written to {os.fspath(path)}: {'; '.join(writer.problems)}.")


def packed(result: object) -> tuple[dict[str, Plain], dict[str, Raw]]:
    """The document and the arrays that stand for a result; what could not be read again is refused here."""
    name = type(result).__name__
    if name not in REGISTRY or class_of(name) is not type(result):
        raise InputError(f"a {name} cannot be saved as a result: {', '.join(REGISTRY)} can.")
    writer = ResultWriter()
    try:
        content = writer.content(result, "")
        document: dict[str, Plain] = {
            "version": VERSION,
            "type": name,
            "topic": str(getattr(result, "topic", "")) or REGISTRY[name].topic,
            "title": _title(result),
            "made": time(),
            "of": {fact: value for fact in _FACTS if (value := _fact(result, fact)) is not None},
            "content": content,
        }
        encode({"type": "document", "content": document})
        unpacked(document, writer.arrays.__getitem__)
    except RecursionError:
        raise InputError(f"this {name} cannot be saved: it holds itself, or is nested too deeply.") from None
    except VersionError as error:  # of a class that is not ours, as nothing was written by anybody else
        raise InputError(
            f"this {name} cannot be saved: it holds a class that is none of {', '.join(REGISTRY)}."
        ) from error
    except (InputError, StoreError) as error:
        raise InputError(f"this {name} cannot be saved: {error}") from error
    if len(writer.arrays) > MOST_ENTRIES:
        raise InputError(
            f"this {name} cannot be saved: it has {len(writer.arrays):,} arrays, more than {MOST_ENTRIES:,}."
        )
    return document, writer.arrays


def described(archive: Archive) -> Description:
    """What an archive says of the result in it, without reading that."""
    document = _document(archive)
    return Description(
        text(document.get("type"), "type of the result"),
        text(document.get("topic", ""), "topic of the result"),
        text(document.get("title", ""), "title of the result"),
        number(document.get("made", 0.0), "time of the result"),
        mapping(document.get("of"), "facts of the result"),
    )


def read(archive: Archive) -> Any:
    """The result that an archive holds."""
    document = _document(archive)
    blocks = archive.blocks
    try:
        return unpacked(document, lambda name: blocks[BLOCK].raw(name))
    except VersionError as error:
        raise VersionError(f"the result in {archive.path} cannot be read: {error}.") from error
    except DamagedError as error:
        raise DamagedError(f"the result in {archive.path} is damaged: {str(error).rstrip('.')}.") from error


def unpacked(document: Mapping[str, Any], raw: Callable[[str], Raw]) -> Any:
    """The result that was written as this document and these arrays."""
    version = count(document.get("version"), "version of the result")
    if version > VERSION:
        raise VersionError(
            f"it was written in version {version} of results, and this Cutaway reads up to {VERSION}: "
            "pip install --upgrade cutaway"
        )
    kind = class_of(text(document.get("type"), "type of the result"))
    try:
        return ResultReader(raw, class_of).value(document.get("content"), (kind,), "")
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None


def _document(archive: Archive) -> Mapping[str, Any]:
    document = archive.documents.get(DOCUMENT)
    if document is None:
        problems = "; ".join(archive.problems)
        raise DamagedError(
            f"{archive.path} holds a result that was not written to its end, or has lost a part since"
            f"{f' ({problems})' if problems else ''}: save the result again, to another path."
        )
    if not isinstance(document, dict):
        raise DamagedError(f"the result in {archive.path} is damaged: its document is no map.")
    return document


def _fact(result: object, name: str) -> str | None:
    """What a result says of itself, or of where it comes from; a live model, or one that is gone, is no fact."""
    about = getattr(result, "about", None)
    try:
        own = getattr(result, name, None)
    except InputError:
        own = None
    known = (own, about.get(name) if isinstance(about, Mapping) else None)
    return next((value for value in known if isinstance(value, str)), None)


def _title(result: object) -> str:
    """A page has one; of others, the first line they say of themselves."""
    title = getattr(result, "title", None)
    said = title if isinstance(title, str) else repr(result).partition("\n")[0]
    return said if len(said) <= _MOST_TITLE else f"{said[: _MOST_TITLE - 1]}…"
