"""The grammar of sites: the names of tensors inside a model.

    encoder.2.attn            the output of that module
    encoder.2.attn@out.1      the second tensor it returned; @out.hidden by name
    encoder.2.attn@in.0       its first input tensor
    encoder.2.attn/softmax.2  the second softmax called directly in it
    …:3                       the third pass of a module or op that ran more than once
    …#317                     one unit
    $memory, $train/loss      a tensor that you named
    .                         the root module

`*` matches one part of a path, `**` any number of parts; ordinals and passes count from 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from cutaway.core.errors import SiteSyntaxError
from cutaway.core.pytree import escape

ROOT = "."

# `[0-9]` instead of `\d`, which also matches the digits of other scripts.
_GRAMMAR = re.compile(
    r"""(?:\$(?P<name>[^@:\#$]+)
        | (?P<address>[^/@:\#$]*)
          (?:/(?P<op>[^./@:\#$]+)(?:\.(?P<ordinal>[0-9]+))?)?
        )
        (?:@(?P<side>in|out)(?:\.(?P<path>[^/@:\#$]+))?)?
        (?::(?P<pass>[0-9]+))?
        (?:\#(?P<unit>[0-9]+))?""",
    re.VERBOSE,
)
_GRAMMAR_HINT = "Write module.address/op.ordinal@out.path:pass#unit; only the first part is required"


@dataclass(frozen=True, slots=True)
class Site:
    """A parsed site; `str(site)` turns it back into text.

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
        """Parses a site; the error says which part is wrong.

        Args:
            text: a site, such as `encoder.2.attn/softmax:3`.
        """
        if not isinstance(text, str):
            raise SiteSyntaxError(
                f"{text!r} is of type {type(text).__name__}, and a site is a string. {_GRAMMAR_HINT}."
            )
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
        """Whether it contains `*` or `**`."""
        return "*" in self.address or "*" in (self.op or "") or "*" in self.path

    def without_unit(self) -> Site:
        """The same site without its unit."""
        return replace(self, unit=None)

    def matches(self, other: Site) -> bool:
        """Whether this site, used as a pattern, matches the fully specified site `other`.

        Parts that this site omits (ordinal, pass, side) match anything.

        >>> Site.parse("encoder.**").matches(Site.parse("encoder.2.attn/softmax:3"))
        True
        >>> Site.parse("encoder.*").matches(Site.parse("encoder.2.attn"))
        False
        """
        if self.name is not None or other.name is not None:
            return self.name is not None and other.name in name_spellings(self.name)
        if self.op is None:
            fits = other.op is None or self.covers_ops
        else:
            fits = other.op is not None and self.covers_op(other.op) and self.ordinal in (None, other.ordinal or 1)
        return (
            fits
            and self.pass_ in (None, other.pass_ or 1)
            and (self.side or "out") == (other.side or "out")
            and self.covers_address(other.address)
            and self.covers_path(other.path)
        )

    @property
    def covers_ops(self) -> bool:
        """Whether it also matches the ops inside the modules it matches: it ends in `**`."""
        return self.op is None and (self.address == "**" or self.address.endswith(".**"))

    def covers_address(self, address: str) -> bool:
        """Whether its address, used as a pattern, matches `address`."""
        return bool(_glob(self.address).fullmatch(address)) if "*" in self.address else self.address == address

    def covers_op(self, kind: str) -> bool:
        """Whether its op, used as a pattern, matches this kind of op."""
        return self.op is not None and bool(_glob(self.op).fullmatch(kind))

    def covers_path(self, path: str) -> bool:
        """Whether its path into the arguments or results, used as a pattern, matches `path`; no path matches all."""
        return not self.path or bool(_glob(self.path).fullmatch(path))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Site:
    match = _GRAMMAR.fullmatch(text)
    if match is None or not _is_whole(match):
        raise SiteSyntaxError(f"{text!r} is not a site: {_mistake(text)}. {_GRAMMAR_HINT}.")
    part = match.groupdict()
    for counted, what in (("ordinal", "ordinals"), ("pass", "passes")):
        if part[counted] and int(part[counted]) == 0:
            raise SiteSyntaxError(f"{text!r} is not a site: {what} count from 1, and this one is 0.")
    return Site(
        address=part["address"] if part["address"] is not None else ROOT,
        op=part["op"],
        ordinal=int(part["ordinal"]) if part["ordinal"] else None,
        side=part["side"],
        path=part["path"] or "",
        pass_=int(part["pass"]) if part["pass"] else None,
        unit=int(part["unit"]) if part["unit"] else None,
        name=part["name"],
    )


def _is_whole(match: re.Match[str]) -> bool:
    """Whether no part between the dots is empty; an op outside all modules has no address."""
    address, path = match["address"], match["path"]
    outside = match["name"] is not None or (not address and match["op"] is not None)
    return (outside or _is_dotted(address)) and (not path or all(path.split(".")))


def _is_dotted(address: str) -> bool:
    """Whether an address is the root or dot-separated parts, none of them empty."""
    return address == ROOT or all(address.split("."))


def _mistake(text: str) -> str:
    """The most likely mistake in a text that is not a site."""
    if not text or text[0] in "@:#":
        return f"it names no module; the root is {ROOT + text!r}"
    address = re.split("[/@:#$]", text)[0]
    if address and not _is_dotted(address):
        return f"the address {address!r} has an empty part"
    path = re.search(r"@(?:in|out)\.?([^/@:#]*)", text)
    if path and path[1] and not all(path[1].split(".")):
        return f"the path {path[1]!r} has an empty part"
    side = re.search(r"@(?!(?:in|out)(?:[.:#]|$))([^.:#/]*)", text)
    if side:
        return f"'@' must be followed by 'in' or 'out', not {side[1]!r}"
    if "$" in text[1:]:
        return "'$' is allowed only at the start, before the name of a tensor"
    for sign, what in ((":", "pass"), ("#", "unit")):
        number = re.search(rf"{sign}([^/@:#]*)", text)
        if number and not re.fullmatch("[0-9]+", number[1]):
            return f"{sign!r} must be followed by the number of a {what}, not {number[1]!r}"
    ordinal = re.search(r"/[^./@:#]+\.([^/@:#]*)", text)
    if ordinal and not re.fullmatch("[0-9]+", ordinal[1]):
        return f"the name of an op must be followed by its ordinal, not {ordinal[1]!r}"
    return "its parts are in the wrong order or repeated"


@lru_cache(maxsize=4096)
def _glob(pattern: str) -> re.Pattern[str]:
    """Compiles a dotted pattern to a regular expression; `**` also matches zero parts."""
    parts = pattern.split(".")
    if set(parts) == {"**"}:
        return re.compile(r".*", re.DOTALL)  # also matches the root, and ops outside all modules
    out = ""
    begun = False  # whether a part precedes, so that the next one needs a dot
    for part in parts:
        if part == "**":
            out += r"(?:\.[^.]+)*" if begun else r"(?:[^.]+\.)*"
            continue
        literal = "[^.]+" if part == "*" else re.escape(part).replace(r"\*", "[^.]*")
        out += rf"\.{literal}" if begun else literal
        begun = True
    return re.compile(out, re.DOTALL)


def named_site(name: str) -> str:
    """The site of a tensor that the user named. A slash and a space stay as typed; `escape` has the other characters.

    >>> named_site("train/loss"), named_site("a.b")
    ('$train/loss', '$a%2Eb')
    """
    return "$" + escape(name).replace("%2F", "/").replace("%20", " ")


def spellings(site: str) -> tuple[str, ...]:
    """A site as typed and, for a named tensor, as this and earlier versions store it.

    >>> spellings("$a.b/c:2")
    ('$a.b/c:2', '$a%2Eb/c:2', '$a%2Eb%2Fc:2')
    """
    if not site.startswith("$"):
        return (site,)
    base, pass_ = split_pass(site)
    end = "" if base == site else f":{pass_}"
    return tuple(dict.fromkeys((site, *(f"${name}{end}" for name in name_spellings(base[1:])))))


@lru_cache(maxsize=4096)
def name_spellings(name: str) -> tuple[str, ...]:
    """The name of a tensor as typed, and as this and earlier versions store it.

    >>> name_spellings("a.b/c")
    ('a.b/c', 'a%2Eb/c', 'a%2Eb%2Fc')
    """
    return tuple(dict.fromkeys((name, named_site(name)[1:], escape(name))))


@lru_cache(maxsize=1 << 16)
def split_pass(text: str) -> tuple[str, int]:
    """Splits the name of a recorded tensor into its site and its pass, which is 1 if not given.

    >>> split_pass("cell@out.1:2"), split_pass("cell"), split_pass("no: site")
    (('cell@out.1', 2), ('cell', 1), ('no: site', 1))
    """
    name, colon, number = text.rpartition(":")
    # A pass number has at most nine digits: longer ones are part of the name.
    if not colon or not re.fullmatch("[0-9]{1,9}", number):
        return text, 1
    try:
        pass_ = Site.parse(text).pass_
    except SiteSyntaxError:
        return text, 1
    return (text, 1) if pass_ is None else (name, pass_)
