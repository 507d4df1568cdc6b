"""What code that capture cannot see has computed is linked where that is known, and named where it is not."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.zoo import ZOO, Fn
from torch import Tensor, nn
from torch.masked import masked_tensor

import cutaway


class Doubled(torch.autograd.Function):
    """Computes in NumPy, which no mode sees."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.from_numpy(x.detach().numpy() * 2)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad * 2


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


doubled = Doubled.apply  # looked up before any capture, as is usual


def layers(middle: Any) -> nn.Module:
    torch.manual_seed(0)
    return Fn(lambda self, x: self.last(middle(self.first(x))), first=nn.Linear(3, 3), last=nn.Linear(3, 3))


def hidden_sine(x: Tensor) -> Tensor:
    with torch._C.DisableTorchFunction():
        return x.sin()


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("options", [{}, {"save": None}], ids=["all saved", "nothing saved"])
def test_an_autograd_function_links_its_arguments_to_its_result(gradients: bool, options: Any) -> None:
    model = layers(doubled)
    with torch.set_grad_enabled(gradients), cutaway.watch(model, **options) as trace:
        model(torch.ones(3))
    (op,) = [op for op in trace.ops if op.function == "Doubled"]
    assert [parent.site for parent in op.parents] == ["first/linear"]
    assert op.is_opaque
    assert not trace.unused_parameters
    assert not trace.unexplained


def test_what_a_function_marks_dirty_keeps_its_value() -> None:
    trace = cutaway.trace(layers(lambda x: Dirty.apply(x * 1)), torch.ones(3))
    assert torch.equal(trace["./add"].value, trace["./mul"].value + 1)
    assert trace.validate()


@pytest.mark.parametrize(
    "middle",
    [hidden_sine, lambda x: masked_tensor(x, torch.tensor([True, False, True])).sum().get_data().expand(3)],
    ids=["DisableTorchFunction", "MaskedTensor"],
)
def test_a_tensor_from_nowhere_is_named_and_not_proven(middle: Any, tmp_path: Path) -> None:
    with torch.no_grad():
        trace = cutaway.trace(layers(middle), torch.ones(3))
    assert trace.unexplained
    assert "made by code that capture cannot see" in repr(trace)
    report = trace.validate()
    assert not report
    assert any("no output depends on an input" in failure.reason for failure in report.failures)
    trace.save(tmp_path / "trace")
    assert [op.label for op in cutaway.load(tmp_path / "trace").unexplained] == [op.label for op in trace.unexplained]


def test_beside_a_path_from_the_input_it_is_a_note() -> None:
    with torch.no_grad():
        trace = cutaway.trace(layers(lambda x: x + hidden_sine(x)), torch.ones(3))
    report = trace.validate()
    assert report
    assert any("the graph may be cut" in note for note in report.notes)


outside = torch.ones(3)


def test_tensors_from_outside_are_explained() -> None:
    own = torch.ones(3)
    trace = cutaway.trace(layers(lambda x: x + own + outside), torch.ones(3))
    assert len(trace.constants) == 2
    assert not trace.unexplained
    for name in ("kept_between_calls", "nested", "numpy_round_trip"):
        model, args, kwargs = ZOO[name]()
        assert bool(cutaway.trace(model, *args, **kwargs).unexplained) == (name == "numpy_round_trip")
