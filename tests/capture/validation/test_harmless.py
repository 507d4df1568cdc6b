"""`validate` ends no process, changes nothing that belongs to the caller, and reports instead of raising."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tests import warm_python
from tests.zoo import Fn
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import cutaway

LINALG = """
import torch, cutaway
from tests.zoo import Fn
square, tall = torch.randn(4, 4), torch.randn(6, 4)
for function in (torch.linalg.eigvals, torch.linalg.eig):
    model = Fn(lambda self, x: function(self.layer(x)), layer=torch.nn.Linear(4, 4))
    assert not cutaway.trace(model, square).validate().failures
model = Fn(lambda self, x: torch.linalg.lstsq(x, x).solution)
assert not cutaway.trace(model, tall).validate().failures
"""


def test_linear_algebra_is_not_fed_nan() -> None:
    run = warm_python.run(["-c", LINALG], skips_teardown=True)
    assert run.returncode == 0, run.stderr
    assert "MKL ERROR" not in run.stdout + run.stderr


class Holder(nn.Module):
    """A model that writes to a tensor that is neither a parameter nor a buffer."""

    def __init__(self, write: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.write = write
        self.state = torch.zeros(4)
        self.states = [torch.zeros(4), torch.ones(4)]

    def forward(self, x: Tensor) -> Tensor:
        return self.write(self, x)


closed_over = torch.zeros(4)
mean, variance = torch.zeros(4), torch.ones(4)
WRITES: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "an attribute": lambda m, x: x + m.state.add_(x.sum(0)),
    "an attribute through a view": lambda m, x: x + m.state[1:].add_(1).sum(),
    "an attribute through data": lambda m, x: x + m.state.data.add_(1).sum(),
    "a tensor in a list": lambda m, x: x + m.states[1].mul_(2),
    "a closure": lambda m, x: x + closed_over.add_(1),
    "running statistics": lambda m, x: F.batch_norm(x, mean, variance, training=True),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_the_model_writes_to_is_put_back(name: str) -> None:
    model = Holder(WRITES[name])
    trace = cutaway.trace(model, torch.randn(3, 4))
    tensors = [model.state, *model.states, closed_over, mean, variance]
    before = [(tensor.clone(), tensor._version) for tensor in tensors]
    report = trace.validate()
    assert not report.failures
    assert report.outputs_compared == 1
    assert all(torch.equal(t, old) and t._version == n for t, (old, n) in zip(tensors, before, strict=True))


def test_an_observer_of_quantization_is_put_back() -> None:
    fake = torch.ao.quantization.FusedMovingAvgObsFakeQuantize()
    model = nn.Sequential(nn.Linear(4, 4), fake).train()
    trace = cutaway.trace(model, torch.randn(5, 4))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    assert not trace.validate().failures
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def halves(self: Any, x: Tensor) -> Tensor:
    with torch.no_grad():
        self.scale.mul_(0.5)
    return x * self.scale


@pytest.mark.parametrize(
    ("model", "x"),
    [
        (Fn(halves, scale=nn.Parameter(torch.ones(3))), torch.ones(3)),
        (nn.Embedding(10, 4, max_norm=1.0), torch.tensor([1, 2])),
    ],
    ids=["a parameter halved", "max_norm"],
)
def test_values_stay_readable_where_the_forward_writes_a_parameter(model: nn.Module, x: Tensor) -> None:
    trace = cutaway.trace(model, x)
    before = {op.label: op.value.clone() for op in trace.ops}
    assert not trace.validate().failures
    assert all(torch.equal(op.value, before[op.label]) for op in trace.ops)


def test_a_gradient_can_still_be_computed_afterwards() -> None:
    model = Fn(halves, scale=nn.Parameter(torch.ones(3)))
    trace = cutaway.trace(model, torch.ones(3))
    trace.validate()
    trace.returned.sum().backward()
    assert torch.equal(model.scale.grad, torch.ones(3))


def test_a_buffer_written_through_a_view_is_no_failure() -> None:
    def codebook(self: Any, x: Tensor) -> Tensor:
        result = x + self.codes
        self.codes.data[1:] += 1
        self.codes[0].mul_(3)
        return result

    model = Fn(codebook, codes=torch.ones(4))
    trace = cutaway.trace(model, torch.ones(4))
    after = model.codes.clone()
    report = trace.validate()
    assert not report.failures
    assert report.outputs_compared == 1
    assert torch.equal(model.codes, after)


def note_of(model: nn.Module, *args: Any) -> str:
    report = cutaway.trace(model, *args).validate()
    assert not report.failures
    return " ".join(report.notes)


def test_an_iterator_is_read_once_and_named() -> None:
    model = Fn(lambda self, rows: sum(self.layer(row) for row in rows), layer=nn.Linear(3, 3))
    assert "argument '0' is an iterator" in note_of(model, iter([torch.ones(3), torch.ones(3)]))


def test_a_model_that_raises_on_its_second_run_is_noted() -> None:
    runs: list[int] = []

    def once(self: Any, x: Tensor) -> Tensor:
        runs.append(1)
        if len(runs) > 1:
            raise RuntimeError("only once")
        return x * 2

    assert "run again, the model raised RuntimeError: only once" in note_of(Fn(once), torch.ones(3))


def test_complex_half_is_compared() -> None:
    trace = cutaway.trace(Fn(lambda self, x: x * 2 + x), torch.ones(3, dtype=torch.complex32))
    assert trace.validate().coverage.exact == 2


def test_fake_tensors_have_no_numbers() -> None:
    with FakeTensorMode():
        model = nn.Linear(3, 3)
        assert "have no numbers" in note_of(model, torch.ones(2, 3))


def in_place_shapes(self: Any, x: Tensor) -> Tensor:
    y = x * 1
    y.unsqueeze_(0)
    y.mul_(2)
    y.squeeze_(0)
    return y + 1


def data_twice(self: Any, x: Tensor) -> Tensor:
    weight = torch.zeros(3)
    weight.data = x[0] * 1
    first = weight * 2
    weight.data = x[1] * 1
    return first + weight * 3


def with_tangents(self: Any, x: Tensor) -> Tensor:
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        tangent: Tensor = torch.autograd.forward_ad.unpack_dual(self.layer(dual)).tangent
    return tangent


def padded(self: Any, x: Tensor) -> Tensor:
    nested = torch.nested.nested_tensor([x, x[:1]])
    return torch.nested.to_padded_tensor(self.layer(nested), 0.0)


FALSE_ALARMS: dict[str, Callable[[], nn.Module]] = {
    "shape changed in place": lambda: Fn(in_place_shapes),
    "inplace Dropout1d": lambda: nn.Sequential(nn.Linear(3, 3), nn.Dropout1d(inplace=True)),
    "x.data twice": lambda: Fn(data_twice),
    "lazy modules": lambda: nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyBatchNorm1d()),
    "x.new of sizes": lambda: Fn(lambda self, x: x.new(2, 3).fill_(1) + x),
    "forward-mode AD": lambda: Fn(with_tangents, layer=nn.Linear(3, 3)),
    "nested tensors": lambda: Fn(padded, layer=nn.Linear(3, 3)),
}


@pytest.mark.parametrize("name", FALSE_ALARMS)
def test_no_false_alarm(name: str) -> None:
    trace = cutaway.trace(FALSE_ALARMS[name](), torch.randn(2, 3))
    report = trace.validate()
    assert not report.failures
    assert not any("was not checked" in note for note in report.notes)
