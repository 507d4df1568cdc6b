"""The writer of a collection: a kill, a full disk or a second try lose nothing and double nothing."""

from __future__ import annotations

import os
import signal
import textwrap
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests import ROOT, warm_python
from tests.store.collected import SITES, Expected, expected, windows

from cutaway.core.errors import DamagedError, ExistsError, InputError, StoreError
from cutaway.core.units.layout import UnitLayout
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.windows import CollectedSite
from cutaway.store.activations.writer import ActivationsWriter, Rows
from cutaway.store.format.segments import Limits
from cutaway.store.reading.archive import Archive
from cutaway.store.verification.verify import verify
from cutaway.store.writing.writer import Options, Writer

SMALL = Options(limits=Limits(bytes=600, header=4096), beat_every=0.01)
ONE = [CollectedSite("a", 2)]

CHILD = """
    import sys
    from tests.store.collected import SITES, windows
    from tests.store.activations.test_writer import SMALL
    from cutaway.store.activations.writer import ActivationsWriter

    path, seed = sys.argv[1], int(sys.argv[2])
    writer = ActivationsWriter(path, SITES, resume=True, options=SMALL)
    first = 0
    for window in windows(40, seed=seed):
        if first >= writer.n_items:
            window.write(writer)
            writer.flush()
            print(writer.done, flush=True)
        first += window.n_items
    writer.finish()
    print("finished", flush=True)
"""


def started(path: Path, seed: int) -> warm_python.Program:
    imports = ("tests.store.activations.test_writer",)
    command = ["-c", textwrap.dedent(CHILD), str(path), str(seed)]
    return warm_python.start(command, cwd=ROOT, imports=imports, skips_teardown=True)


@pytest.mark.parametrize("seed", [3, 4])
def test_a_writer_killed_again_and_again_resumes_with_nothing_lost_or_doubled(tmp_path: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    wanted = expected(windows(40, seed=seed))
    acknowledged = 0
    for n_windows in (*random.integers(1, 12, 2).tolist(), None):
        child = started(tmp_path / "acts", seed)
        for number, line in enumerate(child.stdout, 1):
            if line.strip() == "finished":
                break
            acknowledged = int(line)
            if number == n_windows:
                os.kill(child.pid, signal.SIGKILL)
                break
        child.stdout.close()
        child.wait(60)
        there = load(tmp_path / "acts")
        assert there.n_items >= acknowledged  # the window behind may have been written, and not told yet
        assert there.is_whole is (n_windows is None)
        check_prefix(there, wanted)
        assert verify(tmp_path / "acts")
    assert there.n_items == wanted.n_items
    assert len(there) == len(wanted.words)
    assert any(name.endswith(".part") for name in os.listdir(tmp_path / "acts" / "rank-0"))  # read, though not sealed


def check_prefix(acts: Activations, wanted: Expected) -> None:
    n = len(acts)
    assert acts.array().tobytes() == wanted.values[:n].tobytes()
    assert acts.words == wanted.words[:n]
    assert acts.items.tolist() == wanted.items[:n]
    assert [(problem.item, problem.what) for problem in acts.problems] == [
        problem for problem in wanted.problems if problem[0] < acts.n_items
    ]


def test_an_exception_leaves_what_was_written_to_be_resumed(tmp_path: Path) -> None:
    written = windows(5)
    with suppress(KeyboardInterrupt), ActivationsWriter(tmp_path / "acts", SITES) as writer:
        for window in written[:2]:
            window.write(writer)
        raise KeyboardInterrupt
    assert not load(tmp_path / "acts").is_whole
    assert ", incomplete" in repr(load(tmp_path / "acts"))
    assert any("collection is incomplete" in remark for remark in verify(tmp_path / "acts").remarks)
    with ActivationsWriter(tmp_path / "acts", SITES, resume=True) as writer:
        assert writer.done == sum(window.n_items for window in written[:2])
        for window in written[2:]:
            window.write(writer)
    acts = load(tmp_path / "acts")
    assert acts.is_whole
    check_prefix(acts, expected(written))
    assert len(acts) == len(expected(written).words)


def test_resuming_what_is_not_there_begins_it_and_what_is_whole_adds_nothing(tmp_path: Path) -> None:
    written = windows(3)
    with ActivationsWriter(tmp_path / "acts", SITES, resume=True) as writer:
        assert writer.done == 0
        for window in written:
            window.write(writer)
    with ActivationsWriter(tmp_path / "acts", SITES, resume=True) as writer:
        assert writer.done == sum(window.n_items for window in written)
    check_prefix(load(tmp_path / "acts"), expected(written))
    assert load(tmp_path / "acts").is_whole


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    with ActivationsWriter(tmp_path / "acts", ONE) as writer:
        writer.window({"a": np.ones((1, 2))}, Rows.of([0]), ["w"], n_items=1)
    with pytest.raises(ExistsError, match="is not overwritten"):
        ActivationsWriter(tmp_path / "acts", ONE)
    Writer(tmp_path / "run", kind="run").close()
    with pytest.raises(ExistsError, match="is a run"):
        ActivationsWriter(tmp_path / "run", ONE, resume=True)


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"sites": [CollectedSite("b", 2)]}, "another sites"),
        ({"dtype": "float16"}, "another dtype"),
        ({"aggregate": "first"}, "another aggregate"),
        ({"provenance": {"weights": "feed", "time": "now"}}, "another weights .'beef', now 'feed'"),
    ],
)
def test_what_was_collected_otherwise_is_not_gone_on_with(tmp_path: Path, other: dict[str, Any], said: str) -> None:
    same: dict[str, Any] = {"sites": ONE, "aggregate": "last", "provenance": {"weights": "beef", "time": "then"}}
    with ActivationsWriter(tmp_path / "acts", **same) as writer:
        writer.window({"a": np.ones((1, 2))}, Rows.of([0]), ["w"], n_items=1)
    before = sorted(path.name for path in (tmp_path / "acts").rglob("*"))
    with pytest.raises(InputError, match=said):
        ActivationsWriter(tmp_path / "acts", **(same | other), resume=True)
    assert sorted(path.name for path in (tmp_path / "acts").rglob("*")) == before
    later = same | {"provenance": {"weights": "beef", "time": "now"}}
    ActivationsWriter(tmp_path / "acts", **later, resume=True).close()


def test_a_layout_is_kept_and_other_batch_sizes_are_gone_on_with(tmp_path: Path) -> None:
    layout = UnitLayout(((3,), (2,), (7,)), units=(1,), samples=(0,), tokens=(2,))
    sites = [CollectedSite("a", 2, 1, layout=layout)]
    with ActivationsWriter(tmp_path / "acts", sites) as writer:
        writer.window({"a": np.ones((1, 2))}, Rows.of([0]), ["w"], n_items=1)
    loaded = load(tmp_path / "acts")
    assert loaded.layouts == {"a": layout}
    assert loaded.unit_rule == "graph"
    assert loaded.names.layouts == loaded.names[:1].layouts == {"a": layout}
    assert loaded.units([1]).layouts == {"a": layout}
    larger = replace(layout, split=((5,), (2,), (9,)))
    ActivationsWriter(tmp_path / "acts", [CollectedSite("a", 2, 1, layout=larger)], resume=True).close()
    for other in (replace(layout, samples=(2,), tokens=(0,)), None):
        with pytest.raises(InputError, match="another sites"):
            ActivationsWriter(tmp_path / "acts", [CollectedSite("a", 2, 1, layout=other)], resume=True)


def test_what_an_older_version_collected_is_read_and_marked_and_not_gone_on_with(tmp_path: Path) -> None:
    with ActivationsWriter(tmp_path / "acts", ONE, provenance={"model": {"class": "Net"}}) as writer:
        writer.window({"a": np.ones((1, 2))}, Rows.of([0]), ["w"], n_items=1)
    old = load(tmp_path / "acts")
    assert old.unit_rule == "sizes"
    assert old.layouts == {}
    assert "units counted by an older version" in repr(old)
    assert Activations.of(np.ones((2, 3))).unit_rule == ""
    new = [CollectedSite("a", 2, layout=UnitLayout(((1,), (2,)), units=(1,), samples=(0,)))]
    with pytest.raises(InputError, match="started by an older version of Cutaway, which counted units by another rule"):
        ActivationsWriter(tmp_path / "acts", new, provenance={"model": {"class": "Net"}}, resume=True)


@pytest.mark.parametrize("layout", [3, [], [[[2]], [5], [], [], "producers", ""], [[[2]], [0], [], [], "guessed", ""]])
def test_a_layout_that_cannot_be_is_damage(layout: Any) -> None:
    with pytest.raises(DamagedError, match="the unit layout of a site"):
        CollectedSite.read({"site": "a", "width": 2, "layout": layout})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"arrays": {"a": np.ones((3, 2))}}, r"shape \[3, 2\], expected \[2, 2\]"),
        ({"arrays": {"b": np.ones((2, 2))}}, "exactly the collection's sites"),
        ({"words": ["x"]}, "2 rows needs 2 words"),
        ({"n_items": 0}, "n_items must be at least 1"),
        ({"rows": Rows.of([1, 0])}, "in corpus order"),
        ({"rows": Rows.of([0, 2])}, "items 0 to 1, but its rows are of items 0 to 2"),
    ],
)
def test_a_window_that_does_not_fit_is_refused_at_once(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    good: dict[str, Any] = {
        "arrays": {"a": np.ones((2, 2))},
        "rows": Rows.of([0, 1]),
        "words": ["x", "y"],
        "n_items": 2,
    }
    bad = good | change
    with ActivationsWriter(tmp_path / "acts", ONE) as writer:
        with pytest.raises(InputError, match=said):
            writer.window(bad["arrays"], bad["rows"], bad["words"], n_items=bad["n_items"])
        writer.window(good["arrays"], good["rows"], good["words"], n_items=2)
    assert load(tmp_path / "acts").array().tolist() == [[1, 1], [1, 1]]


def test_a_value_beyond_float16_is_an_error_that_names_it(tmp_path: Path) -> None:
    values = np.array([[1, 2], [3, 70_000.0]])
    with ActivationsWriter(tmp_path / "acts", ONE, dtype="float16") as writer:
        with pytest.raises(InputError, match=r"1 values of 'a' overflow float16.*70000 .unit 1, item 1.*float32"):
            writer.window({"a": values}, Rows.of([0, 1]), ["x", "y"], n_items=2)
        writer.window({"a": np.array([[np.inf, np.nan]])}, Rows.of([0]), ["x"], n_items=1)  # these were so before
    assert np.isinf(load(tmp_path / "acts").array()[0, 0])


def test_the_caller_may_use_its_arrays_again_at_once(tmp_path: Path) -> None:
    values, items = np.zeros((1, 2), np.float32), np.zeros(1, np.int64)
    with ActivationsWriter(tmp_path / "acts", ONE) as writer:
        for number in range(50):
            values[:], items[:] = number, number
            writer.window({"a": values}, Rows(items, *(np.zeros(1, np.int32),) * 3), [str(number)], n_items=1)
    acts = load(tmp_path / "acts")
    assert acts.array()[:, 0].tolist() == list(range(50))
    assert acts.items.tolist() == list(range(50))


def test_a_disk_that_fails_stops_the_collection_and_says_what_is_safe(tmp_path: Path) -> None:
    writer = ActivationsWriter(tmp_path / "acts", ONE, options=SMALL)
    writer.window({"a": np.ones((1, 2))}, Rows.of([0]), ["w"], n_items=1)
    writer.flush()
    assert writer.done == 1
    fails = OSError(28, "No space left on device")
    log = writer._writer._log

    def block(*_: object) -> None:
        raise fails

    log.block = block  # type: ignore[method-assign]
    with suppress(StoreError):  # it may be known already
        writer.window({"a": np.ones((1, 2))}, Rows.of([1]), ["w"], n_items=1)
    with pytest.raises(StoreError, match=r"No space left on device.*1 items are safe.*resume=True"):
        writer.flush()
    assert writer.done == 1
    writer.close()
    with ActivationsWriter(tmp_path / "acts", ONE, resume=True) as again:
        assert again.done == 1
        again.window({"a": np.full((1, 2), 2)}, Rows.of([1]), ["w"], n_items=1)
    assert load(tmp_path / "acts").array().tolist() == [[1, 1], [2, 2]]


def test_windows_are_written_where_mapped_memory_is_read_best(tmp_path: Path) -> None:
    written = windows(8)
    with ActivationsWriter(tmp_path / "acts", SITES) as writer:
        for window in written:
            window.write(writer)
    source = load(tmp_path / "acts")._source
    for window_ in range(8):
        for site in range(len(SITES)):
            assert source.values(window_, site).flags.aligned


def test_a_window_behind_a_gap_is_not_taken_for_acknowledged(tmp_path: Path) -> None:
    """A window that was lost on a failing disk, and the next one that was not."""
    with ActivationsWriter(tmp_path / "acts", ONE) as writer:
        writer.window({"a": np.ones((1, 2))}, Rows.of([0]), ["w"], n_items=1)
        writer._n_items = 2  # as if item 1 had been handed in and lost
        writer.window({"a": np.ones((1, 2))}, Rows.of([2]), ["w"], n_items=1)
        writer.close()
    with ActivationsWriter(tmp_path / "acts", ONE, resume=True) as writer:
        assert writer.done == 1
        for item in (1, 2):
            writer.window({"a": np.full((1, 2), item)}, Rows.of([item]), [str(item)], n_items=1)
    assert load(tmp_path / "acts").array()[:, 0].tolist() == [1, 1, 2]


def load(path: Path) -> Activations:
    return Activations.read(Archive(path))
