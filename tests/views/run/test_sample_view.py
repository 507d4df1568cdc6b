"""What the samples are, told so that a page can show it."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.views.recordings import KEPT, trained

import cutaway
from cutaway.core.arrays import Raw
from cutaway.layout.graph_view import plain
from cutaway.store.format.records import Row
from cutaway.store.runs.run import Run
from cutaway.store.runs.samples import packed_samples
from cutaway.store.writing.writer import Writer
from cutaway.views.run.sample_view import samples_view


def run_of(path: Path, fields: dict[str, Any], n_inputs: int = 0) -> Run:
    rows = {Row("x", role="input"): Raw.of(np.zeros((n_inputs, 2)))} | packed_samples(fields)
    with Writer(path, kind="run") as writer:
        schema = writer.schema(list(rows), ["mean"])
        values = dict(enumerate(rows.values()))
        writer.step(3, schema=schema, matrix=np.full((len(rows), 1), np.nan), values=values)
    loaded: Run = cutaway.load(path)
    return loaded


def test_each_sample_is_what_the_run_says() -> None:
    view, samples = samples_view(trained(), 4), trained().at(4).samples
    assert (view.step, view.n_kept, len(view.items), view.why_missing) == (4, KEPT, KEPT, "")
    assert set(view.fields) == set(samples.fields)
    for number, item in enumerate(view.items):
        given = samples[number]
        assert (item.number, item.id, item.text) == (number, given["ids"], given["text"])
        assert (item.label, list(item.tokens)) == (str(given["label"]), given["tokens"])
        assert item.others == (("weight", f"{given['weight']:.6g}"),)
        assert item.image is not None


def test_without_a_text_the_tokens_are_it(tmp_path: Path) -> None:
    words = samples_view(run_of(tmp_path / "a", {"tokens": [["so", "me"], []]}), 3)
    assert [item.text for item in words.items] == ["some", ""]
    numbers = samples_view(run_of(tmp_path / "b", {"tokens": [[5, 7], [6]]}), 3)
    assert [(item.text, item.tokens) for item in numbers.items] == [("5 7", ("5", "7")), ("6", ("6",))]


@pytest.mark.parametrize(
    ("array", "shape", "limits"),
    [
        (np.arange(60, dtype=np.uint8).reshape(2, 5, 6, 1), (5, 6, 1), (0, 255)),
        (np.linspace(-2, 6, 2 * 3 * 5 * 4).reshape(2, 3, 5, 4), (5, 4, 3), (-2, 2)),
        (np.linspace(0, 1, 2 * 5 * 6).reshape(2, 5, 6), (5, 6, 1), (0, 1)),
        (np.zeros((2, 300, 400, 4)), (75, 100, 4), (0, 1)),
    ],
)
def test_images_are_bytes_with_channels_last(
    tmp_path: Path, array: np.ndarray[Any, Any], shape: tuple[int, ...], limits: tuple[float, float]
) -> None:
    image = samples_view(run_of(tmp_path / "run", {"image": array}), 3).items[0].image
    assert image is not None
    assert (image.rows, image.columns, image.n_channels) == shape
    assert (image.low, image.high) == pytest.approx(limits, abs=0.1)
    assert len(base64.b64decode(image.data)) == np.prod(shape)


def test_what_is_no_image_is_said_in_words(tmp_path: Path) -> None:
    item = samples_view(run_of(tmp_path / "run", {"image": np.zeros((2, 5, 5, 7, 2))}), 3).items[0]
    assert item.image is None
    assert item.others == (("image", "float64 5×5×7×2"),)


def test_samples_of_which_nothing_is_known_are_counted(tmp_path: Path) -> None:
    view = samples_view(run_of(tmp_path / "run", {}, n_inputs=5), 3)
    assert (view.n_kept, view.items) == (5, ())
    assert "run.samples(" in view.why_missing


def test_hostile_content_is_text(tmp_path: Path) -> None:
    bad = "</script><b>\x00\u202e"
    view = samples_view(run_of(tmp_path / "run", {"text": [bad], "label": [bad], bad: [bad]}), 3)
    assert (view.items[0].text, view.items[0].label, view.items[0].others) == (bad, bad, ((bad, bad),))
    assert json.loads(json.dumps(plain(view), allow_nan=False))["items"][0]["text"] == bad


def test_damage_is_told(tmp_path: Path) -> None:
    run_of(tmp_path / "run", {"text": ["a text that can be found"]})
    (file,) = (tmp_path / "run").glob("rank-0/*-v0001.safetensors")
    file.write_bytes(file.read_bytes().replace(b"can be found", b"cannot be it"))
    view = samples_view(cutaway.load(tmp_path / "run"), 3)
    assert view.items == ()
    assert "have a wrong checksum" in view.why_missing
