"""Activations read back what was written, a part at a time, and never change what they were given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import train_test_split
from tests.store.collected import SITES, collection

import cutaway
from cutaway.core.errors import DamagedError, InputError, MemoryLimitError, SiteError
from cutaway.store.activations.activations import Activations
from cutaway.store.activations.writer import Dtype
from cutaway.store.verification.verify import verify


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_was_written_is_read_back(tmp_path: Path, dtype: Dtype) -> None:
    wanted = collection(tmp_path / "acts", dtype=dtype)
    acts = cutaway.load(tmp_path / "acts")
    assert isinstance(acts, cutaway.Activations)
    assert acts.shape == wanted.values.shape
    assert acts.dtype == np.dtype(dtype)
    assert acts.array().tobytes() == wanted.values.tobytes()
    assert acts.words == wanted.words
    assert acts.items.tolist() == wanted.items
    assert acts.word_index.tolist() == wanted.word
    assert acts.tokens.tolist() == [[word + 1, word + 1] for word in wanted.word]
    assert [(problem.item, problem.what) for problem in acts.problems] == wanted.problems
    assert (acts.n_items, acts.aggregate, acts.provenance, acts.is_whole) == (
        wanted.n_items,
        "last",
        {"model": "Tiny"},
        True,
    )


def test_sentences_hold_the_words_of_every_item_also_of_those_without_rows(tmp_path: Path) -> None:
    wanted = collection(tmp_path / "acts")
    acts = Activations.read(_archive(tmp_path / "acts"))
    assert len(acts.sentences) == wanted.n_items
    assert [word for sentence in acts.sentences for word in sentence] == wanted.words
    assert [] in acts.sentences


def test_units_are_named_as_sites(tmp_path: Path) -> None:
    collection(tmp_path / "acts")
    acts = _load(tmp_path / "acts")
    assert acts.sites == ("encoder.layer.0", "encoder.layer.1", "conv")
    assert acts.widths == (5, 3, 4)
    assert acts.names == [f"{site.site}#{unit}" for site in SITES for unit in range(site.width)]
    assert acts.site_of(6) == ("encoder.layer.1", 1)
    assert acts.names[-1] == "conv#3"
    assert repr(acts).startswith("<Activations ")
    assert "encoder.layer.0, encoder.layer.1, conv" in repr(acts)


CHOICES = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.lists(st.integers(-3, 40), min_size=1, max_size=30)),
        st.tuples(st.just("units"), st.lists(st.integers(-3, 20), min_size=1, max_size=15)),
        st.tuples(st.just("rows_mask"), st.integers(0, 2**32)),
        st.tuples(st.just("slice"), st.tuples(st.integers(0, 20), st.integers(0, 40), st.integers(1, 4))),
    ),
    max_size=4,
)


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Activations, Any]:
    path = tmp_path_factory.mktemp("stored") / "acts"
    wanted = collection(path, 12)
    return _load(path), wanted


@given(CHOICES, st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_every_choice_reads_what_numpy_indexing_gives(
    stored: tuple[Activations, Any], choices: list[tuple[str, Any]], n_rows: int
) -> None:
    acts, wanted = stored
    dense, words = wanted.values, np.array(wanted.words, object)
    items, names = np.array(wanted.items), np.array(list(acts.names))
    for how, what in choices:
        if how == "units":
            units = [unit % dense.shape[1] for unit in what]
            acts, dense, names = acts.units(units), dense[:, units], names[units]
            continue
        if how == "rows":
            rows: Any = [row % len(dense) for row in what] if len(dense) else []
        elif how == "slice":
            rows = slice(*what)
        else:
            rows = np.random.default_rng(what).random(len(dense)) < 0.5
        acts, dense, words, items = acts.rows(rows), dense[rows], words[rows], items[rows]
    assert np.array_equal(acts.array(), dense)
    assert acts.words == words.tolist()
    assert acts.words[1:7:2] == words.tolist()[1:7:2]
    assert acts.items.tolist() == items.tolist()
    assert list(acts.names) == names.tolist()
    seen = 0
    for rows_, values in acts.blocks(n_rows):
        assert (rows_.start, values.dtype, values.shape[1]) == (seen, np.float32, dense.shape[1])
        assert np.array_equal(values, dense[rows_])
        assert not values.flags.writeable
        seen = rows_.stop
    assert seen == len(dense)
    last = dense.shape[1] - 1
    assert np.array_equal(acts.columns([last, 0]), dense[:, [last, 0]])


def test_sites_are_chosen_by_name_pattern_and_unit(tmp_path: Path) -> None:
    wanted = collection(tmp_path / "acts")
    acts = _load(tmp_path / "acts")
    assert np.array_equal(acts["encoder.layer.1"].array(), wanted.values[:, 5:8])
    assert np.array_equal(acts["encoder.layer.*"].array(), wanted.values[:, :8])
    assert np.array_equal(acts.at(["conv", "encoder.layer.0"]).array(), wanted.values[:, [8, 9, 10, 11, 0, 1, 2, 3, 4]])
    assert np.array_equal(acts["conv#2"].array(), wanted.values[:, [10]])
    with pytest.raises(SiteError, match=r"no site matches 'encoder.layr.1'.*Nearest: 'encoder.layer.1'"):
        acts["encoder.layr.1"]


def test_wrong_choices_say_what_was_asked_and_what_is_there(tmp_path: Path) -> None:
    acts = Activations.of(np.zeros((4, 3)))
    with pytest.raises(InputError, match="no row 4: there are 4"):
        acts.rows([0, 4])
    with pytest.raises(InputError, match=r"a mask for 4 rows must have shape \[4\], got \[3\]"):
        acts.rows([True, False, True])
    with pytest.raises(InputError, match="no unit 7: there are 3"):
        acts.units([7])
    with pytest.raises(InputError, match="the selection has no units"):
        acts.units([])
    with pytest.raises(InputError, match=r"acts\.rows"):
        acts[0]
    with pytest.raises(TypeError):
        iter(acts)  # type: ignore[call-overload]
    assert len(acts.rows([])) == 0
    assert acts.rows([]).array().shape == (0, 3)


def test_scikit_learn_takes_and_splits_them_as_it_does_arrays() -> None:
    values = np.arange(80.0).reshape(20, 4)
    acts = Activations.of({"a": values}, words=[str(row) for row in range(20)])
    train, test, rows, _ = train_test_split(acts, np.arange(20), random_state=0)
    assert isinstance(train, Activations)
    assert (len(train), len(test)) == (15, 5)
    assert np.array_equal(train.array(), values[rows])
    assert train.words == [str(row) for row in rows]
    assert np.array_equal(acts[3:9, [2, 0]].array(), values[3:9, [2, 0]])
    labels = np.arange(20) % 2
    assert np.array_equal(LinearRegression().fit(acts, labels).coef_, LinearRegression().fit(values, labels).coef_)


def test_a_large_array_is_refused_unless_told() -> None:
    acts = Activations.of(np.broadcast_to(np.float32(1), (1 << 20, 1 << 12)))
    with pytest.raises(MemoryLimitError, match=r"1,048,576 rows × 4,096 units need 17,179,869,184 bytes.*acts\.blocks"):
        acts.array()
    assert acts.rows([5]).array(np.float16).tolist() == [[1.0] * 4096]
    small = Activations.of(np.ones((4, 4), np.float32))
    with pytest.raises(MemoryLimitError):
        small.array(most_bytes=10)
    assert small.array(most_bytes=None).sum() == 16


def test_arrays_and_tensors_at_hand_are_activations_without_a_copy() -> None:
    array = np.arange(12.0, dtype=np.float32).reshape(4, 3)
    acts = Activations.of(
        {"a.0": array, "a.1": torch.arange(8.0, dtype=torch.bfloat16).reshape(4, 2)}, items=[0, 0, 1, 4]
    )
    assert acts.shape == (4, 5)
    assert acts.n_items == 5
    assert acts.word_index.tolist() == [0, 1, 0, 0]
    assert np.array_equal(acts["a.1"].array(), np.arange(8.0).reshape(4, 2))
    block = next(acts["a.0"].blocks())[1]
    assert np.shares_memory(block, array)
    with pytest.raises(ValueError, match="read-only"):
        block += 1
    assert array.flags.writeable  # the caller's own array is as it was
    own = acts.array()
    own += 1
    assert array[0, 0] == 0
    assert np.asarray(acts, np.float64).dtype == np.float64


def test_what_cannot_be_activations_is_refused() -> None:
    with pytest.raises(InputError, match=r"must be numbers \[row, unit\]"):
        Activations.of(np.zeros(3))
    with pytest.raises(InputError, match="3 rows of 'a', 4 rows of 'b'"):
        Activations.of({"a": np.zeros((3, 1)), "b": np.zeros((4, 1))})
    with pytest.raises(InputError, match="2 words for 3 rows"):
        Activations.of(np.zeros((3, 1)), words=["a", "b"])
    with pytest.raises(InputError, match="3 words in 2 items for 4 rows"):
        Activations.of(np.zeros((4, 1)), words=[["a", "b"], ["c"]])
    with pytest.raises(InputError, match="it is negative for row 1"):
        Activations.of(np.zeros((2, 1)), items=[0, -1])


def test_arrays_of_mapped_files_cannot_be_written_to(tmp_path: Path) -> None:
    collection(tmp_path / "acts")
    acts = _load(tmp_path / "acts")["conv"]
    before = {path: path.read_bytes() for path in (tmp_path / "acts").rglob("*.safetensors")}
    for _, values in acts.blocks(2):
        with pytest.raises(ValueError, match="read-only"):
            values[:] = 0
        if values.base is not None:  # not even on purpose
            with pytest.raises(ValueError, match="cannot set WRITEABLE"):
                values.flags.writeable = True
    for column in (acts.items, acts.word_index, acts.tokens):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 0
    assert before == {path: path.read_bytes() for path in (tmp_path / "acts").rglob("*.safetensors")}


def test_stock_tools_read_the_sealed_file(tmp_path: Path) -> None:
    wanted = collection(tmp_path / "acts")
    tensors: dict[str, Any] = {}
    for path in (tmp_path / "acts").rglob("*.safetensors"):
        tensors |= load_file(path)
    parts = [tensors[name] for name in sorted(tensors) if name.endswith("site/conv")]
    assert np.array_equal(np.concatenate(parts), wanted.values[:, 8:])


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_choice_is_saved_and_read_back_with_its_names(tmp_path: Path, dtype: Dtype) -> None:
    wanted = collection(tmp_path / "acts", dtype=dtype)
    acts = _load(tmp_path / "acts")
    rows = np.arange(1, len(acts), 2)
    acts.rows(rows).units([1, 4, 7, 5]).save(tmp_path / "part")
    part = _load(tmp_path / "part")
    assert list(part.names) == ["encoder.layer.0#1", "encoder.layer.0#4", "encoder.layer.1#2", "encoder.layer.1#0"]
    assert part.array().tobytes() == wanted.values[rows][:, [1, 4, 7, 5]].tobytes()
    assert part.items.tolist() == np.array(wanted.items)[rows].tolist()
    assert part.words == [wanted.words[row] for row in rows]
    assert part.tokens.tolist() == acts.tokens[rows].tolist()
    assert part.n_items == wanted.n_items
    assert part.problems == acts.problems
    assert part.provenance == acts.provenance
    assert part["encoder.layer.1#2"].array().tobytes() == wanted.values[rows][:, [7]].tobytes()


def test_all_units_of_a_site_in_another_order_keep_their_names(tmp_path: Path) -> None:
    wanted = collection(tmp_path / "acts")
    _load(tmp_path / "acts").units([7, 5, 6]).save(tmp_path / "turned")
    turned = _load(tmp_path / "turned")
    assert list(turned.names) == ["encoder.layer.1#2", "encoder.layer.1#0", "encoder.layer.1#1"]
    assert np.array_equal(turned["encoder.layer.1#0"].array(), wanted.values[:, [5]])


def test_a_choice_that_cannot_be_saved_says_why(tmp_path: Path) -> None:
    acts = Activations.of({"a": np.zeros((3, 2)), "b": np.zeros((3, 2))}, items=[0, 1, 2])
    with pytest.raises(InputError, match="in corpus order"):
        acts.rows([2, 0]).save(tmp_path / "x")
    with pytest.raises(InputError, match="Select units site by site"):
        acts.units([0, 2, 1]).save(tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_damage_is_noticed_when_it_is_read_and_by_verify(tmp_path: Path) -> None:
    wanted = collection(tmp_path / "acts")
    (file,) = (tmp_path / "acts").rglob("*.safetensors")
    data = bytearray(file.read_bytes())
    at = data.index(wanted.values[:, 8:][:1].tobytes())
    data[at] ^= 0xFF
    file.write_bytes(bytes(data))
    acts = _load(tmp_path / "acts")
    assert np.array_equal(acts["encoder.layer.0"].array(), wanted.values[:, :5])
    with pytest.raises(DamagedError, match="wrong checksum"):
        acts["conv"].array()
    assert not verify(tmp_path / "acts")


def test_a_file_that_was_cut_short_is_an_error_and_does_not_kill_the_process(tmp_path: Path) -> None:
    collection(tmp_path / "acts")
    (file,) = (tmp_path / "acts").rglob("*.safetensors")
    file.write_bytes(file.read_bytes()[:-200])
    with pytest.raises(DamagedError, match="truncated"):
        _load(tmp_path / "acts").array()


def test_a_lost_window_is_never_passed_over_silently(tmp_path: Path) -> None:
    collection(tmp_path / "acts")
    (index,) = (tmp_path / "acts").rglob("*.index")
    data = bytearray(index.read_bytes())
    places = [at for at in range(len(data)) if data.startswith(b"window/", at)]
    data[places[2]] ^= 0xFF
    index.write_bytes(bytes(data))
    with pytest.raises(DamagedError, match="are unreadable"):
        cutaway.load(tmp_path / "acts")
    assert not verify(tmp_path / "acts")


def test_activations_in_memory_archives_are_read_without_mapping() -> None:
    Activations.of({"a": np.eye(3)}, words=["x", "y", "z"]).save("memory://acts-in-memory")
    acts = _load("memory://acts-in-memory")
    assert np.array_equal(acts.array(), np.eye(3))
    assert acts.words == ["x", "y", "z"]


def test_one_column_of_two_hundred_megabytes_takes_little_memory_and_no_torch(tmp_path: Path) -> None:
    """In a process of its own, so that only this reading counts."""
    rows, width = 1 << 15, 1600
    random = np.random.default_rng(0)
    values = np.broadcast_to(random.normal(size=(1, width)).astype(np.float32), (rows, width))
    Activations.of({"a": values}).save(tmp_path / "acts")
    size = sum(path.stat().st_size for path in (tmp_path / "acts").rglob("*.safetensors"))
    assert size > 200 << 20
    code = f"""
import sys, threading
import cutaway
def rss():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) << 10
load = cutaway.load
before = rss()
most, done = [before], threading.Event()
def watch():
    while not done.wait(0.001):
        most[0] = max(most[0], rss())
thread = threading.Thread(target=watch); thread.start()
acts = load({str(tmp_path / "acts")!r})
column = acts.columns([7])
done.set(); thread.join()
assert column.shape == ({rows}, 1) and (column == column[0]).all()
assert "torch" not in sys.modules
print(most[0] - before)
"""
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    grown = float(printed)
    assert grown < 80 << 20, f"{grown / 2**20:.0f} MiB"


def _load(path: Any) -> Activations:
    found = cutaway.load(path)
    assert isinstance(found, Activations)
    return found


def _archive(path: Path) -> Any:
    from cutaway.store.reading.archive import Archive

    return Archive(path)


def test_words_may_be_an_array() -> None:
    acts = Activations.of(np.zeros((3, 2)), words=np.array(["a", "b", "a"]))
    assert list(acts.words) == ["a", "b", "a"]
