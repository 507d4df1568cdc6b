"""A result is read back as it was saved; what is not one, or not whole, says so."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import UserDict
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests import ROOT
from tests.store.saved_results import Dip, Lens, Peak, names, ranking, same
from tests.views.pages.example_pages import every_block

import cutaway
from cutaway.core.errors import DamagedError, ExistsError, InputError, StoreError, VersionError
from cutaway.results.neurons.ranking import Ranking, ranked
from cutaway.store.format.frames import decode, encode
from cutaway.store.reading.archive import Archive
from cutaway.store.results import result_file
from cutaway.store.results.result_file import (
    REGISTRY,
    Registered,
    class_of,
    decode_result,
    encode_result,
    read_description,
    save,
)
from cutaway.store.results.types import fields_of
from cutaway.store.verification.verify import verify
from cutaway.store.writing.writer import Writer
from cutaway.views.pages.model import Column, Page, Section, Table

LENS = {**REGISTRY, "Lens": Registered("tests.store.saved_results", "language")}
"""One line more, as a new result needs it."""


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_file, "REGISTRY", LENS)


def again(result: Any) -> Any:
    """What is read of a result, by way of bytes."""
    document, arrays = encode_result(result)
    record = encode({"type": "document", "content": document})
    n = int.from_bytes(record[4:8], "little")
    return decode_result(decode(record[12 : 12 + n])["content"], arrays.__getitem__)


TEXTS = st.text(max_size=8)
FLOATS = st.floats()
LABELS = st.one_of(
    TEXTS, st.booleans(), st.integers(), st.floats(allow_nan=False), st.none(),
    st.integers(-5, 5).map(np.int32), st.floats(width=32, allow_nan=False).map(np.float32), TEXTS.map(np.str_),
    st.booleans().map(np.bool_),
)  # fmt: skip
PLAIN = st.recursive(
    st.one_of(LABELS, FLOATS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(LABELS, inner, max_size=3),
    ),
    max_leaves=8,
)
DTYPES = st.one_of(
    *(hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes()),
    hnp.complex_number_dtypes(sizes=(64, 128)),
).filter(lambda dtype: dtype.itemsize <= 16 and dtype.name not in ("float128", "longdouble"))
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)).map(
    lambda array: array.astype(array.dtype.newbyteorder("="))
)
LEAVES = st.builds(
    Lens,
    scores=ARRAYS,
    chosen=st.none() | ARRAYS,
    tokens=st.lists(st.lists(TEXTS, max_size=3).map(tuple), max_size=3).map(tuple),
    pair=st.tuples(st.integers(), TEXTS),
    kind=st.sampled_from(["logits", "tuned"]),
    marks=st.lists(st.builds(Peak, st.integers(), FLOATS) | st.builds(Dip, st.integers(), st.none())),
    labels=st.lists(LABELS, max_size=3).map(tuple),
    by_name=st.dictionaries(TEXTS, st.lists(st.integers()).map(tuple), max_size=3),
    more=PLAIN,
)
LENSES = st.builds(lambda lens, parts: replace(lens, parts=parts), LEAVES, st.dictionaries(LABELS, LEAVES, max_size=2))


@settings(max_examples=60)
@given(LENSES)
def test_any_result_comes_back_as_it_was_and_no_array_is_written_to(lens: Lens) -> None:
    found = again(lens)
    assert same(found, lens)
    assert not found.scores.flags.writeable


def test_an_array_in_any_order_of_bytes_and_axes_comes_back_with_its_numbers(tmp_path: Path) -> None:
    scores = np.arange(24, dtype=">f4").reshape(2, 3, 4).transpose(2, 0, 1)[::-1]
    Lens(scores, scores[0] > 3, (("a",), ()), (1, "b")).save(tmp_path / "lens")
    found = cutaway.load(tmp_path / "lens")
    assert isinstance(found, Lens)
    assert found.scores.dtype == np.float32
    np.testing.assert_array_equal(found.scores, scores)
    np.testing.assert_array_equal(found.chosen, scores[0] > 3)
    assert read_description(Archive(tmp_path / "lens")).topic == "language"


@settings(max_examples=40)
@given(
    scores=hnp.arrays(np.float64, 5),
    labels=st.lists(LABELS, max_size=4, unique_by=lambda label: (type(label), str(label))),
    about=st.dictionaries(TEXTS, PLAIN, max_size=3),
    given_names=st.none() | st.lists(TEXTS, min_size=5, max_size=5) | st.permutations(range(5)).map(
        lambda units: names(2, 3).units.select(units).names
    ),
)  # fmt: skip
def test_a_ranking_comes_back_with_its_labels_names_and_options(
    scores: Any, labels: list[Any], about: dict[str, Any], given_names: Any
) -> None:
    per_label = {label: ranked("x", scores, names=given_names) for label in labels}
    made = ranked("x", scores, names=given_names, per_label=per_label, about=about, dead=[0])
    assert same(again(made), made)


def test_a_result_is_written_to_a_folder_and_read_back(tmp_path: Path) -> None:
    made = ranking(12)
    made.save(tmp_path / "verbs")
    found = cutaway.load(tmp_path / "verbs")
    assert isinstance(found, Ranking)
    assert same(found, made)
    assert repr(found) == repr(made)
    assert found.top(3) == made.top(3)
    assert found.per_label[3].names is not None
    assert not list(tmp_path.rglob("*.part"))
    about = read_description(Archive(tmp_path / "verbs"))
    assert (about.type, about.topic, about.of) == ("Ranking", "neurons", {"method": "probeless"})
    assert about.title == "Ranking by probeless: 12 units, 6 labels, 1 dead"
    assert 1.6e9 < about.made < 1e10
    assert verify(tmp_path / "verbs").sentences[-1] == "No damage found. Everything is intact."


def test_a_page_is_a_result_with_a_topic_of_its_own(tmp_path: Path) -> None:
    page = replace(every_block(), topic="language")
    page.save(tmp_path / "page")
    found = cutaway.load(tmp_path / "page")
    assert found == page
    assert found.page() is found
    assert read_description(Archive(tmp_path / "page")).topic == "language"


def test_every_registered_class_is_there_and_its_hints_can_be_read() -> None:
    for name in REGISTRY:
        kind = class_of(name)
        assert fields_of(kind)
        assert callable(kind.save), name  # type: ignore[attr-defined]


def test_reading_loads_no_torch(tmp_path: Path) -> None:
    ranking().save(tmp_path / "r")
    every_block().save(tmp_path / "p")
    code = (
        "import sys; sys.modules['torch'] = None; import cutaway;"
        "print(cutaway.load('r').top(1), cutaway.load('p').title); assert 'cutaway.neurons' not in sys.modules"
    )
    said = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert said.split("]")[0].strip("[' \n") == ranking().top(1)[0]


# what real results are


@pytest.fixture(scope="module")
def acts() -> cutaway.Activations:
    rng = np.random.default_rng(0)
    words = [f"word{i % 7}" for i in range(60)]
    values = rng.normal(size=(60, 8)).astype(np.float32)
    values[:, 5] = 0
    return cutaway.Activations.of(values, words=words, items=np.arange(60) // 5)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        *(("probeless", "texts"), ("probeless", "numpy"), ("probeless", "truths"), ("linear", "numpy")),
        *(("gaussian", "texts"), ("iou", "truths"), ("average_precision", "texts"), ("mean_select", "numpy")),
        *(("selectivity", "texts"), ("random", "texts")),
    ],
)
def test_what_each_method_finds_can_be_saved(acts: cutaway.Activations, method: str, kind: str) -> None:
    third = acts.array()[:, 3] > 0
    labels = {"texts": np.where(third, "up", "down").tolist(), "numpy": third.astype(np.int32) * 2, "truths": third}
    made = cutaway.neurons.rank(acts, labels[kind], method=method)
    assert same(again(made), made)


def test_evaluations_clusters_and_words_can_be_saved(acts: cutaway.Activations) -> None:
    labels = acts.array()[:, 3] > 0
    neurons = cutaway.neurons
    rankings = [neurons.rank(acts, labels, method=method) for method in ("probeless", "random")]
    found = [
        neurons.evaluate("probeless", acts, labels, n=[1, 2], folds=2, n_permutations=2),
        neurons.layers(acts, labels, folds=2, n_permutations=0),
        neurons.clusters(acts),
        neurons.compare(rankings, 3),
        neurons.stability(acts, labels, n=2, seeds=(0, 1)),
        neurons.top_words(acts, 3),
        neurons.top_contexts(acts, 3),
        neurons.histograms(acts, 3, labels),
        neurons.page(acts, 3),
    ]
    for made in found:
        read = again(made)
        assert same(read, made), made
        assert read.page() == made.page()
        assert read._repr_html_() == made._repr_html_()


def test_an_ablation_can_be_saved(tmp_path: Path) -> None:
    import torch
    from torch import nn

    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).eval(), torch.randn(5, 3)
    ranking = ranked("mine", [4, 3, 2, 1], names=[f"0#{unit}" for unit in range(4)])
    made = cutaway.neurons.ablate(model, ranking, {"sum": lambda: model(x).sum()}, n=[1, 2], n_random=2)
    made.save(tmp_path / "a")
    assert same(cutaway.load(tmp_path / "a"), made)
    assert read_description(Archive(tmp_path / "a")).of == {"model": "Sequential", "method": "mine"}


# large ones


def test_names_and_shared_arrays_are_written_once_and_small(tmp_path: Path) -> None:
    n = 300_000
    units = names(*[n // 12] * 12)
    shared = {"names": units, "dead": np.arange(5)}
    scores = np.zeros(n)
    per_label = {label: ranked("x", scores, **shared) for label in "ab"}
    made = ranked("x", scores, per_label=per_label, **shared)
    made.save(tmp_path / "r")
    size = sum(file.stat().st_size for file in tmp_path.rglob("*") if file.is_file())
    own = 3 * n * (8 + 8 + 1)  # scores, order and signs of three rankings
    assert own < size < own + 100_000
    found = cutaway.load(tmp_path / "r")
    assert isinstance(found, Ranking)
    assert found.names is not None
    assert (len(found.names), found.names[n - 1]) == (n, "encoder.layer.11#24999")


def test_long_rows_of_every_kind_come_back() -> None:
    n = 66_000
    columns = [Column("unit"), Column("score", "number")]
    table = Table(columns, [(f"u{i}", i / 2 if i % 3 else None) for i in range(n)])
    page = Page("Much", sections=[Section("S", blocks=[table])])
    assert again(page) == page
    more = {"texts": [f"ä{i}" for i in range(n)], "ints": tuple(range(n)), "floats": [0.5] * n, "huge": [2**70] * 5000}
    made = ranked("x", [1.0], about={**more, "keys": {i: str(i) for i in range(n)}})
    document, arrays = encode_result(made)
    assert len(encode({"type": "document", "content": document})) < 200_000
    assert sum(raw.nbytes for raw in arrays.values()) < 60 * n
    assert same(again(made), made)


# what cannot be saved


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({1, 2}, "about/x is a set"),
        (b"raw", "about/x is a bytes"),
        (object(), "about/x is an object"),
        (np.array(["a"]), "about/x is an array of <U1"),
        (np.array([None]), "about/x is an array of object"),
        (np.ma.masked_array([1], [True]), "masked"),
        (np.longdouble(1), "about/x is a"),
        (np.datetime64("2020-01-01"), "about/x is a NumPy datetime64"),
        (1j, "about/x is a complex"),
        (Peak(1, 2.0), "it contains a class other than Ablation"),
        ([{"deep": {3}}], "about/x/0/deep is a set"),
    ],
)
def test_what_cannot_be_saved_is_named_and_leaves_no_folder(tmp_path: Path, value: Any, said: str) -> None:
    with pytest.raises(InputError, match=f"cannot save this Ranking: .*{said}"):
        ranked("x", [1.0], about={"x": value}).save(tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_what_holds_itself_is_refused(tmp_path: Path) -> None:
    about: dict[str, Any] = {}
    about["me"] = [about]
    with pytest.raises(InputError, match="contains itself"):
        ranked("x", [1.0], about=about).save(tmp_path / "r")


def test_what_a_reader_would_refuse_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="method is 3, expected str"):
        ranked(3, [1.0]).save(tmp_path / "r")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"cannot save a dict as a result. Results are Ablation, "):
        save({}, tmp_path / "r")
    with pytest.raises(InputError, match="cannot save a Ranking as a result"):
        save(type("Ranking", (), {})(), tmp_path / "r")
    assert not (tmp_path / "r").exists()


def test_a_mapping_of_any_kind_is_read_as_a_dict() -> None:
    found = again(ranked("x", [1.0], about=UserDict(a=UserDict(b=1))))
    assert found.about == {"a": {"b": 1}}


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    made = ranking()
    made.save(tmp_path / "r")
    with pytest.raises(ExistsError, match=r"already has a result and is not overwritten. Use another path"):
        ranked("other", [1.0]).save(tmp_path / "r")
    assert same(cutaway.load(tmp_path / "r"), made)


# what is not whole, or not ours


def test_a_save_that_was_killed_does_not_pretend_to_be_whole(tmp_path: Path) -> None:
    code = (
        "import os, signal; from tests.store.saved_results import ranking; from cutaway.store import Writer\n"
        "def die(self, name, content): self.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
        f"Writer.document = die; ranking().save({str(tmp_path / 'r')!r})"
    )
    path = os.pathsep.join([str(ROOT), *sys.path])
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert done.returncode < 0
    with pytest.raises(DamagedError, match="not saved completely"):
        cutaway.load(tmp_path / "r")
    found = verify(tmp_path / "r")
    assert found
    assert any("the result is incomplete" in remark for remark in found.remarks)


def written(path: Path, change: Any, made: Any = None) -> Path:
    """A result whose document somebody else wrote."""
    document, arrays = encode_result(ranking() if made is None else made)
    with Writer(path, kind="result") as writer:
        writer.block("arrays", arrays)
        writer.document("result", change(document) or document)
    return path


def fields_in(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["content"]["fields"]
    return found


def test_a_type_that_is_not_known_is_never_imported(tmp_path: Path) -> None:
    for name in ("Salience", "os.system", "antigravity", "Rankin"):
        path = written(tmp_path / name, lambda document, name=name: document.update(type=name))
        with pytest.raises(VersionError, match=f"it has a '{name}'.*pip install --upgrade cutaway"):
            cutaway.load(path)
        assert verify(path)
        content = {"class": name, "fields": {}}
        path = written(tmp_path / f"{name}.deep", lambda d, content=content: fields_in(d).update(about=content))
        with pytest.raises(VersionError, match=name):
            cutaway.load(path)
    assert "antigravity" not in sys.modules


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "r", lambda document: document.update(version=2))
    with pytest.raises(VersionError, match="result version 2; this version of Cutaway reads up to 1"):
        cutaway.load(path)


def test_fields_of_a_later_version_are_passed_over_and_those_of_an_earlier_one_have_their_default(
    tmp_path: Path,
) -> None:
    def change(document: dict[str, Any]) -> None:
        fields_in(document).update(later={"is": "unheard of"}, sooner=3)
        del fields_in(document)["dead"], fields_in(document)["tiers"]
        document["later"] = 1

    made = ranking()
    found = cutaway.load(written(tmp_path / "r", change, made))
    assert isinstance(found, Ranking)
    assert same(found, replace(made, dead=np.empty(0, np.int64), tiers=None))


def test_a_field_that_is_missing_without_a_default_is_named(tmp_path: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        del fields_in(document)["scores"]

    path = written(tmp_path / "r", change)
    with pytest.raises(DamagedError, match=r"the Ranking lacks the field 'scores', which this version .* requires"):
        cutaway.load(path)
    found = verify(path)
    assert not found
    assert found.cost.startswith("The result cannot be read")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("method", 3, "method is 3, expected str"),
        ("scores", "text", "scores is 'text', expected numpy.ndarray"),
        ("scores", {"is": "array", "at": "elsewhere"}, "refers to the array 'elsewhere', which is missing"),
        ("scores", {"is": "array", "at": None}, "location of scores is None"),
        ("names", [1, 2], "names/0 is 1, expected str"),
        ("names", {"is": "numbers", "at": "scores"}, "names is a sequence of numbers"),
        ("names", {"is": "texts", "at": "scores"}, "scores/bytes"),
        ("names", {"is": "names", "sites": []}, "has units outside its sites"),
        ("names", {"is": "unheard of"}, "unknown encoding 'unheard of'"),
        ("per_label", [], "per_label is a sequence of 0 values"),
        ("per_label", {"is": "map", "keys": [1], "values": []}, "1 keys and 0 values"),
        ("per_label", {"is": "map", "keys": [1], "values": [2]}, "per_label/0 is 2, expected Ranking"),
        ("per_label", {"is": "map", "keys": [{"is": "list", "items": []}], "values": [None]}, "per_label/0 is None"),
        (
            "about",
            {"is": "map", "keys": [{"is": "list", "items": []}], "values": [1]},
            "about/keys/0 is a sequence of 0 values",
        ),
        ("about", {"is": "scalar", "dtype": "int8", "value": 1}, "about is an int8, expected"),
        (
            "about",
            {"is": "map", "keys": ["a"], "values": [{"is": "scalar", "dtype": "int8", "value": 999}]},
            "not a int8",
        ),
        (
            "about",
            {"is": "map", "keys": ["a"], "values": [{"is": "scalar", "dtype": "V9", "value": 1}]},
            "not a NumPy number",
        ),
        ("about", {"is": "map", "keys": ["a"], "values": [{"is": "int", "digits": "x"}]}, "'x', expected a number"),
        ("about", {"class": "Ranking", "fields": 3}, "fields of about are 3"),
    ],
)
def test_a_document_that_is_damaged_says_where(tmp_path: Path, name: str, content: Any, said: str) -> None:
    path = written(tmp_path / "r", lambda document: fields_in(document).update({name: content}))
    with pytest.raises(DamagedError, match=said) as caught:
        cutaway.load(path)
    assert str(caught.value).startswith(f"the result in {path} is damaged: ")


def test_units_that_no_file_holds_are_not_made(tmp_path: Path) -> None:
    site = {"class": "CollectedSite", "fields": {"site": "h", "width": 10**15}}
    content = {"is": "names", "sites": [site]}
    with pytest.raises(DamagedError, match="1,000,000,000,000,000 units without listing them"):
        cutaway.load(written(tmp_path / "r", lambda document: fields_in(document).update(names=content)))


def test_values_that_make_no_such_result_are_damage(tmp_path: Path) -> None:
    page = Page("P", sections=[Section("S", blocks=[Table(["a"], [("x",)])])])

    def change(document: dict[str, Any]) -> None:
        table = fields_in(document)["sections"][0]["fields"]["blocks"][0]
        table["fields"]["rows"] = [["x", "y"]]

    document, arrays = encode_result(page)
    change(document)
    with pytest.raises(DamagedError, match="cannot rebuild the Table: got 2 cells of row 0"):
        decode_result(document, arrays.__getitem__)


def test_whatever_a_document_holds_gives_a_result_or_an_error_of_the_store() -> None:
    """Parts of it in the place of others, or nothing there."""
    rng = random.Random(0)
    n_refused = 0
    for _ in range(200):
        document, arrays = encode_result(ranking())
        places = list(split_name(document))
        for _ in range(rng.randint(1, 2)):
            inside, key = rng.choice(places)
            other, elsewhere = rng.choice(places)
            inside[key] = rng.choice([None, -1, "", [], {}, 2**40, other[elsewhere]])
        if rng.random() < 0.1:
            del arrays[rng.choice(list(arrays))]
        try:
            decode_result(decode(packed_bytes(document))["content"], arrays.__getitem__)
        except StoreError:
            n_refused += 1
        except ValueError:
            pass  # it holds itself now, and cannot be packed
    assert n_refused > 50


def test_no_bit_can_be_changed_unnoticed(tmp_path: Path) -> None:
    made = ranking()
    made.save(tmp_path / "r")
    rng = random.Random(0)
    n_refused = 0
    for file in sorted(file for file in (tmp_path / "r").rglob("*") if file.is_file() and file.suffix != ".lease"):
        whole = file.read_bytes()
        for at in rng.sample(range(len(whole)), min(60, len(whole))):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << rng.randrange(8)]) + whole[at + 1 :])
            try:
                assert same(cutaway.load(tmp_path / "r"), made)
            except StoreError:
                n_refused += 1
        file.write_bytes(whole[: len(whole) // 2])
        try:
            assert same(cutaway.load(tmp_path / "r"), made)
        except StoreError:
            n_refused += 1
        file.write_bytes(whole)
    assert n_refused > 30
    assert same(cutaway.load(tmp_path / "r"), made)


def split_name(content: Any) -> Any:
    keys = content if isinstance(content, dict) else range(len(content)) if isinstance(content, list) else ()
    for key in list(keys):
        yield content, key
        yield from split_name(content[key])


def packed_bytes(document: Any) -> bytes:
    import msgpack

    found: bytes = msgpack.packb({"type": "document", "content": document})
    return found


def test_a_class_that_was_renamed_is_found_by_its_old_name() -> None:
    document, arrays = result_file.encode_result(every_block())
    old = renamed(document, "ColoredText", "ColouredText")
    assert old != document
    assert same(result_file.decode_result(old, arrays.__getitem__), every_block())


def test_a_field_that_was_renamed_is_found_by_its_old_name() -> None:
    document, arrays = result_file.encode_result(every_block())
    old = renamed(renamed(document, "blocks", "plates"), "shows_strongest", "is_contest")
    assert "plates" in str(old)
    assert "is_contest" in str(old)
    assert same(result_file.decode_result(old, arrays.__getitem__), every_block())


def renamed(value: Any, name: str, to: str) -> Any:
    if isinstance(value, dict):
        return {to if key == name else key: renamed(each, name, to) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [renamed(each, name, to) for each in value]
    return to if value == name else value


def test_a_result_that_is_being_saved_says_so(tmp_path: Path) -> None:
    with Writer(tmp_path / "result", kind="result") as writer:
        writer.flush()
        with pytest.raises(DamagedError, match="is still being saved: read it again in a moment"):
            cutaway.load(tmp_path / "result")
