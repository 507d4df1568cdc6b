"""The grammar of sites."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway.core.errors import CutawayError, SiteSyntaxError
from cutaway.core.formatting import nearest
from cutaway.core.pytree import escape
from cutaway.core.sites import Site, named_site, spellings, split_pass

parts = st.text(st.characters(codec="utf-8", exclude_characters="./@:$#*%"), min_size=1, max_size=5)
addresses = st.one_of(st.just("."), st.lists(parts, min_size=1, max_size=4).map(".".join))
paths = st.one_of(st.just(""), st.lists(parts, min_size=1, max_size=3).map(".".join))
counts = st.one_of(st.none(), st.integers(1, 10**6))
units = st.one_of(st.none(), st.integers(0, 10**6))


@st.composite
def sites(draw: st.DrawFn) -> Site:
    if draw(st.booleans()):
        op, ordinal = draw(parts), draw(counts)
        address = draw(st.one_of(addresses, st.just("")))
    else:
        op, ordinal, address = None, None, draw(addresses)
    side = draw(st.sampled_from([None, "in", "out"]))
    path = draw(paths) if side else ""
    return Site(address, op, ordinal, side, path, draw(counts), draw(units))


@given(sites())
def test_reading_what_was_written_gives_the_same_site(site: Site) -> None:
    assert Site.parse(str(site)) == site


@given(parts, counts, units)
def test_reading_the_name_of_a_tensor_gives_the_same_site(name: str, pass_: int | None, unit: int | None) -> None:
    site = Site(name=name, pass_=pass_, unit=unit)
    assert Site.parse(str(site)) == site


@given(st.text(max_size=12))
def test_any_text_is_a_site_that_writes_itself_or_a_syntax_error(text: str) -> None:
    try:
        site = Site.parse(text)
    except SiteSyntaxError:
        with pytest.raises(SiteSyntaxError) as caught:  # also the second time, from the cache
            Site.parse(text)
        assert repr(text) in str(caught.value)
    else:
        assert Site.parse(str(site)) == site


@pytest.mark.parametrize(
    ("text", "site"),
    [
        (".", Site()),
        ("encoder.2.attn", Site("encoder.2.attn")),
        ("encoder.2.attn@out.1", Site("encoder.2.attn", side="out", path="1")),
        ("encoder.2.attn@out.hidden", Site("encoder.2.attn", side="out", path="hidden")),
        ("encoder.2.attn@in.0", Site("encoder.2.attn", side="in", path="0")),
        (".@in.batch.image", Site(side="in", path="batch.image")),
        ("encoder.2.attn/softmax", Site("encoder.2.attn", "softmax")),
        ("encoder.2.attn/softmax.2", Site("encoder.2.attn", "softmax", 2)),
        ("./add", Site(".", "add")),
        ("/add", Site("", "add")),
        ("encoder.2:3", Site("encoder.2", pass_=3)),
        ("encoder.2/relu.2:3", Site("encoder.2", "relu", 2, pass_=3)),
        ("m/max@out.values:2#7", Site("m", "max", None, "out", "values", 2, 7)),
        ("$memory", Site(name="memory")),
        ("$memory#3", Site(name="memory", unit=3)),
        ("encoder.2.mlp#317", Site("encoder.2.mlp", unit=317)),
        ("encoder.*", Site("encoder.*")),
        ("**/softmax", Site("**", "softmax")),
        ("a%2Eb", Site("a%2Eb")),
    ],
)
def test_every_row_of_the_grammar_is_read(text: str, site: Site) -> None:
    assert Site.parse(text) == site
    assert str(site) == text


# matching


def reference_match(pattern: list[str], address: list[str]) -> bool:
    """`**` takes any number of parts, everything else exactly one; tried out by brute force."""
    if not pattern:
        return not address
    if pattern[0] == "**":
        return any(reference_match(pattern[1:], address[i:]) for i in range(len(address) + 1))
    return bool(address) and part_match(pattern[0], address[0]) and reference_match(pattern[1:], address[1:])


def part_match(pattern: str, part: str) -> bool:
    """`*` alone takes one part; inside a part, any number of characters."""
    if pattern == "*":
        return bool(part)
    if not pattern:
        return not part
    if pattern[0] == "*":
        return any(part_match_rest(pattern[1:], part[i:]) for i in range(len(part) + 1))
    return bool(part) and part[0] == pattern[0] and part_match_rest(pattern[1:], part[1:])


def part_match_rest(pattern: str, part: str) -> bool:
    return part_match(pattern, part) if pattern != "*" else True


few_parts = st.sampled_from(["a", "b", "ab", "0", "1"])
pattern_parts = st.one_of(few_parts, st.sampled_from(["*", "**", "a*", "*b", "a*b"]))


@given(st.lists(pattern_parts, min_size=1, max_size=5), st.lists(few_parts, min_size=1, max_size=5))
def test_patterns_match_like_the_brute_force_reference(pattern: list[str], address: list[str]) -> None:
    asked, there = Site.parse(".".join(pattern)), Site.parse(".".join(address))
    assert asked.matches(there) == reference_match(pattern, address)


@given(st.lists(pattern_parts, min_size=1, max_size=4), st.lists(few_parts, min_size=1, max_size=4))
def test_patterns_of_ops_match_address_and_kind_apart(pattern: list[str], address: list[str]) -> None:
    there = Site(".".join(address), "relu", 1, pass_=1)
    assert Site(".".join(pattern), "relu").matches(there) == reference_match(pattern, address)
    assert not Site(".".join(pattern), "gelu").matches(there)


@given(sites())
def test_a_site_without_pattern_matches_itself(site: Site) -> None:
    assert site.matches(site)


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("encoder.**", ["encoder", "encoder.2", "encoder.2/relu", "encoder/add.2:3"], ["decoder", "encoders.1", "."]),
        ("encoder.*", ["encoder.2", "encoder.2@out.1"], ["encoder", "encoder.2.attn", "encoder.2/relu"]),
        ("**", [".", "encoder", "encoder/relu", "./add", "/add"], ["encoder@in.0"]),
        ("*", ["encoder"], [".", "encoder.2", "encoder/relu"]),
        ("**.**", ["a", "a.b", "."], []),
        ("**.attn", ["attn", "h.0.attn"], ["h.attn.0", "h.0.attn/softmax"]),
        ("**/softmax", ["./softmax", "h.0/softmax.2"], ["h.0", "h.0/log_softmax"]),
        ("h.*/*", ["h.0/relu", "h.0/add.3"], ["h/relu", "h.0"]),
        ("h/relu", ["h/relu", "h/relu.2", "h/relu:2"], ["h/relu_6"]),
        ("h/relu.1", ["h/relu", "h/relu.1:2"], ["h/relu.2"]),
        ("h:2", ["h:2", "h@out.0:2"], ["h", "h:1", "h:3"]),
        ("h@in", ["h@in.0", "h@in.mask"], ["h", "h@out.0"]),
        ("h@out.0", ["h@out.0"], ["h", "h@out.1", "h@out.0.1", "h@in.0"]),
        ("h@out.*", ["h@out.0", "h@out.hidden"], ["h@out.0.1"]),
        ("$memory", ["$memory"], ["memory", "$other"]),
    ],
)
def test_patterns_cover_what_the_grammar_says(pattern: str, covered: list[str], not_covered: list[str]) -> None:
    asked = Site.parse(pattern)
    assert [text for text in covered if not asked.matches(Site.parse(text))] == []
    assert [text for text in not_covered if asked.matches(Site.parse(text))] == []


# escaping


@given(st.text(max_size=8), st.text(max_size=8))
def test_different_names_are_escaped_to_different_texts(a: str, b: str) -> None:
    assert (escape(a) == escape(b)) == (a == b)


@given(st.text(max_size=8), st.text(max_size=8))
def test_escaped_names_can_stand_in_any_part_of_a_site(a: str, b: str) -> None:
    site = Site(f"{escape(a)}.{escape(b)}", side="in", path=f"{escape(b)}.{escape(a)}")
    assert Site.parse(str(site)) == site
    assert not site.is_pattern


# errors


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "names no module"),
        ("@in.0", "the root is '.@in.0'"),
        (":2", "the root is '.:2'"),
        ("encoder..attn", "'encoder..attn' has an empty part"),
        (".encoder", "'.encoder' has an empty part"),
        ("encoder@up.0", "'in' or 'out', not 'up'"),
        ("encoder@input", "'in' or 'out', not 'input'"),
        ("encoder@out..1", "'.1' has an empty part"),
        ("encoder:two", "number of a pass, not 'two'"),
        ("encoder#-1", "number of a unit, not '-1'"),
        ("encoder/relu.x", "its ordinal, not 'x'"),
        ("encoder#3:2", "wrong order"),
        ("a/b/c", "wrong order"),
        ("a$b", "'$' is allowed only at the start"),
        ("encoder:0", "passes count from 1"),
        ("encoder/relu.0", "ordinals count from 1"),
        ("encoder#3\n", "number of a unit"),
    ],
)
def test_a_syntax_error_quotes_the_text_and_says_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(SiteSyntaxError) as caught:
        Site.parse(text)
    assert repr(text) in str(caught.value)
    assert why in str(caught.value)


def test_a_syntax_error_shows_how_sites_are_written_and_is_a_value_error() -> None:
    with pytest.raises(ValueError, match=r"module\.address/op\.ordinal@out\.path:pass#unit") as caught:
        Site.parse("a b@@c")
    assert isinstance(caught.value, CutawayError)


@pytest.mark.parametrize("thing", [None, 3, ["encoder"], b"encoder"])
def test_what_is_no_text_is_no_site(thing: object) -> None:
    with pytest.raises(SiteSyntaxError, match=f"of type {type(thing).__name__}"):
        Site.parse(thing)  # type: ignore[arg-type]


def test_near_names_are_offered_best_first_and_each_once() -> None:
    known = ["h.0.mlp", "h.1.mlp", "h.0.mlp", "lm_head", "wte"]
    assert set(nearest("h.*.mpl", known)) == {"h.0.mlp", "h.1.mlp"}
    assert nearest("wte", known)[0] == "wte"
    assert nearest("zzzzzz", known) == []


def test_a_named_tensor_is_found_in_every_spelling() -> None:
    for typed in ("a/b", "a.b/c", "odd name", "a.b/c:2"):
        stored = named_site(split_pass(f"${typed}")[0][1:])
        assert Site.parse(f"${typed}").matches(Site.parse(stored))
        assert stored in {split_pass(each)[0] for each in spellings(f"${typed}")}
        assert not Site.parse(f"${typed}").matches(Site.parse("$other"))
    assert not Site.parse("a").matches(Site.parse("$a"))
    assert not Site.parse("$a").matches(Site.parse("a"))
