"""HTTP responses with ETags; query parameters; errors as JSON."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
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
from cutaway.server.archives.open_archives import ArchiveCache, ClientDisconnected, OpenArchive, rows_of
from cutaway.server.view_json import to_json
from cutaway.store.runs.series import Band, Curve

_LOG = logging.getLogger("cutaway")
_SALT: Final = token_hex(4)
"""Makes ETags differ between server processes: newer code may answer differently."""
_BAD: Final = (InputError, SiteSyntaxError, AmbiguousSiteError)
_MISSING: Final = (NotFoundError, SiteError, NotSavedError)
# The code that nginx uses. Nobody reads the response: the client has gone.
_CLIENT_CLOSED_REQUEST: Final = 499
_MAX_CHARACTERS: Final = 4096
JSON: Final = "application/json"
BINARY: Final = "application/octet-stream"

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Payload:
    """A response body, computed in a thread."""

    body: bytes
    media: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def as_json(value: Any) -> Payload:
    """JSON of a view or a list of views."""
    return Payload(to_json(value).encode())


def as_numbers(array: Array) -> Payload:
    """Little-endian float32 array; the shape is in a header. Complex numbers become magnitudes."""
    return Payload(_floats(array), BINARY, {"x-shape": ",".join(map(str, array.shape))})


def as_matrix(matrix: Array, contents: Array) -> Payload:
    """A matrix of statistics, followed by one byte for each row: what the tensor holds."""
    answer = as_numbers(matrix)
    return Payload(answer.body + contents.astype(np.uint8).tobytes(), BINARY, {**answer.headers, "x-contents": "1"})


def as_table(values: Array, z: Array) -> Payload:
    """A table of numbers, followed by the z-score of each; NaN for usual numbers."""
    answer = as_numbers(values)
    return Payload(answer.body + _floats(z), BINARY, {**answer.headers, "x-z": "1"})


def _floats(array: Array) -> bytes:
    real = np.abs(array) if array.dtype.kind == "c" else array
    # Values beyond float32 become infinite, which the page marks; NumPy would warn on stderr.
    with np.errstate(over="ignore", invalid="ignore"):
        return np.ascontiguousarray(real, "<f4").tobytes()


def as_curve(curve: Curve) -> Payload:
    """A curve over steps: int32 n, int64 steps[n], float32 values[n], float32 seconds[n], all little-endian."""
    with np.errstate(over="ignore", invalid="ignore"):
        head = (np.array([len(curve.steps)], "<i4"), np.asarray(curve.steps, "<i8"))
        parts = (*head, np.asarray(curve.values, "<f4"), np.asarray(curve.elapsed, "<f4"))
    return Payload(b"".join(part.tobytes() for part in parts), BINARY)


def as_band(band: Band) -> Payload:
    """A curve with a band: int32 n, int64 steps[n], then float32 values, low, high and seconds, [n] each."""
    with np.errstate(over="ignore", invalid="ignore"):
        head = (np.array([len(band.steps)], "<i4"), np.asarray(band.steps, "<i8"))
        columns = [np.asarray(column, "<f4") for column in (band.values, band.low, band.high, band.elapsed)]
    return Payload(b"".join(part.tobytes() for part in (*head, *columns)), BINARY)


def as_file(body: bytes, media: str, name: str) -> Payload:
    """A download, with a file name that every file system accepts."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:120] or "values"
    return Payload(body, media, {"content-disposition": f'attachment; filename="{safe}"'})


# ETags


def run_etag(entry: OpenArchive) -> str:
    """ETag of a response that changes whenever anything is written to the run."""
    archive = rows_of(entry).run.archive
    sessions = (session for by_number in archive.ranks.values() for session in by_number.values())
    return f"{archive.id}.{'.'.join(str(session.n_read) for session in sessions)}"


def step_etag(step: int) -> Callable[[OpenArchive], str]:
    """ETag of a recorded step: changes only if a resumed session records it again, or rows are added."""

    def tag(entry: OpenArchive) -> str:
        rows = rows_of(entry)
        return f"{rows.run.archive.id}.{rows.run.at(step).session}.{rows.digest}"

    return tag


async def respond(
    request: Request,
    cache: ArchiveCache,
    compute: Callable[[OpenArchive], Payload],
    *,
    tag: Callable[[OpenArchive], str] = run_etag,
    fresh: bool = False,
) -> Response:
    """Respond with what `compute` returns for an archive, or with 304 if the browser has it already.

    Args:
        tag: computes the ETag.
        fresh: whether to read what was written since the last request.
    """
    known = request.headers.get("if-none-match", "")

    def payload(entry: OpenArchive) -> tuple[str, Payload | None]:
        etag = f'"{_SALT}.{tag(entry)}"'
        # If-None-Match may list several ETags, and proxies may weaken them (W/): a substring covers both.
        return etag, None if etag in known else compute(entry)

    async def is_connected() -> bool:
        return not await request.is_disconnected()

    try:
        etag, answer = await cache.apply(request.path_params["id"], payload, is_connected=is_connected, fresh=fresh)
    except ClientDisconnected:
        return Response(status_code=_CLIENT_CLOSED_REQUEST)
    headers = {"etag": etag, "cache-control": "no-cache"}
    if answer is None:
        return Response(status_code=304, headers=headers)
    return Response(answer.body, media_type=answer.media, headers={**headers, **answer.headers})


# Errors


def error_boundary(endpoint: Endpoint) -> Endpoint:
    """Turn the exceptions of an endpoint into JSON error messages."""

    @wraps(endpoint)
    async def guarded(request: Request) -> Response:
        try:
            return await endpoint(request)
        except CutawayError as error:
            status = 400 if isinstance(error, _BAD) else 404 if isinstance(error, _MISSING) else 500
            return error_response(str(error), status)
        except Exception as error:
            _LOG.exception("internal viewer error at %s", request.url.path)
            message = f"{type(error).__name__}: {error}"[:500]
            return error_response(f"internal viewer error ({message}).", 500)

    return guarded


def error_response(message: str, status: int) -> Response:
    """An error response with a message for people."""
    return Response(to_json({"error": message}), status, media_type=JSON, headers={"cache-control": "no-store"})


# Query parameters


def int_parameter(request: Request, name: str) -> int:
    """A required integer query parameter."""
    value = optional_int_parameter(request, name)
    if value is None:
        raise InputError(f"{request.url.path} needs {name}=, an integer.")
    return value


def step_parameter(request: Request) -> int:
    """The number of a step. Unlike `run.at`, negative numbers do not count from the end."""
    step = int_parameter(request, "step")
    if step < 0:
        raise InputError(f"step={step} is not the number of a step. Ask for one of the run's `steps`.")
    return step


def optional_int_parameter(request: Request, name: str) -> int | None:
    """An integer query parameter, or None."""
    given = request.query_params.get(name)
    if given is None or given == "":
        return None
    # int() would also take `1_0`, spaces and digits of other scripts; 18 digits always fit into 64 bits.
    if not re.fullmatch(r"-?[0-9]{1,18}", given, re.ASCII):
        raise InputError(f"{name}={given[:40]!r} is not an integer.")
    return int(given)


def text_parameter(request: Request, name: str) -> str:
    """A required text query parameter."""
    given = request.query_params.get(name)
    if given is None:
        raise InputError(f"{request.url.path} needs {name}=.")
    if len(given) > _MAX_CHARACTERS:
        raise InputError(f"{name}={given[:40]!r}… has {len(given):,} characters; the limit is {_MAX_CHARACTERS:,}.")
    return given


def flag_parameter(request: Request, name: str) -> bool:
    """Whether the query string has `name=1`."""
    return request.query_params.get(name, "") in ("1", "true")
