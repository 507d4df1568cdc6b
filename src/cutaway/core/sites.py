"""Sites: the one grammar in which a tensor inside a computation is named.

    encoder.2.attn            what that module returned
    encoder.2.attn@out.1      the second tensor it returned; @out.hidden by name
    encoder.2.attn@in.0       the first tensor handed to it
    encoder.2.attn/softmax.2  the second softmax executed directly in it
    …:3                       the third pass of a module or op that ran more than once
    …#317                     one unit of it
    $memory                   a tensor the user named
    .                         the root module

`*` stands for one path part, `**` for any number of them; ordinals and passes count from 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import lru_cache

from cutaway.core.errors import SiteSyntaxError

ROOT = "."

_GRAMMAR = re.compile(
    r"""^(?:\$(?P<name>[^/@:\#]+)
        | (?P<address>[^/@:\#$]*)
          (?:/(?P<op>[^./@:\#$]+)(?:\.(?P<ordinal>\d+))?)?
        )
        (?:@(?P<side>in|out)(?P<path>(?:\.[^/@:\#$]+)?))?
        (?::(?P<pass>\d+))?
        (?:\#(?P<unit>\d+))?$""",
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Site:
    """One parsed site. `str(site)` writes it again.

    >>> Site.parse("encoder.2.attn/softmax.2:3#7")
    Site(address='encoder.2.attn', op='softmax', ordinal=2, side=None, path='', pass_=3, unit=7, name=None)
    """

    address: str = ROOT
    op: str | None = None
    ordinal: int | None = None
    side: str | None = None
    path: str = ""
    pass_: int | None = None
    unit: int | None = None
    name: str | None = None

    @staticmethod
    def parse(text: str) -> Site:
        """Read a site, or say what is wrong with it."""
        return _parse(text)

    def __str__(self) -> str:
        if self.name is not None:
            head = f"${self.name}"
        else:
            head = self.address
            if self.op is not None:
                head += f"/{self.op}"
                if self.ordinal is not None:
                    head += f".{self.ordinal}"
        if self.side is not None:
            head += f"@{self.side}" + (f".{self.path}" if self.path else "")
        if self.pass_ is not None:
            head += f":{self.pass_}"
        if self.unit is not None:
            head += f"#{self.unit}"
        return head

    @property
    def is_pattern(self) -> bool:
        """Whether `*` or `**` occurs in it."""
        return "*" in self.address or "*" in (self.op or "") or "*" in self.path

    def without_unit(self) -> Site:
        """The same site for all units."""
        return replace(self, unit=None)

    def matches(self, other: Site) -> bool:
        """Whether this site, read as a pattern, covers the fully written site `other`.

        What is left open here (ordinal, pass, side) covers all.

        >>> Site.parse("encoder.**").matches(Site.parse("encoder.2.attn/softmax:3"))
        True
        >>> Site.parse("encoder.*").matches(Site.parse("encoder.2.attn"))
        False
        """
        if self.name is not None or other.name is not None:
            return self.name == other.name
        if self.pass_ is not None and self.pass_ != (other.pass_ or 1):
            return False
        if self.op is None:
            if other.op is not None and not _covers_ops(self.address):
                return False
            if not _glob(self.address).match(other.address):
                return False
        else:
            if other.op is None or not _glob(self.op).match(other.op):
                return False
            if self.ordinal is not None and self.ordinal != (other.ordinal or 1):
                return False
            if not _glob(self.address).match(other.address):
                return False
        if self.side is None:
            return other.side != "in"
        if self.side != (other.side or "out"):
            return False
        return not self.path or bool(_glob(self.path).match(other.path))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Site:
    found = _GRAMMAR.match(text)
    if not isinstance(text, str) or not text or found is None:
        raise SiteSyntaxError(
            f"{text!r} is not a site: write module.address/op.ordinal@out.path:pass#unit, each part but the first optional."
        )
    part = found.groupdict()
    return Site(
        address=part["address"] if part["address"] is not None else "",
        op=part["op"],
        ordinal=int(part["ordinal"]) if part["ordinal"] else None,
        side=part["side"],
        path=(part["path"] or "").lstrip("."),
        pass_=int(part["pass"]) if part["pass"] else None,
        unit=int(part["unit"]) if part["unit"] else None,
        name=part["name"],
    )


def _covers_ops(address: str) -> bool:
    """A pattern that ends in `**` reaches into the modules it covers."""
    return address == "**" or address.endswith(".**")


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    """A regular expression for a dotted pattern; `**` may also stand for no part at all."""
    if pattern == "**":
        return re.compile(r".*\Z", re.DOTALL)
    out = ""
    for i, part in enumerate(pattern.split(".")):
        if part == "**":
            out += r"(?:[^.]+\.)*" if i == 0 else r"(?:\.[^.]+)*"
        else:
            literal = re.escape(part).replace(r"\*", "[^.]*")
            out += literal if i == 0 or out.endswith(r"\.)*") else rf"\.{literal}"
    return re.compile(out + r"\Z", re.DOTALL)


def nearest(asked: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """The names most like the one asked for, for error messages.

    >>> nearest("h.*.mpl", ["h.0.mlp", "h.1.mlp", "lm_head"])
    ['h.1.mlp', 'h.0.mlp']
    """
    names = list(dict.fromkeys(known))
    close = get_close_matches(asked, names, n=limit, cutoff=0.5)
    if not close:
        close = [name for name in names if asked.strip("*").lower() in name.lower()][:limit]
    return close
