"""Numbers in sentences and cells of words: one form for each kind of them, with a true minus."""

from __future__ import annotations

_LEAST = 0.0005
_ROUND = 1e6


def percent(share: float) -> str:
    """A share of 1, as columns of shares write it.

    >>> percent(0.1587), percent(1), percent(0.0001), percent(0), percent(-0.2)
    ('15.9 %', '100.0 %', '< 0.1 %', '0.0 %', '−20.0 %')
    """
    if 0 < share < _LEAST:
        return "< 0.1 %"
    return f"{100 * share:.1f} %".replace("-", "−")


def figures(value: float, n: int = 3) -> str:
    """A number of so many figures; no power of ten before a million.

    >>> figures(554.2), figures(-0.01234), figures(12345.6), figures(2e9), figures(0)
    ('554', '−0.0123', '12,346', '2e9', '0')
    """
    if 10**n <= abs(value) < _ROUND:
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.{n}g}".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-").replace("-", "−")


def fixed(value: float, *, sign: str = "") -> str:
    """A score, all of them with three decimals.

    >>> fixed(1), fixed(-0.0012), fixed(0.25, sign="+")
    ('1.000', '−0.001', '+0.250')
    """
    return f"{value:{sign}.3f}".replace("-", "−")
