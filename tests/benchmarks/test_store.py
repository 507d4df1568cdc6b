"""The measuring code of the store on little data; the figures themselves are left to `make bench`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.store import archives, formats
from benchmarks.store.archives import DISK, OPEN, READ, WRITE, Size

SMALL = Size(n_tensors=3, shape=(2, 4), n_written=5, n_steps=80, n_repeats=3)


@pytest.mark.parametrize("title", formats.ALWAYS)
def test_every_format_gives_back_what_it_was_given(title: str, tmp_path: Path) -> None:
    store = formats.ALWAYS[title](tmp_path)
    rng = np.random.default_rng(0)
    steps = [{name: rng.normal(size=(2, 3)).astype(np.float32) for name in ("a", "b")} for _ in range(4)]
    for number, arrays in enumerate(steps):
        store.write(number, arrays)
    assert np.array_equal(store.read(2, "b"), steps[2]["b"])
    store.close()
    assert np.array_equal(store.read(3, "a"), steps[3]["a"])


def test_every_figure_is_measured_and_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found, _ = archives.figures(SMALL, peers=False)
    assert {figure.work for figure in found} >= {WRITE, READ, DISK, OPEN, archives.CURVE, archives.SEAL, archives.LIVE}
    assert all(figure.value > 0 for figure in found)
    assert not list(tmp_path.iterdir())


def test_peers_are_written_and_read_in_turn_with_the_store(tmp_path: Path) -> None:
    found = list(archives.step_by_step(SMALL, formats.ALWAYS, tmp_path))
    named = {figure.on for figure in found if figure.work == WRITE}
    assert named == {f"{archives.OURS}: {SMALL.title}", *formats.ALWAYS}
    aims = [figure.aim for figure in found if figure.work == WRITE]
    assert aims == [6.0, None, None, None]


def test_a_peer_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "IF_THERE", {"none": ("no_such_package", formats.PlainFile)})
    found, missing = formats.chosen(peers=True)
    assert list(found) == list(formats.ALWAYS)
    assert missing == ("no_such_package is not installed and was left out",)
