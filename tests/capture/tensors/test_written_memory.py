"""Reconstructed memory equals torch's own views after writes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from cutaway.capture.tensors.aliasing import Span
from cutaway.capture.tensors.written_memory import after_writes

VIEWS = {
    "a row": lambda base: base[1],
    "a column": lambda base: base[:, 2],
    "every other": lambda base: base[::2, 1::2],
    "transposed": lambda base: base.t(),
    "all": lambda base: base.view(-1),
    "other dtype": lambda base: base.view(torch.int32),
}


@pytest.mark.parametrize("read", VIEWS)
@pytest.mark.parametrize("write", VIEWS)
def test_a_value_after_a_write_through_another_view(read: str, write: str) -> None:
    base = torch.arange(24.0).view(4, 6)
    reader, writer = VIEWS[read](base), VIEWS[write](base)
    spans = (Span.of(reader), Span.of(writer))
    old = reader.clone()
    writer.copy_(torch.arange(writer.numel()).view(writer.shape).to(writer.dtype) + 100)
    new = writer.clone()
    expected: Tensor | None = after_writes([old, new], spans)
    assert expected is not None
    assert torch.equal(expected.view(torch.int32), reader.contiguous().view(torch.int32))


def test_later_writes_win() -> None:
    base = torch.zeros(4)
    spans = (Span.of(base), Span.of(base[:3]), Span.of(base[1:]))
    found = after_writes([torch.zeros(4), torch.ones(3), torch.full((3,), 2.0)], spans)
    assert found is not None
    assert found.tolist() == [1.0, 2.0, 2.0, 2.0]


def test_what_cannot_be_told_is_not_guessed() -> None:
    base = torch.zeros(4)
    assert after_writes([base, base], None) is None
    assert after_writes([base, base], (Span.of(base),)) is None
    assert after_writes([base, torch.zeros(3)], (Span.of(base), Span.of(base))) is None
