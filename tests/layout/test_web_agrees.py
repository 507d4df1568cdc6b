"""What is computed in Python and in the browser is the same: the place of everything in a picture.

Each kind of result has a test of its own; `in_typescript` takes all its cases at once, for Node is slow to start.
"""

from __future__ import annotations

import random
from typing import Any, get_args

import numpy as np
import pytest
import torch
from tests.layout.test_fold import nested_runs, stack_of_blocks
from tests.layout.web import in_typescript
from tests.views.graphs import random_fold
from tests.views.pictures import random_graph, random_picture
from tests.zoo import ZOO

import cutaway
from cutaway.layout.fold import fold, fold_to_depth
from cutaway.layout.graph_view import Fold, GraphView, plain
from cutaway.layout.picture import Box, Edge, Frame, Picture
from cutaway.layout.place import Direction, Placement, place
from cutaway.views.diff.diff_graph import diff_view
from cutaway.views.graph.from_trace import graph_view, picture

MODELS = [
    "cnn",
    "gpt2",
    "bert",
    "t5",
    "interleaved_loops",
    "buffers",
    "mixture_of_experts",
    "conditionals",
    "attention",
]
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)


def numbers(placed: Any) -> tuple[list[float], list[object]]:
    """All coordinates in one list, all else in another; of a placement or of what JSON made of it."""
    rect, line = ("x", "y", "width", "height"), ("parent", "child", "frame", "is_feedback")

    def of(thing: Any, names: tuple[str, ...]) -> list[Any]:
        return [thing[name] if isinstance(thing, dict) else getattr(thing, name) for name in names]

    width, height, boxes, frames, lines = of(placed, ("width", "height", "boxes", "frames", "lines"))
    where = [width, height, *(number for thing in (*boxes, *frames) for number in of(thing, rect))]
    what: list[object] = [len(boxes), len(frames)]
    for drawn in lines:
        (points,) = of(drawn, ("points",))
        where += [coordinate for point in points for coordinate in point]
        what.append((len(points), *of(drawn, line)))
    return where, what


def check_same(python: Placement, typescript: Any) -> None:
    (where, what), (web_where, web_what) = numbers(python), numbers(typescript)
    assert what == web_what
    np.testing.assert_allclose(where, web_where, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore")
def test_everything_has_the_same_place_in_python_and_in_the_browser() -> None:
    pictures: list[Picture] = [random_picture(seed, n_back=seed % 3 * 4) for seed in range(24)]
    pictures += [random_picture(seed, 150) for seed in range(4)]
    for name in [name for name in MODELS if name in ZOO]:
        torch.manual_seed(0)
        model, args, kwargs = ZOO[name]()
        trace = cutaway.trace(model, *args, **kwargs)
        pictures += [picture(trace, depth=depth, rolled=rolled) for depth in (None, 1, 2) for rolled in (False, True)]
    pictures.append(Picture("nothing", "", (), (Frame("", "", -1),), ()))
    pictures.append(
        Picture("odd", "", (Box("n0", ("𝛼→β",), "plain", "leaf", 0),), (Frame("", "", -1),), (Edge(0, 0, "𝛽"),))
    )
    cases = [(drawn, direction) for drawn in pictures for direction in DIRECTIONS]
    assert sum(any(edge.is_feedback for edge in drawn.edges) for drawn in pictures) > 15
    for (drawn, direction), found in zip(cases, in_typescript([("place", case) for case in cases]), strict=True):
        check_same(place(drawn, direction), found)


def test_what_the_browser_keeps_of_the_last_picture_changes_nothing_in_the_next() -> None:
    cases = []
    for seed in range(6):
        rng = random.Random(seed)
        graph = random_graph(rng, 60, n_back=seed % 2 * 5)
        opened: set[int] = set()
        pictures = []
        for _ in range(12):
            opened ^= {rng.randrange(len(graph.parent))}
            pictures.append(graph.picture(opened))
        cases.append((pictures, DIRECTIONS[seed % 2]))
    found = in_typescript([("placeInTurn", case) for case in cases])
    for (pictures, direction), places in zip(cases, found, strict=True):
        for drawn, web in zip(pictures, places, strict=True):
            check_same(place(drawn, direction), web)


@pytest.mark.filterwarnings("ignore")
def test_what_is_shown_of_a_graph_is_the_same_in_python_and_in_the_browser() -> None:
    views = [stack_of_blocks(), nested_runs()]
    for name in [name for name in MODELS if name in ZOO]:
        model, args, kwargs = ZOO[name]()
        views.append(graph_view(cutaway.trace(model, *args, **kwargs)))
    a, b = (cutaway.trace(ZOO[name]()[0], *ZOO["cnn"]()[1]) for name in ("cnn", "cnn"))
    views.append(diff_view(cutaway.diff(a, b)))
    cases: list[tuple[GraphView, Fold]] = []
    for view in views:
        cases += [
            (view, fold_to_depth(view, depth, rolled=rolled)) for depth in (None, 0, 2) for rolled in (False, True)
        ]
        cases += [(view, random_fold(view, seed)) for seed in range(6)]
    for (view, how), found in zip(cases, in_typescript([("fold", case) for case in cases]), strict=True):
        drawn = plain(fold(view, how))
        assert {part: found[part] for part in ("boxes", "frames", "edges")} == {
            part: drawn[part] for part in ("boxes", "frames", "edges")
        }
