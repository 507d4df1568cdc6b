"""Colors for numbers: in order, told apart, and with text that can be read on them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.views.draw.test_svg import SVG, boxes, legend, parsed
from tests.views.nets import loop, perceptron, stack

import cutaway
from cutaway.core.errors import InputError, SiteError
from cutaway.layout.graph_view import Measure
from cutaway.views.draw.color_scale import ColorScale, contrast, interpolate
from cutaway.views.draw.style import style_of


def color_scale(values: list[float | None], scale: str = "linear", total: str = "sum") -> ColorScale:
    return ColorScale(Measure("x", "X", "", total, scale, tuple(values)), tuple(values))  # type: ignore[arg-type]


def fills(text: str) -> dict[str, str]:
    """The color of each box that has one, by its name."""
    found = {}
    for name, group in boxes(parsed(text)).items():
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        style = rect.get("style", "")
        if style:
            found[name] = style.removeprefix("fill:")
    return found


@given(st.floats(0, 1))
def test_text_can_be_read_anywhere_on_every_ramp(share: float) -> None:
    for scale, total in (("linear", "sum"), ("log", "max"), ("diverging", "max")):
        one = color_scale([1.0, 2.0], scale, total)
        fill = one.color(share)
        ink = {"inked": "#000000", "chalked": "#ffffff"}[one.ink_on(fill)]
        assert contrast(fill, ink) >= 4.5


def test_what_adds_up_becomes_darker_all_the_way() -> None:
    one = color_scale([0.0, 1.0])
    light = [contrast(one.color(i / 20), "#000000") for i in range(21)]
    assert light == sorted(light, reverse=True)
    assert light[0] > 10 > 2 > light[-1]


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True, width=32)), min_size=1, max_size=9))
def test_any_numbers_have_colors_and_the_order_of_the_ramp(values: list[float | None]) -> None:
    for scale in ("linear", "log", "diverging"):
        one = color_scale(values, scale)
        for value, fill in zip(values, one.fills, strict=True):
            is_number = value is not None and math.isfinite(value) and (value > 0 or scale != "log")
            assert (fill is not None) == is_number
        assert all(isinstance(text, str) for text in one.ticks)
        known = [(value, fill) for value, fill in zip(values, one.fills, strict=True) if fill]
        for value, fill in known:
            if scale != "diverging" and len({other for other, _ in known}) > 1:
                assert fill == one.color(0.0) or value != min(other for other, _ in known)
        assert one.has_gaps == (None in one.fills)


def test_a_logarithmic_ramp_has_its_middle_between_in_ratio() -> None:
    one = color_scale([0.01, 1.0, 100.0, 0.0], "log")
    assert one.ticks == ("0.01", "1", "100")
    assert one.fills[1] == one.color(0.5)
    assert one.fills[3] is None
    assert one.title == "X, log scale"


def test_a_diverging_ramp_is_pale_at_zero() -> None:
    one = color_scale([-1.0, 0.0, 4.0], "diverging")
    assert one.ticks == ("-4", "0", "4")
    assert one.fills[1] == one.color(0.5)
    assert contrast(one.fills[1], "#000000") > max(contrast(one.color(end), "#000000") for end in (0.0, 1.0))


def test_one_number_alone_is_in_the_middle() -> None:
    assert color_scale([3.0]).fills == (color_scale([3.0]).color(0.5),)
    assert interpolate(["#000000", "#ffffff"], 0.5) == "#808080"


# drawn


def test_more_bytes_are_darker() -> None:
    trace = perceptron()
    found = fills(trace.draw(color_by="bytes"))
    light = {name: contrast(fill, "#000000") for name, fill in found.items()}
    assert light["linear_2_3"] > light["input_1"] > light["linear_1_1"] == light["relu_1_2"]
    assert "Size of the value, log scale" in legend(parsed(trace.draw(color_by="bytes")))


def test_a_folded_module_has_the_sum_and_with_functions_the_largest() -> None:
    trace = stack()
    whole = {"depth": 1, "color_by": lambda op: {"gelu": 5.0, "layer_norm": 2.0}.get(op.function)}
    found = fills(trace.draw(**whole))
    assert len(set(found.values())) == 1
    assert set(found) == {"blocks.0", "blocks.1", "blocks.2"}
    sizes = legend(parsed(trace.draw(depth=0, color_by="bytes")))
    total = sum(op.bytes for op in trace) + trace.buffers["shift"].bytes
    assert f"{total} B" in sizes


def test_rolled_up_all_passes_and_all_blocks_count() -> None:
    trace = loop()
    cells = {op.full_site: 1.0 for op in trace.select("cell")}
    assert len(cells) == 5
    latest = {f"cell:{n}": float(n) for n in range(1, 6)}
    ticks = legend(parsed(trace.draw(color_by=latest, rolled=True)))
    assert "5" in ticks
    blocks = stack()
    assert len(fills(blocks.draw(depth=1, rolled=True, color_by={"blocks.2.**": 4.0, "stem": 1.0}))) == 2


def test_numbers_come_from_sites_patterns_labels_and_functions() -> None:
    trace = perceptron()
    assert set(fills(trace.draw(color_by={"0": 1.0, "relu_1": 2.0, "2/*": 3.0}))) == {op.label for op in trace}
    by_function = fills(trace.draw(color_by=lambda op: op.value.std() if op.function == "linear" else None))
    assert set(by_function) == {"linear_1_1", "linear_2_3"}
    assert "no number" in legend(parsed(trace.draw(color_by={"0": 1.0})))
    for name in ("seconds", "flops", "mean", "std", "abs_max"):
        assert fills(trace.draw(color_by=name))


def test_a_box_without_a_number_has_no_other_color() -> None:
    text = perceptron().draw(color_by={"1": 1.0})
    assert "bare" in boxes(parsed(text))["linear_1_1"].get("class", "").split()
    assert style_of(["box", "parametric", "leaf", "bare"]).fill == style_of(["box", "plain", "leaf"]).fill
    assert "bare" not in perceptron().draw().partition("</style>")[2]


def test_gradients_have_colors_where_there_are_any() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())
    with cutaway.watch(model) as trace:
        model(torch.ones(2, 3)).sum().backward()
    assert fills(trace.draw(color_by="grad_norm"))


def test_what_is_no_measure_site_or_number_is_refused() -> None:
    trace = perceptron()
    with pytest.raises(InputError, match=r"cannot color this trace by 'secs'.* Available: seconds, flops, bytes"):
        trace.draw(color_by="secs")
    with pytest.raises(SiteError, match="no site matches 'nowhere'"):
        trace.draw(color_by={"nowhere": 1.0})
    with pytest.raises(InputError, match="which is not a number"):
        trace.draw(color_by=lambda op: 10**400)
    with pytest.raises(InputError, match="color_by gave 'much' for 0, which is not a number"):
        trace.draw(color_by={"0": "much"})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="color_by must be the name of a measure"):
        trace.draw(color_by=3)  # type: ignore[arg-type]
