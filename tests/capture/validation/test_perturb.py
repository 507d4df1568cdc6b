"""Perturbed values for an argument."""

from __future__ import annotations

import pytest
import torch

from cutaway.capture.validation.compare import bit_equal
from cutaway.capture.validation.perturb import SENSITIVE, perturbations

VALUES = [
    torch.randn(3, 4),
    torch.randn(3).bfloat16(),
    torch.randn(3, dtype=torch.complex64),
    torch.tensor([True, False]),
    torch.arange(5),
    torch.tensor([3, 3, 3], dtype=torch.int32),
    torch.tensor(2.0),
    torch.randn(4, 3).t(),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: f"{value.dtype} {list(value.shape)}")
def test_other_values_have_the_same_kind_and_differ(value: torch.Tensor) -> None:
    before = value.clone()
    others = list(perturbations(value, gently=False))
    assert others
    assert all(other.shape == value.shape and other.dtype == value.dtype for other in others)
    assert any(not bit_equal(other, value) for other in others)
    assert bit_equal(value, before)


def test_indices_stay_within_their_range() -> None:
    value = torch.tensor([[2, 7, 4], [3, 3, 5]])
    for other in perturbations(value, gently=False):
        assert other.min() >= 0
        assert other.max() <= 7


def test_probabilities_stay_probabilities() -> None:
    for other in perturbations(torch.rand(50), gently=True):
        assert other.min() >= 0
        assert other.max() <= 1


@pytest.mark.parametrize(
    "value", [torch.zeros(0), torch.ones(2, device="meta"), torch.eye(2).to_sparse()], ids=["empty", "meta", "sparse"]
)
def test_what_cannot_be_changed_is_left_alone(value: torch.Tensor) -> None:
    assert not list(perturbations(value, gently=False))


def test_nothing_is_drawn_from_the_programs_generator() -> None:
    before = torch.get_rng_state()
    list(perturbations(torch.randn(3, generator=torch.Generator().manual_seed(1)), gently=False))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", sorted(SENSITIVE))
def test_what_must_feel_passes_on_a_nan(name: str) -> None:
    """Every function that is said to feel each of its arguments does, by torch's own account."""
    import torch.nn.functional as F

    x = torch.rand(2, 3, 4) + 0.1
    special = {
        "matmul": (x, x.mT), "mm": (x[0], x[0].t()), "bmm": (x, x.mT), "mv": (x[0], x[0, 0]), "dot": (x[0, 0], x[0, 1]),
        "linear": (x, torch.rand(5, 4), torch.rand(5)), "bilinear": (x[0], x[0], torch.rand(2, 4, 4), torch.rand(2)),
        "conv1d": (x, torch.rand(2, 3, 1), torch.rand(2)), "conv2d": (x[None], torch.rand(2, 2, 1, 1), torch.rand(2)),
        "conv3d": (x[None, None], torch.rand(2, 1, 1, 1, 1), torch.rand(2)),
        "cat": ([x, x + 1],), "stack": ([x, x + 1],),
        "view": (x, (-1,)), "reshape": (x, (-1,)), "transpose": (x, 0, 1), "permute": (x, (2, 0, 1)),
        "unsqueeze": (x, 0), "softmax": (x, -1), "log_softmax": (x, -1),
        "layer_norm": (x, (4,), torch.rand(4), torch.rand(4)), "rms_norm": (x, (4,), torch.rand(4)),
        "group_norm": (x, 3, torch.rand(3), torch.rand(3)),
        "add": (x, x + 1), "sub": (x, x + 1), "rsub": (x, x + 1), "mul": (x, x * 0), "div": (x, x),
        "add_": (x, x + 1), "sub_": (x, x + 1), "mul_": (x, x * 0), "div_": (x, x + 1),
    }  # fmt: skip
    function = next(getattr(space, name) for space in (torch, F, torch.Tensor) if hasattr(space, name))
    args = special.get(name, (x,))
    for i, arg in enumerate(args):
        parts = arg if isinstance(arg, list) else [arg]
        for j, part in enumerate(parts):
            if isinstance(part, torch.Tensor):
                poisoned = [p.clone() if isinstance(p, torch.Tensor) else p for p in parts]
                poisoned[j] = torch.full_like(part, torch.nan)
                new = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
                new[i] = poisoned if isinstance(arg, list) else poisoned[0]
                assert function(*new).isnan().any(), f"{name} argument {i}"
