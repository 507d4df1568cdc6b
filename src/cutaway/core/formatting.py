"""Formats numbers, counts, lists and near matches for sentences, tables and labels."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_SMALLEST_SHOWN = 0.0005
_ROUND = 1e6


def plural(n: int, noun: str, nouns: str = "") -> str:
    """A count with its noun.

    >>> plural(1, "site"), plural(2_000, "site"), plural(2, "entry", "entries")
    ('1 site', '2,000 sites', '2 entries')
    """
    return f"{n:,} {noun if n == 1 else nouns or noun + 's'}"


def type_text(value: object) -> str:
    """The type of a value with its article, for error messages.

    >>> type_text(3), type_text([]), type_text(int), type_text(None)
    ('an int', 'a list', 'the class int', 'None')
    """
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def listed(names: Iterable[str], most: int = 4) -> str:
    """Joins names with commas; a long list ends in how many were left out.

    >>> listed("abc"), listed("abcdef")
    ('a, b, c', 'a, b, c, d and 2 more')
    """
    all_names = list(names)
    more = f" and {len(all_names) - most:,} more" if len(all_names) > most else ""
    return ", ".join(all_names[:most]) + more


def numbered(noun: str, numbers: Iterable[int], most: int = 5) -> str:
    """Things by their numbers.

    >>> numbered("row", [3]), numbered("row", range(7))
    ('row 3', 'rows 0, 1, 2, 3, 4 and 2 more')
    """
    texts = [str(int(number)) for number in numbers]
    return f"{noun}{'s' if len(texts) > 1 else ''} {listed(texts, most)}"


def short(text: str, most: int = 44) -> str:
    """Shortens a text in the middle: in an address, both ends matter.

    >>> short("encoder.layers.3.attention.output.dense", 20)
    'encoder.la…put.dense'
    """
    return text if len(text) <= most else f"{text[: most // 2]}…{text[len(text) - most + most // 2 + 1 :]}"


def clipped(line: str, width: int = 100) -> str:
    """Shortens a line at its end.

    >>> clipped("a long line", 8)
    'a long …'
    """
    return line if len(line) <= width else f"{line[: width - 1]}…"


def nearest(asked: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The known names most similar to the one asked for, for error messages.

    >>> nearest("h.*.mpl", ["h.0.mlp", "h.1.mlp", "lm_head"])
    ['h.1.mlp', 'h.0.mlp']
    """
    names = list(dict.fromkeys(known))
    close = get_close_matches(asked, names, n=limit, cutoff=0.5)
    if not close:
        close = [name for name in names if asked.strip("*").lower() in name.lower()][:limit]
    return close


def nearest_hint(asked: str, known: Iterable[str]) -> str:
    """The end of an error message about an unknown site: several similar ones, or nothing.

    >>> nearest_hint("h.*.mpl", ["h.0.mlp", "h.1.mlp", "lm_head"]), nearest_hint("x.y", ["lm_head"])
    (" Nearest: 'h.1.mlp', 'h.0.mlp'.", '')
    """
    close = nearest(asked, known)
    return f" Nearest: {', '.join(map(repr, close))}." if close else ""


def hint(asked: object, known: Iterable[str]) -> str:
    """The end of an error message about an unknown name: the most similar known name, or nothing.

    >>> hint("probless", ["probeless", "linear"]), hint("zzz", ["linear"])
    (" Did you mean 'probeless'?", '')
    """
    close = get_close_matches(str(asked), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def percent(share: float) -> str:
    """Formats a fraction of 1 as a percentage.

    >>> percent(0.1587), percent(1), percent(0.0001), percent(0), percent(-0.2)
    ('15.9 %', '100.0 %', '< 0.1 %', '0.0 %', '−20.0 %')
    """
    if 0 < share < _SMALLEST_SHOWN:
        return "< 0.1 %"
    return f"{100 * share:.1f} %".replace("-", "−")


def figures(value: float, n: int = 3) -> str:
    """Formats a number with `n` significant digits; scientific notation starts at a million.

    >>> figures(554.2), figures(-0.01234), figures(12345.6), figures(2e9), figures(0)
    ('554', '−0.0123', '12,346', '2e9', '0')
    """
    if 10**n <= abs(value) < _ROUND:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{n}g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-").replace("-", "−")


def fixed(value: float, *, sign: str = "") -> str:
    """Formats a score with three decimals.

    >>> fixed(1), fixed(-0.0012), fixed(0.25, sign="+")
    ('1.000', '−0.001', '+0.250')
    """
    # The minus sign U+2212 is as wide as a digit; the hyphen is not.
    return f"{value:{sign}.3f}".replace("-", "−")


def ratio_text(share: float) -> str:
    """Formats a ratio: a percentage below 10, a factor from 10 on, scientific notation where it is tiny.

    >>> ratio_text(0.5), ratio_text(0.034), ratio_text(0.000021), ratio_text(31.0)
    ('50 %', '3.4 %', '2.1e-05', '31 ×')
    """
    if share >= 10:
        return f"{share:.3g} ×"
    if share >= 0.001:
        return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.3g} %"
    return f"{share:.1e}"


def human_bytes(n: float) -> str:
    """Formats a number of bytes.
    >>> human_bytes(1536), human_bytes(3), human_bytes(5e9)
    ('1.5 KB', '3 B', '4.7 GB')
    """
    for unit in ("B", "KB", "MB", "GB"):
        if n < 1024:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1024
    return f"{n:.1f} TB"


def human_number(n: float) -> str:
    """Formats a count with a metric suffix.
    >>> human_number(12), human_number(4_100_000)
    ('12', '4.10 M')
    """
    for unit in ("", " K", " M", " G", " T"):
        if abs(n) < 1000:
            return f"{n:.0f}" if not unit else f"{n:.2f}{unit}"
        n /= 1000
    return f"{n:.2f} P"


def human_seconds(seconds: float) -> str:
    """Formats a duration.
    >>> human_seconds(0.00042), human_seconds(1.5)
    ('420 µs', '1.50 s')
    """
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.1f} ms" if seconds < 1 else f"{seconds:.2f} s"
