"""`MethodOptions`: the options of all ranking methods, as `rank` and `stability` take them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from cutaway.neurons.ranking.combine import Overall


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MethodOptions:
    """Options of the ranking methods; None stands for the default of the method. `rank` describes each."""

    absolute: bool | None = None
    floor: float | None = None
    overall: Overall | None = None
    share: float | Literal["best"] | None = None
    threshold: float | None = None
    standardize: bool | None = None
    l1: float | None = None
    l2: float | None = None
    task: Literal["auto", "classification", "regression"] | None = None
    solver: Literal["auto", "full", "minibatch"] | None = None
    max_iter: int | None = None
    tol: float | None = None
    n_units: int | None = None
    n_permutations: int | None = None
    validation: float | None = None
    device: Any = None
    model: Any = None
    data: Any = None
    target: Any = None
    attribution: str | None = None
    steps: int | None = None
    baseline: Any = None
    along: str | None = None
    signed: bool | None = None
    batch_size: int | None = None
    call: Callable[[Any, Any], Any] | None = None
    unit_dim: int | Sequence[int] | None = None
    samples: int | None = None
    tokenizer: Any = None

    def given(self) -> dict[str, Any]:
        """The options that were passed.

        >>> MethodOptions(l1=0.1).given()
        {'l1': 0.1}
        """
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}
