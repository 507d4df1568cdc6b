"""Tokens as names: what would not be seen of them is written out, as `web/src/plates/tokens.ts` does."""

from __future__ import annotations

import re

_ENDS = re.compile(r"^ +| +$")


def readable(piece: str) -> str:
    """
    >>> readable(" cat"), readable("a\\n"), readable("")
    ('·cat', 'a↵', '∅')
    """
    if not piece:
        return "∅"
    seen = piece.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "→")
    return _ENDS.sub(lambda spaces: "·" * len(spaces[0]), seen)
