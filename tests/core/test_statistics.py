"""There is one table of statistics: the recorder, the views, the command line, the page and the docs read it."""

from __future__ import annotations

import json
import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import ROOT

import cutaway
from cutaway.cli.output import without_histogram
from cutaway.core import statistics as table
from cutaway.core.statistics import (
    PER_SAMPLE,
    PER_UNIT,
    STATISTICS,
    Statistic,
    magnitude_statistic,
    names_in_tiers,
    statistic,
)
from cutaway.recording.statistics.summary import Summary
from cutaway.store.format.records import Row
from cutaway.store.writing.writer import Writer
from cutaway.views.run.rows import RunRows
from cutaway.views.run.tensor_view import tensor_view

TIERS = ("core", "full", "spectral_norm")


def test_every_statistic_is_described() -> None:
    for name, each in STATISTICS.items():
        assert each.name == name
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert each.title
        assert each.about
        assert each.about[-1] != "."
    titles = [each.title for each in STATISTICS.values()]
    assert len(set(titles)) == len(titles)


def test_what_is_said_of_a_statistic_fits_together() -> None:
    for each in STATISTICS.values():
        if each.is_comparable:
            assert each.scale == "log", "sizes of different layers differ by factors"
        if each.scale == "log":
            assert not each.is_signed, each.name
        if each.is_fault:
            assert each.unit in ("elements", "flag")
    assert {*PER_UNIT, *PER_SAMPLE} <= set(STATISTICS)
    assert {each.name for each in STATISTICS.values() if each.tier == "group"} <= {*PER_UNIT, *PER_SAMPLE}
    assert magnitude_statistic(["mean"]) is None


def test_one_that_is_not_in_the_table_is_called_by_its_name() -> None:
    assert statistic("own_number") == replace(table.UNKNOWN, name="own_number", title="own number")


@pytest.mark.parametrize("spectral_norm", [False, True])
@pytest.mark.parametrize("level", ["core", "full"])
def test_the_recorder_fills_every_statistic_of_the_table(level: str, spectral_norm: bool) -> None:
    summary = Summary(level, spectral_norm=spectral_norm)
    summary.add(torch.randn(6, 8), batch_dim=0)
    tiers = TIERS[: TIERS.index(level) + 1] + (("spectral_norm",) if spectral_norm else ())
    assert summary.names == names_in_tiers(*tiers)
    assert np.isfinite(summary.matrix()).all()


def test_tables_of_units_and_samples_have_the_rows_that_the_table_names() -> None:
    summary = Summary("full")
    summary.add(torch.randn(6, 8), batch_dim=0, unit_dim=1)
    assert {name: len(array) for name, array in summary.arrays(0).items()} == {
        "unit": len(PER_UNIT),
        "samples": len(PER_SAMPLE),
    }


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Statistic:
    """A statistic that a programmer has just added to the table."""
    new = Statistic("kurtosis", "kurtosis", "fourth moment", "core", scale="log", is_signed=False, is_comparable=True)
    monkeypatch.setitem(STATISTICS, "kurtosis", new)
    return new


def test_a_new_statistic_is_read_shown_and_compared_without_further_changes(tmp_path: Path, added: Statistic) -> None:
    names = ["mean", added.name]
    sizes = [1.0, 1.1, 0.9, 1.05, 0.95, 1.0, 500.0]
    with Writer(tmp_path / "run", kind="run") as writer:
        schema = writer.schema([Row(f"h.{number}", role="value") for number in range(7)], names)
        writer.step(0, schema=schema, matrix=np.array([[1, size] for size in sizes], np.float32))
    rows = RunRows(cutaway.load(tmp_path / "run"))
    assert [name for name in rows.statistics if statistic(name).is_comparable] == [added.name]
    (shown,) = (each for each in tensor_view(rows, 6, step=0).statistics if each.name == added.name)
    assert shown.value == 500
    assert shown.z_peers is not None
    assert shown.z_peers > 10
    assert without_histogram([added.name, "h3"]) == [added.name]


def test_runs_from_before_a_statistic_was_there_are_read_without_it(tmp_path: Path) -> None:
    old = [name for name in names_in_tiers("core") if name != "batch_std"]
    with Writer(tmp_path / "run", kind="run") as writer:
        schema = writer.schema([Row("a", role="value")], old)
        writer.step(0, schema=schema, matrix=np.ones((1, len(old)), np.float32))
        schema = writer.schema([Row("a", role="value")], names_in_tiers("core"))  # resumed by a newer version
        writer.step(1, schema=schema, matrix=np.ones((1, len(names_in_tiers("core"))), np.float32))
    run = cutaway.load(tmp_path / "run")
    np.testing.assert_array_equal(run["a"].stats("batch_std"), [np.nan, 1])
    rows = RunRows(run)
    assert "batch_std" not in {each.name for each in tensor_view(rows, 0, step=0).statistics}
    assert "batch_std" in {each.name for each in tensor_view(rows, 0, step=1).statistics}


def test_the_page_has_the_same_table() -> None:
    written = (ROOT / "web/src/lib/wire.ts").read_text()
    listed = written.partition("export const STATISTICS")[2]
    assert re.findall(r'\.\.\.UNKNOWN, name: ("\w+")', listed) == [json.dumps(name) for name in STATISTICS]
    for field in fields(Statistic):
        assert f"  {field.name}: " in written.partition("export interface Statistic {")[2].partition("}")[0]


def test_the_documentation_lists_every_statistic() -> None:
    text = (ROOT / "docs/recording.md").read_text()
    section = text.partition("### Statistics\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE))
    plain = {name: each for name, each in STATISTICS.items() if each.part == "number" and each.tier != "group"}
    assert list(rows) == list(plain)
    for name, about in rows.items():
        assert about == plain[name].about


NAMES = "|".join(sorted((n for n, each in STATISTICS.items() if each.part == "number"), key=len, reverse=True))
LIST = re.compile(rf"(?:[\"'](?:{NAMES})[\"']\s*[,:|]\s*){{4,}}")
COMPUTED = {
    "src/cutaway/core/statistics.py": "the table itself",
    "src/cutaway/recording/statistics/device_results.py": "what the kernels compute",
}
"""Where four names or more may stand in a row, and why."""


def test_there_is_no_second_list() -> None:
    """Four names in a row are a list of statistics, which belongs into the table."""
    files = [*(ROOT / "src").rglob("*.py"), *(ROOT / "web/src").rglob("*.ts"), *(ROOT / "web/src").rglob("*.tsx")]
    for path in files:
        name = str(path.relative_to(ROOT))
        if name not in COMPUTED and not name.endswith((".test.ts", "example.ts", "lib/wire.ts")):
            assert not LIST.search(path.read_text()), f"{name} has a list of statistics of its own"
