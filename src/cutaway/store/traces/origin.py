"""What the document of a saved trace says about its origin; light, because the viewer reads it for its list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from cutaway.core.current_step import StepOrigin

DOCUMENT: Final = "trace"
"""Name of the document in the archive of a trace."""


def origin_of(document: Mapping[str, Any]) -> StepOrigin | None:
    """The run and step in which a trace was made; None if unknown, as in traces of older versions.

    >>> origin_of({"origin": ["6f1c", 40]}), origin_of({})
    (StepOrigin(run='6f1c', step=40), None)
    """
    match document.get("origin"):
        case [str(run), int(step)]:
            return StepOrigin(run, step)
        case _:
            return None
