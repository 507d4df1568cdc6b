"""Records the op that raised the error which ended a capture."""

from __future__ import annotations

from typing import Any

import torch

from cutaway.capture.arguments import is_tensor
from cutaway.capture.resolver import Resolver
from cutaway.capture.torch_functions import name_of
from cutaway.core.pytree import leaves
from cutaway.graph.control_flow.source import source_of, stack_of, users_line
from cutaway.graph.tables import FailedOp, Tables, describe


def record_failure(
    tables: Tables,
    resolver: Resolver,
    failed: tuple[BaseException, tuple[Any, ...]] | None,
    error: BaseException | None,
) -> None:
    """Adds the op that raised the error to the tables, if the block was ended by an error of a torch function.

    Args:
        failed: the last error raised by a torch function, and the event of that call.
    """
    if failed is None or error is None or failed[0] is not error:
        return
    event = failed[1]
    with torch._C.DisableTorchFunction():
        tensors = [tensor for _, tensor in leaves(event[1:3], is_tensor)]
        shapes = [f"{meta.dtype} {list(meta.shape or ())}" for meta in map(describe, tensors)]
        parents = dict.fromkeys(node for tensor in tensors for node in resolver.rows_of(tensor))
    function = name_of(event[0])
    tables.failed = f"{function}({', '.join(shapes)}) at {source_of(event[6], event[7])}"
    source = users_line(stack_of(tables, event))
    place, text = (str(source), source.text) if source is not None else ("", "")
    tables.failed_op = FailedOp(function, tuple(parents), event[4], place, text)
