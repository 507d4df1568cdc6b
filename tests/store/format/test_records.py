"""Records: packed and read again they are the same, and a field that is not what it should be is an error."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.mutations import changed, nasty, paths

from cutaway.core.arrays import DTYPES
from cutaway.core.errors import DamagedError
from cutaway.store.format.passes import primary_names
from cutaway.store.format.records import (
    MOST_CELLS,
    Block,
    BlockRecord,
    Layout,
    Loss,
    Note,
    Points,
    Row,
    ScalarsRecord,
    Schema,
    Seal,
    Session,
    StepRecord,
)

SETTINGS = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
counts = st.integers(0, 2**63 - 1)
texts = st.text(max_size=8)
times = st.floats(allow_nan=False)
about = st.dictionaries(texts, st.one_of(st.none(), st.integers(0, 9), texts, st.lists(texts, max_size=2)), max_size=2)
rows = st.builds(Row, texts, texts, counts, texts, texts, texts, st.lists(texts, max_size=2).map(tuple))
blocks = st.builds(Block, counts, counts, counts, st.binary(max_size=8))


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    n = draw(st.integers(0, 4))
    numbers = st.lists(st.integers(0, 2**32 - 1), min_size=n, max_size=n)
    dtypes = st.lists(st.sampled_from(sorted(DTYPES)), min_size=n, max_size=n)
    shapes = st.lists(st.lists(st.integers(0, 99), max_size=5).map(tuple), min_size=n, max_size=n)
    return Layout(draw(counts), draw(counts), *(tuple(draw(part)) for part in (numbers, dtypes, shapes)))


RECORDS: dict[type[Any], st.SearchStrategy[Any]] = {
    Schema: st.builds(Schema, counts, st.lists(rows, max_size=3).map(tuple), st.lists(texts, max_size=3).map(tuple),
                      st.sampled_from(["float32", "float64"])),
    Layout: layouts(),
    StepRecord: st.builds(StepRecord, counts, texts, times, times, counts,
                          st.none() | st.tuples(counts, counts, counts), st.none() | blocks, about),
    BlockRecord: st.builds(BlockRecord, texts, blocks, about),
    Note: st.builds(Note, texts, st.none() | counts, times, texts, about),
    Seal: st.builds(Seal, counts, st.booleans(), counts, counts,
                    st.dictionaries(texts, st.binary(max_size=8), max_size=2)),
    Loss: st.builds(Loss, texts, st.lists(counts, max_size=3).map(tuple), texts, times),
    Session: st.builds(Session, counts, texts, counts, texts, counts, counts, times),
}  # fmt: skip


def through(record: Any) -> Any:
    return msgpack.unpackb(msgpack.packb(record), strict_map_key=False)


@pytest.mark.parametrize("type_", RECORDS, ids=lambda type_: type_.__name__)
def test_a_record_is_the_same_after_it_was_packed(type_: type[Any]) -> None:
    @given(RECORDS[type_])
    @SETTINGS
    def check(record: Any) -> None:
        assert type_.read(through(record.to_record())) == record
        assert type_.read({**through(record.to_record()), "of a later version": 1}) == record

    check()


@pytest.mark.parametrize("type_", RECORDS, ids=lambda type_: type_.__name__)
def test_a_field_that_is_not_what_it_should_be_is_an_error_of_ours(type_: type[Any]) -> None:
    @given(RECORDS[type_], st.data())
    @SETTINGS
    def check(record: Any, data: st.DataObject) -> None:
        fields = through(record.to_record())
        path = data.draw(st.sampled_from(list(paths(fields))))
        fields = changed(fields, path, data.draw(nasty), drop=data.draw(st.booleans()))
        try:
            type_.read(fields)
        except DamagedError as error:
            assert len(str(error)) < 1000  # noqa: PT017

    check()


def test_scalars_are_the_same_after_they_were_packed() -> None:
    points = Points(np.array([3, 5]), np.array([np.nan, -np.inf]), np.array([0.5, 1.0]))
    found = ScalarsRecord.read(through(ScalarsRecord({"loss": points}).to_record())).points["loss"]
    assert found.steps.tolist() == [3, 5]
    assert found.values.tobytes() == points.values.tobytes()
    assert found.elapsed.tolist() == [0.5, 1.0]


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ([b"", b""], "wrong fields"),
        ([b"", b"1234", b""], "packed numbers"),
        ([bytes(8), b"", b""], "differ in length"),
        ([b"\xff" * 8, bytes(8), bytes(8)], "step -1 of a scalar is below 0"),
        ({}, "wrong fields"),
    ],
)
def test_scalars_that_do_not_fit_are_refused(fields: object, why: str) -> None:
    with pytest.raises(DamagedError, match=why):
        ScalarsRecord.read({"series": {"loss": fields}})


def test_errors_show_what_they_found_in_short() -> None:
    with pytest.raises(DamagedError) as raised:
        Note.read({"text": bytes(50 << 20)})
    assert len(str(raised.value)) < 200


def test_a_matrix_has_its_bounds() -> None:
    wide = [str(n) for n in range(MOST_CELLS // 1000 + 1)]
    record = {"type": "schema", "id": 1, "rows": [["x"]] * 1000, "statistics": wide, "dtype": "float32"}
    with pytest.raises(DamagedError, match="exceed the limit 2,097,152"):
        Schema.read(record)
    assert Schema.read({**record, "statistics": wide[1:]}).matrix_bytes <= 4 * MOST_CELLS


def test_a_tensor_is_found_by_its_own_name_before_another_ones_further_name() -> None:
    schema = Schema(1, (Row("a", names=("b", "c")), Row("b"), Row("b", "grad"), Row("text", "sample/bytes")))
    assert [schema.row_number(name, "value", 0) for name in ("b", "c", "a:1", "a:2")] == [1, 0, 0, None]
    assert schema.row_number("text", "sample/bytes", 0) is None, "what the samples are is no tensor"
    assert primary_names([schema.tensors]) == {"a": "a", "b": "b", "c": "a"}
