"""Saves a result to an archive, and reads it back without torch.

A result is a frozen dataclass. Its arrays are a block, all else is a document, which is written last: without it, the
result is incomplete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time
from typing import Any, Final

from cutaway.core import late
from cutaway.core.arrays import Raw
from cutaway.core.errors import DamagedError, InputError, InputTypeError, StoreError, VersionError
from cutaway.core.formatting import nearest
from cutaway.store.format.fields import count, mapping, number, text
from cutaway.store.format.frames import MAX_ENTRIES, Plain, encode
from cutaway.store.reading.archive import Archive
from cutaway.store.results.decode import ResultReader
from cutaway.store.results.encode import ResultWriter
from cutaway.store.writing.writer import Writer

VERSION: Final = 1
"""Increases when older readers can no longer rebuild new results; new fields do not count."""
DOCUMENT: Final = "result"
BLOCK: Final = "arrays"
_MAX_TITLE: Final = 200
_FACTS: Final = ("model", "method", "unit")


@dataclass(frozen=True, slots=True)
class Registered:
    """A class whose instances can be saved."""

    module: str
    """The module that defines it, imported on first use."""
    topic: str = ""
    """The viewer tab that lists it; a page has its own topic."""


REGISTRY: Final[Mapping[str, Registered]] = {
    "Ablation": Registered("cutaway.results.neurons.ablation", "neurons"),
    "Attention": Registered("cutaway.results.lm.attention", "language"),
    "Clusters": Registered("cutaway.results.neurons.clusters", "neurons"),
    "Comparison": Registered("cutaway.results.neurons.comparison", "neurons"),
    "Dissimilarities": Registered("cutaway.results.lm.similarity", "language"),
    "Evaluation": Registered("cutaway.results.neurons.evaluation", "neurons"),
    "Factors": Registered("cutaway.results.lm.factors", "language"),
    "Generation": Registered("cutaway.results.lm.generation", "language"),
    "Histograms": Registered("cutaway.results.neurons.words", "neurons"),
    "Layers": Registered("cutaway.results.neurons.evaluation", "neurons"),
    "Lens": Registered("cutaway.results.lm.lens", "language"),
    "LogitAttribution": Registered("cutaway.results.lm.logit_attribution", "language"),
    "Page": Registered("cutaway.views.pages.model"),
    "Patching": Registered("cutaway.results.patching", "language"),
    "Ranking": Registered("cutaway.results.neurons.ranking", "neurons"),
    "Report": Registered("cutaway.results.neurons.report", "neurons"),
    "Saliency": Registered("cutaway.results.lm.saliency", "language"),
    "Similarity": Registered("cutaway.results.lm.similarity", "language"),
    "Stability": Registered("cutaway.results.neurons.comparison", "neurons"),
    "TopContexts": Registered("cutaway.results.neurons.words", "neurons"),
    "TopWords": Registered("cutaway.results.neurons.words", "neurons"),
}
"""Every class that a file may name. Dataclasses in their fields are found through type hints."""


@dataclass(frozen=True, slots=True)
class Description:
    """Header of a saved result, available before the result is read."""

    type: str
    """The class name."""
    topic: str
    title: str
    made: float
    """Time of saving, in seconds since 1970."""
    of: Mapping[str, Any]
    """The model, method and unit, if the result has them."""


def class_of(name: str) -> type:
    """A registered class; no other class is ever imported because a file names it."""
    if name not in REGISTRY:
        close = ", ".join(nearest(name, REGISTRY))
        raise VersionError(
            f"it has a {name[:100]!r}, which this version of Cutaway does not know"
            f"{f' (near matches: {close})' if close else ''}. Upgrade: pip install --upgrade cutaway"
        )
    class_: type = getattr(late.load_module(REGISTRY[name].module, name), name)
    return class_


def save(result: object, path: str | os.PathLike[str]) -> None:
    """Write a result to a new folder; see `Result.save`."""
    document, arrays = encode_result(result)  # first, so that a failure leaves no folder behind
    with Writer(path, kind="result") as writer:
        if arrays:
            writer.block(BLOCK, arrays)
        writer.document(DOCUMENT, document)  # last: its presence marks the result as complete
    if writer.problems:
        raise StoreError(f"cannot write the result to {os.fspath(path)}: {'; '.join(writer.problems)}.")


def encode_result(result: object) -> tuple[dict[str, Plain], dict[str, Raw]]:
    """Encode a result as a document and arrays; refuses what could not be decoded again."""
    name = type(result).__name__
    if name not in REGISTRY or class_of(name) is not type(result):
        raise InputTypeError(f"cannot save a {name} as a result. Results are {', '.join(REGISTRY)}.")
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
        # A trial run before anything is written: what cannot be read back is refused while the original still exists.
        encode({"type": "document", "content": document})
        decode_result(document, writer.arrays.__getitem__)
    except RecursionError:
        raise InputError(f"cannot save this {name}: it contains itself, or is nested too deeply.") from None
    except VersionError as error:  # here it means an unregistered class, because this version wrote the document
        raise InputError(f"cannot save this {name}: it contains a class other than {', '.join(REGISTRY)}.") from error
    except (InputError, StoreError) as error:
        kind = InputTypeError if isinstance(error, InputTypeError) else InputError
        raise kind(f"cannot save this {name}: {error}") from error
    if len(writer.arrays) > MAX_ENTRIES:
        raise InputError(
            f"cannot save this {name}: it has {len(writer.arrays):,} arrays; the limit is {MAX_ENTRIES:,}."
        )
    return document, writer.arrays


def read_description(archive: Archive) -> Description:
    """Read the header of the result in an archive, without the result."""
    document = _document(archive)
    return Description(
        text(document.get("type"), "type of the result"),
        text(document.get("topic", ""), "topic of the result"),
        text(document.get("title", ""), "title of the result"),
        number(document.get("made", 0.0), "time of the result"),
        mapping(document.get("of"), "facts of the result"),
    )


def read(archive: Archive) -> Any:
    """Read the result in an archive."""
    document = _document(archive)
    blocks = archive.blocks
    try:
        return decode_result(document, lambda name: blocks[BLOCK].raw(name))
    except VersionError as error:
        raise VersionError(f"cannot read the result in {archive.path}: {error}.") from error
    except DamagedError as error:
        raise DamagedError(f"the result in {archive.path} is damaged: {str(error).rstrip('.')}.") from error


def decode_result(document: Mapping[str, Any], raw: Callable[[str], Raw]) -> Any:
    """Decode a result from its document and arrays."""
    version = count(document.get("version"), "version of the result")
    if version > VERSION:
        raise VersionError(
            f"it has result version {version}; this version of Cutaway reads up to {VERSION}. "
            "Upgrade: pip install --upgrade cutaway"
        )
    kind = class_of(text(document.get("type"), "type of the result"))
    try:
        return ResultReader(raw, class_of).value(document.get("content"), (kind,), "")
    except RecursionError:
        raise DamagedError("it is nested too deeply") from None


def _document(archive: Archive) -> Mapping[str, Any]:
    document = archive.documents.get(DOCUMENT)
    if document is None:
        damage = "; ".join(archive.damage)
        if archive.is_live and not damage:
            raise DamagedError(f"the result in {archive.path} is still being saved: read it again in a moment.")
        raise DamagedError(
            f"the result in {archive.path} was not saved completely, or is damaged"
            f"{f' ({damage})' if damage else ''}. Save the result again, to another path."
        )
    if not isinstance(document, dict):
        raise DamagedError(f"the result in {archive.path} is damaged: its document is not a map.")
    return document


def _fact(result: object, name: str) -> str | None:
    """A fact that a result has as attribute or in `about`; only text counts, not a live model."""
    about = getattr(result, "about", None)
    try:
        attribute = getattr(result, name, None)
    except InputError:
        attribute = None
    known = (attribute, about.get(name) if isinstance(about, Mapping) else None)
    return next((value for value in known if isinstance(value, str)), None)


def _title(result: object) -> str:
    """The title of a page; for other results, the first line of their repr."""
    title = getattr(result, "title", None)
    text = title if isinstance(title, str) else repr(result).partition("\n")[0]
    return text if len(text) <= _MAX_TITLE else f"{text[: _MAX_TITLE - 1]}…"
