"""torch's own databases of functions, modules and optimizers as families of the sweep.

An entry is not one model: it has many sample inputs, each of which is run plainly, traced, watched and validated, or,
for an optimizer, trained with and without a recorder. So these families bring their own checks.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from time import perf_counter
from typing import Any

from benchmarks.sweep.checks import Verdict
from benchmarks.sweep.families import CannotRun, Case

DATABASES = ("torch-ops", "torch-modules", "torch-optimizers")
"""The names of these families."""


class Database:
    """One of the databases: `names` and `check` are functions of `tests.torch_databases`."""

    def __init__(self, names: str, check: str) -> None:
        self._names, self._check = names, check

    def names(self) -> Sequence[str]:
        names: Sequence[str] = getattr(_databases(), self._names)()
        return names

    def make(self, name: str) -> Case:
        raise CannotRun("an entry of a database has many samples: use `judge`")

    def judge(self, name: str) -> Verdict:
        started = perf_counter()
        findings = getattr(_databases(), self._check)(name)
        verdict = Verdict(name, "traced", n_ops=findings.n_ops, n_proven=findings.n_proven)
        verdict.n_opaque, verdict.n_undefined = findings.n_opaque, findings.n_undefined
        verdict.n_samples = findings.n_samples - findings.n_skipped
        verdict.how = f"{verdict.n_samples} samples in {perf_counter() - started:.1f} s"
        if not verdict.n_samples:
            verdict.outcome, verdict.reason = "plain forward fails", "no sample that runs on the CPU"
        elif findings.wrong:
            verdict.outcome, verdict.reason = "differs from plain torch", findings.wrong[0]
            verdict.failures = findings.wrong
        return verdict


def _databases() -> Any:
    # Late: torch takes seconds to build its databases, and other families do not need them.
    return importlib.import_module("tests.torch_databases")
