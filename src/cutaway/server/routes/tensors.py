"""Routes of one tensor at one step: its view, values, units, samples."""

from __future__ import annotations

from io import BytesIO, StringIO
from itertools import product
from math import prod
from typing import Final

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from cutaway.core.arrays import Array
from cutaway.core.errors import InputError
from cutaway.core.statistics import PER_SAMPLE, PER_UNIT
from cutaway.server.archives.open_archives import ArchiveCache, OpenArchive, rows_of
from cutaway.server.http import (
    BINARY,
    Endpoint,
    Payload,
    as_file,
    as_json,
    as_numbers,
    as_table,
    error_boundary,
    flag_parameter,
    int_parameter,
    optional_int_parameter,
    respond,
    step_etag,
    step_parameter,
)

FORMATS: Final = ("bin", "npy", "csv")


def routes(cache: ArchiveCache) -> list[Route]:
    """Routes below `/api`."""

    async def tensor(request: Request) -> Response:
        row, step, sample = (
            int_parameter(request, "row"),
            step_parameter(request),
            optional_int_parameter(request, "sample"),
        )
        is_normalized, is_each = flag_parameter(request, "normalized"), flag_parameter(request, "each")
        tile = optional_int_parameter(request, "tile")

        def payload(entry: OpenArchive) -> Payload:
            # Imported on first use, here and below: `prefetch` does so once the page has painted.
            from cutaway.views.run.tensor_view import tensor_view

            view = tensor_view(
                rows_of(entry),
                row,
                step=step,
                sample=sample,
                is_normalized=is_normalized,
                is_each=is_each,
                tile=tile,
            )
            return as_json(view)

        return await respond(request, cache, payload, tag=step_etag(step))

    async def values(request: Request) -> Response:
        row, step, sample = (
            int_parameter(request, "row"),
            step_parameter(request),
            optional_int_parameter(request, "sample"),
        )
        is_normalized = flag_parameter(request, "normalized")
        format_ = request.query_params.get("format", "bin")
        if format_ not in FORMATS:
            raise InputError(f"format={format_[:40]!r} is not one of {', '.join(FORMATS)}.")

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.tensor_view import tensor_values

            array = tensor_values(rows_of(entry), row, step=step, sample=sample, is_normalized=is_normalized)
            name = _name_of(entry, row, step) + ("" if sample is None else f"-sample-{sample}")
            if format_ == "npy":
                return as_file(as_npy(array), BINARY, f"{name}.npy")
            return as_file(as_csv(array), "text/csv", f"{name}.csv") if format_ == "csv" else as_numbers(array)

        return await respond(request, cache, payload, tag=step_etag(step))

    async def units(request: Request) -> Response:
        row, step = int_parameter(request, "row"), step_parameter(request)

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.table_outliers import table_outliers
            from cutaway.views.run.tensor_view import unit_values

            values = unit_values(rows_of(entry), row, step=step)
            return as_table(values, table_outliers(values, PER_UNIT))

        return await respond(request, cache, payload, tag=step_etag(step))

    async def samples_table(request: Request) -> Response:
        row, step = int_parameter(request, "row"), step_parameter(request)

        def payload(entry: OpenArchive) -> Payload:
            from cutaway.views.run.table_outliers import table_outliers
            from cutaway.views.run.tensor_view import sample_values

            values = sample_values(rows_of(entry), row, step=step)
            return as_table(values, table_outliers(values, PER_SAMPLE))

        return await respond(request, cache, payload, tag=step_etag(step))

    below: dict[str, Endpoint] = {
        "/tensor": tensor,
        "/values": values,
        "/units": units,
        "/samples_table": samples_table,
    }
    return [Route(f"/api/run/{{id}}{path}", error_boundary(endpoint)) for path, endpoint in below.items()]


def _name_of(entry: OpenArchive, number_: int, step: int) -> str:
    """File name for one tensor at one step."""
    rows = rows_of(entry)
    row = rows.row(number_)
    iteration = f"-iteration-{row.iteration}" if row.iteration else ""
    pass_ = f"-pass-{row.pass_}" if rows.n_passes(row) > 1 and (row.pass_ > 1 or not row.iteration) else ""
    return f"{rows.run.name}-step-{step}-{row.base}-{row.of}{iteration}{pass_}"


def as_npy(array: Array) -> bytes:
    """Encode an array as .npy."""
    file = BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def as_csv(array: Array) -> bytes:
    """Encode an array as CSV: one line per row of the last dimension, preceded by its indices in the others.

    >>> print(as_csv(np.float32([[[0.1, 1]], [[2, 3]]])).decode(), end="")
    i0,i1,0,1
    0,0,0.1,1.0
    1,0,2.0,3.0
    """
    *before, n_columns = array.shape or (1,)
    out = StringIO()
    out.write(",".join([*(f"i{dimension}" for dimension in range(len(before))), *map(str, range(n_columns))]) + "\n")
    lines = array.reshape(prod(before), n_columns)
    for indices, line in zip(product(*map(range, before)), lines, strict=True):
        # NumPy writes the shortest text that reads back as the same number.
        out.write(",".join([*map(str, indices), *line.astype(str).tolist()]) + "\n")
    return out.getvalue().encode()
