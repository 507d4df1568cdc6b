"""A sample of torch's own databases: results, gradients, arguments and weights are those of plain torch.

`python -m benchmarks.sweep --family torch-ops torch-modules torch-optimizers` runs all entries.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

EVERY_OP, EVERY_MODULE = 45, 12
"""Every how many entries one is run: torch needs 5 s to build the databases, which leaves 3 s for the samples."""


@pytest.fixture(scope="module")
def databases() -> ModuleType:
    pytest.importorskip("expecttest", reason="torch.testing._internal imports it; requirements-dev.txt has it")
    from tests import torch_databases

    return torch_databases


def wrong(check: Callable[..., Any], names: list[str], **options: int) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's own, on deprecated arguments
        found = {name: check(name, **options) for name in names}
    assert sum(findings.n_samples - findings.n_skipped for findings in found.values()) >= len(names) // 2
    return [f"{name}: {reason}" for name, findings in found.items() for reason in findings.wrong]


def test_functions_compute_the_same_when_traced(databases: ModuleType) -> None:
    assert not wrong(databases.check_op, databases.op_names()[::EVERY_OP], most=1)


def test_modules_compute_the_same_when_traced_and_watched(databases: ModuleType) -> None:
    assert not wrong(databases.check_module, databases.module_names()[::EVERY_MODULE], most=1)


def test_optimizers_train_the_same_when_recorded(databases: ModuleType) -> None:
    assert not wrong(databases.check_optimizer, databases.optimizer_names(), most=1)


def test_the_checks_notice_what_differs(databases: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tracer that changes a result, an argument or a gradient must not pass."""
    import cutaway

    plain = cutaway.trace

    def careless(model: Any, *args: Any, **kwargs: Any) -> Any:
        trace = plain(model, *args, **kwargs)
        trace.returned = trace.returned + 1
        args[0].data.mul_(2)
        return trace

    monkeypatch.setattr(cutaway, "trace", careless)
    said = " ".join(wrong(databases.check_op, ["mul"], most=1))
    assert "the result differs" in said
    assert "an argument after the call differs" in said
    assert "a gradient differs" in said
