"""What goes back to the page: JSON, raw numbers and files, each with a tag that says when it has changed; sentences."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from secrets import token_hex
from typing import Any, Final

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from cutaway.core.arrays import Array
from cutaway.core.errors import (
    AmbiguousSiteError,
    CutawayError,
    InputError,
    NotFoundError,
    NotSavedError,
    SiteError,
    SiteSyntaxError,
)
from cutaway.server.archives.open_archives import Gone, Held, Opened, rows_of
from cutaway.server.view_json import text
from cutaway.store.runs.series import Band, Curve

_LOG = logging.getLogger("cutaway")
_SALT: Final = token_hex(4)
"""What one process answered says nothing of what another would: the code may be newer."""
_BAD: Final = (InputError, SiteSyntaxError, AmbiguousSiteError)
_MISSING: Final = (NotFoundError, SiteError, NotSavedError)
_NOBODY: Final = 499
_MOST_LETTERS: Final = 4096
JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a question gave, made in a thread and ready to be sent."""

    body: bytes
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def as_json(value: Any) -> Answer:
    """A view, or a list of them."""
    return Answer(text(value).encode())


def as_numbers(array: Array) -> Answer:
    """An array as little-endian float32, its shape beside it; of complex numbers the magnitudes."""
    return Answer(_floats(array), BINARY, {"x-shape": ",".join(map(str, array.shape))})


def as_matrix(matrix: Array, z: Array, compared: Sequence[str]) -> Answer:
    """A matrix of statistics, and behind it the z-scores of some of them, which a header names."""
    answer = as_numbers(matrix)
    return Answer(answer.body + _floats(z), BINARY, {**answer.headers, "x-z": ",".join(compared)})


def _floats(array: Array) -> bytes:
    real = np.abs(array) if array.dtype.kind == "c" else array
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(real, "<f4").tobytes()


def as_curve(curve: Curve) -> Answer:
    """Numbers over steps: int32 n, int64 steps[n], float32 values[n], float32 seconds[n], all little-endian."""
    with np.errstate(over="ignore", invalid="ignore"):
        head = (np.array([len(curve.steps)], "<i4"), np.asarray(curve.steps, "<i8"))
        parts = (*head, np.asarray(curve.values, "<f4"), np.asarray(curve.elapsed, "<f4"))
    return Answer(b"".join(part.tobytes() for part in parts), BINARY)


def as_band(band: Band) -> Answer:
    """Numbers over steps with a band: int32 n, int64 steps[n], then float32 values, low, high and seconds, [n] each."""
    with np.errstate(over="ignore", invalid="ignore"):
        head = (np.array([len(band.steps)], "<i4"), np.asarray(band.steps, "<i8"))
        columns = [np.asarray(column, "<f4") for column in (band.values, band.low, band.high, band.elapsed)]
    return Answer(b"".join(part.tobytes() for part in (*head, *columns)), BINARY)


def as_file(body: bytes, media: str, name: str) -> Answer:
    """A file to keep, under a name that every file system takes."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:120] or "values"
    return Answer(body, media, {"content-disposition": f'attachment; filename="{safe}"'})


# what has not changed


def growing_tag(held: Held) -> str:
    """Of what changes with everything that is written to a run."""
    archive = rows_of(held).run.archive
    sessions = (session for found in archive.ranks.values() for session in found.values())
    return f"{archive.id}.{'.'.join(str(session.n_read) for session in sessions)}"


def step_tag(step: int) -> Callable[[Held], str]:
    """Of what a recorded step holds: it changes only when a resumed session runs it again, or rows are added."""

    def tag(held: Held) -> str:
        rows = rows_of(held)
        return f"{rows.run.archive.id}.{rows.run.at(step).session}.{rows.digest}"

    return tag


async def answered(
    request: Request,
    opened: Opened,
    question: Callable[[Held], Answer],
    *,
    tag: Callable[[Held], str] = growing_tag,
    fresh: bool = False,
) -> Response:
    """Ask a run or trace, unless the browser has the answer already.

    Args:
        tag: changes when the answer may.
        fresh: whether what was written since is read first.
    """
    known = request.headers.get("if-none-match", "")

    def ask(held: Held) -> tuple[str, Answer | None]:
        found = f'"{_SALT}.{tag(held)}"'
        return found, None if found in known else question(held)

    async def is_waiting() -> bool:
        return not await request.is_disconnected()

    try:
        found, answer = await opened.ask(request.path_params["id"], ask, is_waiting=is_waiting, fresh=fresh)
    except Gone:
        return Response(status_code=_NOBODY)
    headers = {"etag": found, "cache-control": "no-cache"}
    if answer is None:
        return Response(status_code=304, headers=headers)
    return Response(answer.body, media_type=answer.media, headers={**headers, **answer.headers})


# what went wrong


def told(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose errors are sentences: never a trace back, never a page."""

    @wraps(endpoint)
    async def tell(request: Request) -> Response:
        try:
            return await endpoint(request)
        except CutawayError as error:
            status = 400 if isinstance(error, _BAD) else 404 if isinstance(error, _MISSING) else 500
            return sentence(str(error), status)
        except Exception as error:
            _LOG.exception("the viewer could not answer %s", request.url.path)
            said = f"{type(error).__name__}: {error}"[:500]
            return sentence(f"the viewer could not answer this, which is a fault of its own ({said}).", 500)

    return tell


def sentence(said: str, status: int) -> Response:
    """An error, for people."""
    return Response(text({"error": said}), status, media_type=JSON, headers={"cache-control": "no-store"})


# what was asked


def number(request: Request, name: str) -> int:
    """A whole number out of the address."""
    found = optional_number(request, name)
    if found is None:
        raise InputError(f"{request.url.path} needs {name}=, a whole number.")
    return found


def optional_number(request: Request, name: str) -> int | None:
    """The same; None where it is not given."""
    given = request.query_params.get(name)
    if given is None or given == "":
        return None
    if not re.fullmatch(r"-?[0-9]{1,18}", given, re.ASCII):
        raise InputError(f"{name}={given[:40]!r} is no whole number.")
    return int(given)


def word(request: Request, name: str) -> str:
    """A word out of the address."""
    given = request.query_params.get(name)
    if given is None:
        raise InputError(f"{request.url.path} needs {name}=.")
    if len(given) > _MOST_LETTERS:
        raise InputError(f"{name}={given[:40]!r}… has {len(given):,} letters, and no name has.")
    return given


def is_asked(request: Request, name: str) -> bool:
    """Whether the address says `name=1`."""
    return request.query_params.get(name, "") in ("1", "true")
