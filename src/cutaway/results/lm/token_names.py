"""Token texts as names: whitespace becomes visible, as in `web/src/pages/tokens.ts`."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ENDS = re.compile(r"^ +| +$")
_MOST_TITLED = 3


def readable(piece: str) -> str:
    """
    >>> readable(" cat"), readable("a\\n"), readable("")
    ('·cat', 'a↵', '∅')
    """
    if not piece:
        return "∅"
    seen = piece.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "→")
    return _ENDS.sub(lambda spaces: "·" * len(spaces[0]), seen)


def quoted(piece: str) -> str:
    """A token inside a sentence, in quotation marks.

    >>> quoted(","), quoted(" 1")
    ('“,”', '“·1”')
    """
    return f"“{readable(piece)}”"


def contrast_question(targets: Sequence[str], contrast: Sequence[str]) -> str:
    """The question that a contrast asks, for titles.

    >>> contrast_question([" are"], [" is"]), contrast_question([" are", ":"], [" is", " is"])
    ('Why ·are rather than ·is?', 'Why … rather than ·is?')
    >>> contrast_question(["a", "b"], ["c", "d"])
    'Why a, b rather than c, d?'
    """
    names, others = (list(dict.fromkeys(readable(piece) for piece in each)) for each in (targets, contrast))
    if len(others) > _MOST_TITLED:
        return "Why … rather than others?"
    is_short = len(names) <= (_MOST_TITLED if len(others) > 1 else 1)
    return f"Why {', '.join(names) if is_short else '…'} rather than {', '.join(others)}?"
