"""Numbers that are logged: what counts as one, and that none is lost for another's sake."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cutaway
from cutaway.core.errors import InputError
from cutaway.recording.scalars import PendingScalars

NUMBERS: dict[str, tuple[Any, float]] = {
    "int": (3, 3.0),
    "bool": (True, 1.0),
    "nan": (float("nan"), math.nan),
    "inf": (-math.inf, -math.inf),
    "float32": (np.float32(0.1), float(np.float32(0.1))),
    "int64": (np.int64(2**53), 2.0**53),
    "array": (np.array([[2.5]]), 2.5),
    "tensor": (torch.tensor([[1.5]], requires_grad=True), 1.5),
    "bfloat16": (torch.tensor(2.0, dtype=torch.bfloat16), 2.0),
    "double": (torch.tensor(0.1, dtype=torch.float64), 0.1),
    "whole": (torch.tensor(2**40), 2.0**40),
    "fraction": (Fraction(1, 4), 0.25),
    "decimal": (Decimal("0.5"), 0.5),
}


@pytest.mark.filterwarnings("error")
def test_numbers_of_every_sort(tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", torch.nn.Linear(2, 2), every=1) as run:
        with run.step():
            run.log({name: value for name, (value, _) in NUMBERS.items()}, extra=1)
            run.log(meta=torch.tensor(1.0, device="meta"))
    found = cutaway.load(tmp_path / "run").scalars
    for name, (_, number) in NUMBERS.items():
        assert found[name].values.tolist() == pytest.approx([number], nan_ok=True, rel=0, abs=0), name
    assert found["extra"].values.tolist() == [1]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("12", "'wrong' is '12', a str"), (None, "'wrong' is None"), ([1, 2], "log numbers"), (1j, "complex"),
        (torch.ones(3), "3 elements"), (torch.empty(0), "0 elements"), (np.ones(2), "ndarray"),
        (torch.tensor(1j), "complex"), (10**400, "log numbers"),
    ],
)  # fmt: skip
def test_what_is_no_number_is_said_and_the_others_are_kept(wrong: Any, said: str, tmp_path: Path) -> None:
    with cutaway.record(tmp_path / "run", torch.nn.Linear(2, 2), every=1) as run, run.step():
        with pytest.warns(RuntimeWarning, match=said):
            run.log(first=1, wrong=wrong, last=2)
    found = cutaway.load(tmp_path / "run").scalars
    assert set(found) == {"first", "last"}


class Device(torch.Tensor):
    """Stands for a tensor on a device."""

    @property
    def device(self) -> Any:  # type: ignore[override]
        return torch.device("cuda")


def test_numbers_on_a_device_come_later_and_in_order() -> None:
    written: list[tuple[int, dict[str, float]]] = []
    scalars = PendingScalars(lambda step, values: written.append((step, dict(values))))
    number = torch.tensor([0.1], dtype=torch.float64).as_subclass(Device)
    with torch._C.DisableTorchFunctionSubclass():
        for step in range(3):
            scalars.add(step, {"loss": number, "lr": step})
        assert written == [(step, {"lr": float(step)}) for step in range(3)]
        with pytest.raises(InputError, match="2 elements"):
            scalars.add(3, {"wrong": torch.ones(2).as_subclass(Device), "lr": 3})
    assert written[-1] == (3, {"lr": 3.0})
    scalars._pending = [(step, name, tensor.as_subclass(torch.Tensor)) for step, name, tensor in scalars._pending]
    number.zero_()
    scalars.drain()
    assert written[4:] == [(step, {"loss": 0.1}) for step in range(3)]
