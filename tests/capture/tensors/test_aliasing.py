"""Whether two views of one storage overlap; writing to one and reading the other is the oracle."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import same
from torch import Tensor

from cutaway.capture.tensors.aliasing import Snapshot, Span, copy_of_memory


@st.composite
def views(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Two random strided views of one small storage."""
    base = torch.zeros(24)
    found = []
    for _ in range(2):
        shape = draw(st.lists(st.integers(0, 3), min_size=0, max_size=3))
        strides = [draw(st.integers(0, 6)) for _ in shape]
        reach = sum(max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True))
        if reach > 23:
            shape, strides, reach = [2], [1], 1
        found.append(base.as_strided(shape, strides, draw(st.integers(0, 23 - reach))))
    return found[0], found[1]


@settings(max_examples=400, deadline=None)
@given(views())
def test_overlap_is_exact(pair: tuple[Tensor, Tensor]) -> None:
    a, b = pair
    base = a._base
    assert base is not None
    base.zero_()
    if a.numel():
        base.as_strided(a.shape, a.stride(), a.storage_offset()).fill_(1) if not _self_overlaps(a) else _fill(base, a)
    assert Span.of(a).overlaps(Span.of(b)) == bool((b != 0).any())
    assert Span.of(b).overlaps(Span.of(a)) == Span.of(a).overlaps(Span.of(b))


def _self_overlaps(tensor: Tensor) -> bool:
    return any(s == 0 and n > 1 for n, s in zip(tensor.shape, tensor.stride(), strict=True)) or tensor.dim() > 1


def _fill(base: Tensor, view: Tensor) -> None:
    """Fill a view that may cover an element twice, which torch refuses to do in one go."""
    places = torch.arange(24).as_strided(view.shape, view.stride(), view.storage_offset()).reshape(-1)
    base[places] = 1


@pytest.mark.parametrize(
    "view",
    [
        lambda base: base,
        lambda base: base[1:, ::2],
        lambda base: base.t(),
        lambda base: base.view(-1)[5:9],
        lambda base: base.view(torch.int32),
        lambda base: base.detach()[2],
        lambda base: base.unsqueeze(0).expand(2, -1, -1),
    ],
)
def test_a_snapshot_gives_back_any_view_of_the_memory(view: object) -> None:
    base = torch.arange(12.0).view(3, 4)
    seen = view(base)
    expected = seen.clone()
    copy = copy_of_memory(base)
    snapshot = Snapshot(copy, seen)
    base.zero_()
    assert same(snapshot.load(), expected)
    assert (snapshot.shape, snapshot.dtype) == (expected.shape, expected.dtype)


def test_conjugated_views_survive() -> None:
    base = torch.tensor([1 + 2j, 3 - 1j])
    seen = base.conj()
    expected = seen.clone()
    snapshot = Snapshot(copy_of_memory(base), seen)
    base.zero_()
    assert same(snapshot.load().resolve_conj(), expected)


def test_memory_is_not_copied_where_the_tensor_is_a_small_part_of_it() -> None:
    assert copy_of_memory(torch.zeros(1_000_000)[:10]) is None
    assert copy_of_memory(torch.zeros(4, 4)[1]) is not None
