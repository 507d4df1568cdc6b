"""Estimates the size of text in a monospaced font by counting characters."""

from __future__ import annotations

from typing import Final

from cutaway.layout.picture import IF, Box

EM: Final = 0.62
"""Width of a character in units of the font size; a little more than common monospaced fonts need."""
NAME: Final = 12
LINE: Final = 11
SMALL: Final = 9
PAD: Final = 10.0
LEAD: Final = 15.0
"""Line height."""


def box_size(box: Box) -> tuple[float, float]:
    """Width and height of the text of a box."""
    if box.form == "small":
        longest = max(len(line) for line in box.lines)
        return longest * LINE * EM + 12, LEAD * len(box.lines) + 5
    longest_width = max(len(line) * (LINE if i else NAME) * EM for i, line in enumerate(box.lines))
    return longest_width + 2 * PAD + (8 if box.form in ("function", "folded") else 0), LEAD * len(box.lines) + PAD


def label_width(label: str) -> float:
    """Width of the label of an edge."""
    return len(label) * SMALL * EM + (8 if label.startswith(IF) else 0)


def title_width(title: str) -> float:
    """Width of the title of a frame."""
    return len(title) * LINE * EM
