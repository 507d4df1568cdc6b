"""Focus: what the picture is about is open and framed, its neighbors are clear, all else is faint and folded."""

from __future__ import annotations

import pytest
from tests.views.draw.test_draw import MODELS
from tests.views.draw.test_svg import boxes, parsed
from tests.views.nets import loop, perceptron, stack

from cutaway.core.errors import SiteError
from cutaway.layout.focus import box_keys
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.views.graph.from_trace import graph_view


def classes(text: str) -> dict[str, set[str]]:
    return {name: set(group.get("class", "").split()) for name, group in boxes(parsed(text)).items()}


def framed(text: str) -> set[str]:
    return {name for name, own in classes(text).items() if "focused" in own}


def clear(text: str) -> set[str]:
    return {name for name, own in classes(text).items() if "faint" not in own}


def test_what_is_in_focus_is_framed_its_neighbors_are_clear_and_the_rest_is_faint() -> None:
    trace = perceptron()
    text = trace.draw(focus="relu_1")
    assert framed(text) == {"relu_1_2"}
    assert clear(text) == {"linear_1_1", "relu_1_2", "linear_2_3"}
    assert "input_1" in classes(text)
    assert "1 in focus of 3 ops" in text


def test_modules_around_it_are_opened_and_all_others_folded() -> None:
    trace = stack()
    text = trace.draw(focus="blocks.1.inner.1")
    names = classes(text)
    assert framed(text) == {trace["blocks.1.inner.1"].label}
    assert {"blocks.0", "blocks.2"} <= set(names)
    assert "blocks.1" not in names
    assert "faint" in names["blocks.0"]
    assert clear(text) == {trace[site].label for site in ("blocks.1.inner.0", "blocks.1.inner.1", "blocks.1.inner.2")}


def test_a_folded_neighbor_is_clear() -> None:
    trace = stack()
    text = trace.draw(focus="blocks.1.norm")
    assert "blocks.0" in clear(text)
    assert "blocks.2" not in clear(text)


def test_depth_opens_more() -> None:
    trace = stack()
    assert len(classes(trace.draw(focus="stem", depth=3))) > len(classes(trace.draw(focus="stem")))


def test_whatever_select_takes_can_be_in_focus() -> None:
    trace = stack()
    gelus = {op.label for op in trace if op.function == "gelu"}
    for focus in (trace.select(function="gelu"), lambda op: op.function == "gelu", sorted(gelus)):
        assert framed(trace.draw(focus=focus)) == gelus
    with pytest.raises(SiteError, match="no site matches 'nowhere'"):
        trace.draw(focus="nowhere")


def test_rolled_up_the_box_that_stands_for_it_is_opened_and_framed() -> None:
    trace = stack()
    text = trace.draw(focus="blocks.2.inner.1", rolled=True)
    assert framed(text) == {trace["blocks.0.inner.1"].label}
    once = loop()
    assert len(framed(once.draw(focus="cell:3", rolled=True))) == 1


@pytest.mark.parametrize("rolled", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_every_node_is_in_a_box_of_the_picture_and_every_box_holds_one(name: str, rolled: bool) -> None:
    view = graph_view(MODELS[name]())
    for depth in (None, 0, 1, 2):
        how = fold_to_depth(view, depth, rolled=rolled)
        drawn = {box.key for box in fold(view, how).boxes if not box.stands_for}
        assert set(box_keys(view, how)) == drawn
