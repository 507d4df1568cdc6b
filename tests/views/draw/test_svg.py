"""SVG: well-formed, legible by day and by night, and with nothing in it that other programs do not know."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import pytest
from tests.views.nets import broken, loop, perceptron, stack

from cutaway.core.errors import InputError
from cutaway.layout.layered import Rect
from cutaway.layout.text_size import EM
from cutaway.views.draw.color_scale import contrast
from cutaway.views.draw.style import DARK, LIGHT, TEXT_STYLES, color, style_of, style_sheet, text_style

SVG = "{http://www.w3.org/2000/svg}"
KINDS = [
    "input",
    "buffer",
    "constant",
    "plain",
    "parametric",
    "made",
    "standin",
    "failed",
    "condition",
    "new",
    "removed",
]


def parsed(text: str) -> ET.Element:
    return ET.fromstring(text)


def boxes(root: ET.Element) -> dict[str, ET.Element]:
    """The boxes of a picture by their names; the legend has none."""
    found = {}
    for group in root.iter(f"{SVG}g"):
        name = group.find(f"{SVG}text")
        if "box" in group.get("class", "").split() and name is not None:
            found[name.text or ""] = group
    return found


def legend(root: ET.Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text") if text.get("class") == "key"]


def rect_of(element: ET.Element) -> Rect:
    return Rect(*(float(element.get(name, 0)) for name in ("x", "y", "width", "height")))


def text_rect(text: ET.Element) -> Rect:
    """The room that a line of text takes, by the measure of the layout."""
    kind = text.get("class", "").split()[0]
    said = "".join(text.itertext())
    width = len(said) * TEXT_STYLES[kind].size * EM
    x, anchor = float(text.get("x", 0)), text.get("text-anchor", "start")
    left = x - (width / 2 if anchor == "middle" else width if anchor == "end" else 0)
    return Rect(left, float(text.get("y", 0)) - TEXT_STYLES[kind].size * 0.75, width, TEXT_STYLES[kind].size * 0.75)


def overlap(a: Rect, b: Rect) -> bool:
    return a.x + a.width > b.x and b.x + b.width > a.x and a.y + a.height > b.y and b.y + b.height > a.y


@pytest.mark.parametrize("direction", ["down", "right"])
@pytest.mark.parametrize("make", [perceptron, stack, loop, broken])
def test_no_text_covers_another_and_all_lies_within_the_page(make, direction: str) -> None:  # type: ignore[no-untyped-def]
    for rolled in (False, True):
        root = parsed(make().draw(rolled=rolled, direction=direction, color_by="bytes"))
        page = Rect(0, 0, float(root.get("width", 0)), float(root.get("height", 0)))
        texts = list(root.iter(f"{SVG}text"))
        for one in texts:
            place = text_rect(one)
            assert page.x <= place.x
            assert place.x + place.width <= page.width
            assert place.y + place.height <= page.height
        for one, other in combinations(texts, 2):
            assert not overlap(text_rect(one), text_rect(other)), (one.text, other.text)
        rects = [rect_of(rect) for group in boxes(root).values() if (rect := group.find(f"{SVG}rect")) is not None]
        for tag in texts:
            if tag.get("class", "").startswith("tag"):
                assert not any(overlap(text_rect(tag), rect) for rect in rects), tag.text


def test_the_header_wraps_instead_of_widening_a_narrow_picture() -> None:
    root = parsed(perceptron().draw())
    assert float(root.get("width", 0)) < 500
    assert [text.text for text in root.iter(f"{SVG}text") if text.get("class") == "under"] == [
        "3 ops · 80 B of values",
        "26 trainable and 0 frozen parameters",
    ]


def test_the_legend_tells_what_occurs_and_nothing_else() -> None:
    plain = legend(parsed(perceptron().draw()))
    assert "input" in plain
    assert not {"failed", "identical blocks", "in focus", "no number", "buffer"} & set(plain)
    many = legend(parsed(stack().draw(rolled=True, focus="head")))
    assert {"identical blocks", "buffer", "in focus", "folded module", "created inside"} <= set(many)
    assert "failed" in legend(parsed(broken().draw()))
    assert "condition" in legend(parsed(loop().draw()))


def test_identical_blocks_are_a_stack_of_cards() -> None:
    root = parsed(stack().draw(depth=1, rolled=True))
    (name,) = [name for name in boxes(root) if "×3" in name]
    rect = boxes(root)[name].find(f"{SVG}rect")
    assert rect is not None
    front = rect_of(rect)
    cards = [rect_of(card) for card in root.iter(f"{SVG}rect") if card.get("class") == "card" and card.get("rx") == "3"]
    assert len(cards) == 2
    for card in cards:
        assert (card.width, card.height) == (front.width, front.height)
        assert 0 < card.x - front.x < 10
        assert card.x - front.x == pytest.approx(card.y - front.y, abs=0.11)
    frames = parsed(stack().draw(rolled=True))
    assert [card for card in frames.iter(f"{SVG}rect") if card.get("class") == "card" and card.get("rx") == "6"]


def test_cards_do_not_reach_what_stands_beside_them() -> None:
    root = parsed(stack().draw(depth=1, rolled=True))
    rects = [rect for group in boxes(root).values() if (rect := group.find(f"{SVG}rect")) is not None]
    cards = [card for card in root.iter(f"{SVG}rect") if card.get("class") == "card" and card.get("rx") == "3"]
    for card in cards:
        assert sum(overlap(rect_of(card), rect_of(rect)) for rect in rects) == 1


def test_the_op_that_raised_is_marked() -> None:
    found = boxes(parsed(broken().draw()))
    (failed,) = [group for group in found.values() if "failed" in group.get("class", "").split()]
    assert "raised here" in "".join(failed.itertext())


def test_a_box_says_its_name_and_its_site_where_the_mouse_rests() -> None:
    titles = [group.findtext(f"{SVG}title") for group in boxes(parsed(stack().draw())).values()]
    assert "linear_1_1\nstem/linear" in titles
    assert all(titles)


def test_text_is_text_and_odd_names_are_escaped() -> None:
    trace = perceptron()
    root = parsed(trace.draw())
    said = {"".join(text.itertext()) for text in root.iter(f"{SVG}text")}
    assert {op.label for op in trace} <= said
    assert "2×4 · 32 B" in said


def test_a_picture_goes_down_or_to_the_right() -> None:
    down, right = (boxes(parsed(perceptron().draw(direction=way))) for way in ("down", "right"))
    places = []
    for found in (down, right):
        rects = [
            rect
            for name in ("input_1", "linear_1_1", "relu_1_2")
            if (rect := found[name].find(f"{SVG}rect")) is not None
        ]
        places.append([rect_of(rect) for rect in rects])
    assert places[0][0].y < places[0][1].y < places[0][2].y
    assert places[1][0].x < places[1][1].x < places[1][2].x
    assert places[1][0].x + places[1][0].width < places[1][1].x


@pytest.mark.parametrize("palette", [LIGHT, DARK])
@pytest.mark.parametrize("kind", KINDS + [f"apart{n}" for n in range(1, 5)])
def test_text_can_be_read_on_every_kind_of_box_by_day_and_by_night(kind: str, palette: dict[str, str]) -> None:
    classes = ["box", "plain", kind, *(["apart"] if kind.startswith("apart") else [])]
    fill = style_of(classes).fill or "none"
    ground = palette["paper"] if fill == "none" else color(fill, palette)
    for text in ("name", "more"):
        assert contrast(ground, color(text_style(text, classes).ink, palette)) >= 4.5


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_all_other_text_can_be_read_on_paper(palette: dict[str, str]) -> None:
    for one in TEXT_STYLES.values():
        assert contrast(palette["paper"], color(one.ink, palette)) >= 4.5


def test_the_style_sheet_has_a_day_and_a_night_and_no_variables() -> None:
    sheet = style_sheet()
    day, night = sheet.split("@media (prefers-color-scheme: dark)")
    assert "var(" not in sheet
    assert LIGHT["paper"] in day
    assert DARK["paper"] in night
    colors = re.compile(r"#[0-9a-f]{6}")
    assert set(colors.findall(day)) >= {LIGHT[name] for name in ("ink", "red", "green", "cream")}
    assert not set(colors.findall(night)) & {LIGHT[name] for name in ("ink", "dim", "cream")}


def test_a_file_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "net.svg"
    path.write_text("before")

    def fails(self: Path, target: Path) -> Path:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(OSError, match="disk full"):
        perceptron().draw(path)
    assert path.read_text() == "before"
    assert [each.name for each in tmp_path.iterdir()] == ["net.svg"]


def test_a_direction_that_there_is_not_is_refused() -> None:
    with pytest.raises(InputError, match='direction must be "down" or "right", got \'up\''):
        perceptron().draw(direction="up")  # type: ignore[arg-type]
