"""PNG and PDF: what is in the picture is on the pixels and in the text of the page."""

from __future__ import annotations

import builtins
import io
import logging
import re
from typing import Any

import numpy as np
import pytest
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.image import imread
from pypdf import PdfReader
from tests.call_count import count_calls
from tests.views.nets import broken, loop, perceptron, stack

from cutaway.core.errors import MissingExtraError
from cutaway.layout.layered import Rect
from cutaway.layout.text_size import EM
from cutaway.views.draw.raster import raster
from cutaway.views.draw.shapes import Scene, Shape, TextLine
from cutaway.views.draw.style import LIGHT
from cutaway.views.draw.text_outline import ADVANCE


def pixels(png: bytes) -> np.ndarray[Any, Any]:
    """Red, green and blue from 0 to 255."""
    return np.rint(imread(io.BytesIO(png))[..., :3] * 255).astype(int)


def has_color(image: np.ndarray[Any, Any], color: str) -> bool:
    wanted = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)])
    return bool((abs(image - wanted).max(-1) <= 2).any())


def page_text(pdf: bytes) -> str:
    (page,) = PdfReader(io.BytesIO(pdf)).pages
    return page.extract_text()


def test_a_png_has_two_pixels_for_each_unit_and_the_colors_of_what_is_drawn(tmp_path) -> None:  # type: ignore[no-untyped-def]
    trace = perceptron()
    image = pixels(trace.draw(tmp_path / "net.png"))
    svg = trace.draw()
    width, height = (float(re.search(rf'{name}="([\d.]+)"', svg)[1]) for name in ("width", "height"))  # type: ignore[index]
    assert abs(image.shape[0] - 2 * height) <= 1
    assert abs(image.shape[1] - 2 * width) <= 1
    for name in ("paper", "green", "cream", "red", "ink"):
        assert has_color(image, LIGHT[name]), name
    assert (tmp_path / "net.png").read_bytes().startswith(b"\x89PNG")


def test_boxes_are_where_the_layout_put_them() -> None:
    shape = Shape(Rect(40, 30, 100, 20), 3.0, ("box", "input", "leaf"))
    image = pixels(raster(Scene(200, 100, "", ((shape,),)), "png"))
    green = np.argwhere(abs(image - [0xD5, 0xEF, 0xD9]).max(-1) <= 2)
    (top, left), (bottom, right) = green.min(0), green.max(0)
    for found, wanted in ((top, 60), (left, 80), (bottom, 100), (right, 280)):
        assert abs(found - wanted) <= 3


@pytest.mark.parametrize("make", [perceptron, stack, loop, broken])
def test_the_text_of_a_pdf_can_be_selected(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    trace = make()
    text = page_text(trace.draw(tmp_path / "net.pdf"))
    for op in trace:
        if not op.output_path:
            assert op.label in text
    assert trace.model_name in text
    assert "trainable" in text


def test_a_dollar_is_a_dollar_and_no_formula() -> None:
    scene = Scene(300, 50, "", ((TextLine(10, 30, r"a$b^{c}$ \frac", "name"),),))
    assert r"a$b^{c}$ \frac" in page_text(raster(scene, "pdf"))
    assert raster(scene, "png")


def test_letters_that_the_font_lacks_and_control_characters_do_no_harm(recwarn: pytest.WarningsRecorder) -> None:
    scene = Scene(300, 50, "漢", ((TextLine(10, 30, "漢字\x00\n", "name"),),))
    assert raster(scene, "png")
    assert raster(scene, "pdf")
    assert not [warning for warning in recwarn if "lyph" in str(warning.message)]


@pytest.mark.parametrize("weight", ["normal", "bold"])
def test_a_character_of_the_font_is_not_wider_than_the_layout_believes(weight: str) -> None:
    font = get_font(findfont(FontProperties(family="DejaVu Sans Mono", weight=weight)))
    font.set_size(100, 72)
    for letter in "iMW×·…–Δ_":
        advance = font.load_char(ord(letter)).linearHoriAdvance / 65536 / 100
        assert advance == pytest.approx(ADVANCE, rel=1e-3)
        assert advance < EM


def test_a_picture_is_the_same_every_time() -> None:
    trace = perceptron()
    for suffix in ("png", "pdf"):
        scene = Scene(100, 50, "t", ((TextLine(10, 30, trace[0].label, "name"),),))
        assert raster(scene, suffix) == raster(scene, suffix)  # type: ignore[arg-type]


def test_a_huge_picture_is_scaled_to_what_other_programs_open(caplog: pytest.LogCaptureFixture) -> None:
    scene = Scene(400, 40_000, "tall", ((TextLine(10, 30, "x", "name"),),))
    with caplog.at_level(logging.WARNING):
        assert pixels(raster(scene, "png")).shape[:2] == (16_000, 160)
        box = PdfReader(io.BytesIO(raster(scene, "pdf"))).pages[0].mediabox
    assert float(box.height) == pytest.approx(14_400, abs=1)
    assert "the picture is large (400×40,000) and was scaled to 20%" in caplog.text


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    original = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError, match="PNG files need matplotlib: pip install matplotlib"):
        raster(Scene(10, 10, "", ()), "png")


def n_raster_calls(n: int) -> int:
    shapes = []
    for i in range(n):
        rect = Rect(20 + 120 * (i % 40), 20 + 40 * (i // 40), 100, 30)
        words = tuple(TextLine(rect.x + 50, rect.y + 12 + 13 * k, f"box_{i}_{k}", "more", "middle") for k in range(2))
        shapes.append(Shape(rect, 3.0, ("box", "plain", "leaf"), words))
    return count_calls(lambda: raster(Scene(4900, 1100, "", (tuple(shapes),)), "png"))


def test_the_work_grows_with_the_boxes_and_not_with_their_square() -> None:
    assert n_raster_calls(400) < 24 * n_raster_calls(50)  # eight times the boxes; their square would be 64
