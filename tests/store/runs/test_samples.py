"""Samples: what they are comes back as it was handed in."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from cutaway.core.arrays import Raw
from cutaway.core.errors import CutawayError, DamagedError, InputError
from cutaway.store.format.records import Row
from cutaway.store.runs.samples import Samples, packed_samples, read_samples

SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
texts = st.text(st.characters(codec=None), max_size=5)  # half surrogate pairs, too


def fields(n: int) -> st.SearchStrategy[dict[str, Any]]:
    def rows(inside: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(inside, min_size=n, max_size=n)

    numbers = npst.array_shapes(max_dims=3, max_side=3).flatmap(
        lambda shape: npst.arrays(st.sampled_from(["f4", "f8", "i8", "u1", "?", ">i2"]), (n, *shape[1:]))
    )
    some = [
        rows(texts),
        rows(st.lists(texts, max_size=3)),
        rows(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3)),
    ]
    return st.dictionaries(texts, st.one_of(*some, numbers), min_size=1, max_size=3)


@given(st.integers(0, 4).flatmap(lambda n: st.tuples(st.just(n), fields(n))))
@SETTINGS
def test_fields_come_back_as_they_were(given_: tuple[int, dict[str, Any]]) -> None:
    n, written = given_
    samples = read_samples(packed_samples(written))
    assert list(samples.fields) == list(written)
    assert len(samples) == n
    for name, values in written.items():
        found = samples.fields[name]
        if isinstance(values, np.ndarray):
            assert found.dtype == values.dtype.newbyteorder("=")
            assert found.shape == values.shape
            assert found.tobytes() == np.ascontiguousarray(values.astype(found.dtype)).tobytes()
        else:
            assert found == values
    for number in range(n):
        assert list(samples[number]) == list(written)


@given(fields(3), st.data())
@SETTINGS
def test_parts_that_do_not_fit_are_damage(written: dict[str, Any], data: st.DataObject) -> None:
    parts: dict[Row, Raw | None] = dict(packed_samples(written))
    row = data.draw(st.sampled_from(list(parts)))
    shape = data.draw(st.sampled_from([(), (0,), (1,), (3,), (4,), (2, 2), (0, 5)]))
    dtype = data.draw(st.sampled_from(["<i8", "<f4", "u1", "<c8", "?"]))
    number = data.draw(st.sampled_from([0, 1, 100]))
    parts[row] = Raw.of(np.full(shape, number, dtype))
    if data.draw(st.booleans()):
        del parts[data.draw(st.sampled_from(list(parts)))]
    try:
        samples = read_samples(parts)
    except DamagedError:
        return
    for n in range(len(samples)):
        samples[n]
    samples.find("a")


def test_the_usual_fields_have_names_of_their_own() -> None:
    image = np.zeros((2, 4, 4, 3), np.uint8)
    written = {"ids": [[1], [2]], "text": ["a", "b"], "tokens": [["a"], []], "label": np.array([1, 0]), "image": image}
    samples = read_samples(packed_samples(written))
    assert (samples.ids, samples.text, samples.tokens) == ([[1], [2]], ["a", "b"], [["a"], []])
    assert (samples.label.tolist(), samples.image is not None and samples.image.shape) == ([1, 0], (2, 4, 4, 3))
    assert samples[1]["label"] == 0
    assert samples[-2]["text"] == "a"
    with pytest.raises(IndexError, match="no sample 2: this step recorded 2 samples"):
        samples[2]
    empty = Samples()
    assert (len(empty), empty.ids, empty.text, empty.tokens, empty.label, empty.image) == (0, *[None] * 5)


def test_a_text_is_found_in_whichever_field_and_case() -> None:
    written = {"text": ["A Cat", "dog"], "tokens": [["x"], ["c", "at"]], "label": np.array([7, 8])}
    samples = read_samples(packed_samples(written))
    assert (samples.find("cat"), samples.find("DOG"), samples.find("8"), samples.find("zebra")) == (
        [0, 1],
        [1],
        [1],
        [],
    )


@pytest.mark.parametrize(
    "values", ["text", b"bytes", {"a": 1}, np.array(3), 5, None, [object()], [None, "a"], [[1], ["a"]], [[1.5], [1, 2]]]
)
def test_what_is_no_field_is_refused(values: Any) -> None:
    with pytest.raises(InputError, match="the sample field 'x'"):
        packed_samples({"x": values})


def test_fields_must_be_equally_long() -> None:
    with pytest.raises(InputError, match="their lengths are: a 1, b 2"):
        packed_samples({"a": ["x"], "b": ["x", "y"]})
    with pytest.raises(InputError, match="64 bits"):
        packed_samples({"a": [[2**70]]})
    with pytest.raises(CutawayError, match="differ in length"):
        read_samples({**packed_samples({"a": ["x"]}), **packed_samples({"b": ["x", "y"]})})
