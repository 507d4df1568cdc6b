"""Files of NeuroX: read as NeuroX wrote them, written as it reads them; h5py and json spell out both sides."""

from __future__ import annotations

import builtins
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cutaway.core.errors import DamagedError, ExistsError, InputError, MissingExtraError, NotFoundError
from cutaway.store.activations.activations import Activations

SENTENCES = [["the", "cat", "sat"], ["a", "dog"], ["the", "cat", "sat"], ["ünï", "🙂", "x", "y"], ["the", "cat", "sat"]]
N_LAYERS, WIDTH = 3, 4


def layers_of(sentences: list[list[str]], dtype: str = "float32") -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [random.normal(size=(N_LAYERS, len(words), WIDTH)).astype(dtype) for words in sentences]


def write_hdf5(path: Path, sentences: list[list[str]], arrays: list[np.ndarray]) -> None:
    """As NeuroX's writer does it."""
    names: dict[str, str] = {}
    with h5py.File(path, "w") as file:
        for number, (words, array) in enumerate(zip(sentences, arrays, strict=True)):
            file.create_dataset(str(number), array.shape, dtype=array.dtype, data=array)
            name, times = " ".join(words), 1
            while name in names:
                times += 1
                name = f"{' '.join(words)} (Occurrence {times})"
            names[name] = str(number)
        file.create_dataset("sentence_to_index", (1,), dtype=h5py.special_dtype(vlen=str))[0] = json.dumps(names)


def write_json(path: Path, sentences: list[list[str]], arrays: list[np.ndarray]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for number, (words, array) in enumerate(zip(sentences, arrays, strict=True)):
            features = [
                {
                    "token": word,
                    "layers": [
                        {"index": layer, "values": [round(x.item(), 8) for x in array[layer, place]]}
                        for layer in range(len(array))
                    ],
                }
                for place, word in enumerate(words)
            ]
            file.write(json.dumps({"linex_index": number, "features": features}) + "\n")


def read_as_neurox(path: Path) -> list[np.ndarray]:
    """What NeuroX's loader makes of a file: `[word, layer · unit]` for each sentence."""
    if path.suffix == ".hdf5":
        with h5py.File(path, "r") as file:
            numbers = json.loads(file["sentence_to_index"][0])
            arrays = [np.asarray(file[number]) for number in numbers.values()]
        return [array.swapaxes(0, 1).reshape(array.shape[1], -1) for array in arrays]
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line)["features"] for line in file]
    return [
        np.vstack([np.concatenate([layer["values"] for layer in word["layers"]]) for word in line]) for line in lines
    ]


WRITERS = {"hdf5": write_hdf5, "json": write_json}


@pytest.mark.parametrize("format_", ["hdf5", "json"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_what_neurox_extracted_is_read(tmp_path: Path, format_: str, dtype: str) -> None:
    arrays = layers_of(SENTENCES, dtype)
    path = tmp_path / f"acts.{format_}"
    WRITERS[format_](path, SENTENCES, arrays)
    acts = Activations.from_neurox(path)
    assert acts.sites == ("layer.0", "layer.1", "layer.2")
    assert acts.sentences == SENTENCES
    assert acts.word_index.tolist() == [place for words in SENTENCES for place in range(len(words))]
    wanted = np.concatenate(read_as_neurox(path))
    assert np.allclose(acts.array(), wanted, atol=0 if format_ == "hdf5" else 1e-7)
    assert acts.dtype == (dtype if format_ == "hdf5" else "float32")
    assert acts.provenance["source"] == "NeuroX"


def test_sentences_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    """The tenth stands before the second among the names of an HDF5 file."""
    sentences = [[f"w{number}"] for number in range(25)]
    write_hdf5(tmp_path / "x.hdf5", sentences, layers_of(sentences))
    acts = Activations.from_neurox(tmp_path / "x.hdf5")
    assert acts.sentences == sentences
    assert np.array_equal(acts.array(), np.concatenate(read_as_neurox(tmp_path / "x.hdf5")))


@pytest.mark.parametrize("format_", ["hdf5", "json"])
def test_files_of_one_layer_each_are_read_together(tmp_path: Path, format_: str) -> None:
    arrays = layers_of(SENTENCES)
    for layer in (0, 2, 10):
        WRITERS[format_](tmp_path / f"acts-layer{layer}.{format_}", SENTENCES, [array[[layer % 3]] for array in arrays])
    acts = Activations.from_neurox(tmp_path / f"acts.{format_}")
    assert acts.sites == ("layer.0", "layer.2", "layer.10")  # by number, not by name
    assert np.allclose(acts["layer.2"].array(), np.concatenate([array[2] for array in arrays]), atol=1e-7)
    some = Activations.from_neurox([tmp_path / f"acts-layer10.{format_}", tmp_path / f"acts-layer0.{format_}"])
    assert some.sites == ("layer.10", "layer.0")


@pytest.mark.parametrize("format_", ["hdf5", "json"])
@pytest.mark.parametrize("per_layer", [False, True])
def test_neurox_reads_what_is_written(tmp_path: Path, format_: Any, per_layer: bool) -> None:
    arrays = layers_of(SENTENCES)
    values = {f"encoder.{n}": np.concatenate([array[n] for array in arrays]) for n in range(N_LAYERS)}
    acts = Activations.of(values, words=SENTENCES)
    written = acts.to_neurox(tmp_path / f"out.{format_}", per_layer=per_layer)
    stem = "out-layer{}" if per_layer else "out"
    assert written == [str(tmp_path / f"{stem.format(n)}.{format_}") for n in range(N_LAYERS if per_layer else 1)]
    for number, path in enumerate(map(Path, written)):
        for found, array in zip(read_as_neurox(path), arrays, strict=True):
            own = array[[number]] if per_layer else array
            wanted = own.swapaxes(0, 1).reshape(own.shape[1], -1)
            assert np.allclose(found, wanted, atol=0 if format_ == "hdf5" else 1e-8)
    again = Activations.from_neurox(tmp_path / f"out.{format_}")
    assert again.sentences == SENTENCES
    assert np.allclose(again.array(), acts.array(), atol=1e-7)


def test_the_files_are_built_as_neurox_builds_them(tmp_path: Path) -> None:
    """The same datasets, shapes, dtypes and layout; the same text to the byte for JSON."""
    arrays = layers_of(SENTENCES)
    values = {f"layer.{n}": np.concatenate([array[n] for array in arrays]) for n in range(N_LAYERS)}
    acts = Activations.of(values, words=SENTENCES)
    for format_, write in WRITERS.items():
        write(tmp_path / f"theirs.{format_}", SENTENCES, arrays)
        acts.to_neurox(tmp_path / "ours", format=format_)  # type: ignore[arg-type]
    assert (tmp_path / "ours.json").read_bytes() == (tmp_path / "theirs.json").read_bytes()
    with h5py.File(tmp_path / "ours.hdf5") as ours, h5py.File(tmp_path / "theirs.hdf5") as theirs:
        assert set(ours) == set(theirs)
        assert ours["sentence_to_index"][0] == theirs["sentence_to_index"][0]
        assert ours["sentence_to_index"].dtype == theirs["sentence_to_index"].dtype
        for name in theirs:
            one, two = ours[name], theirs[name]
            assert (one.shape, one.dtype, one.chunks, one.compression) == (
                two.shape,
                two.dtype,
                two.chunks,
                two.compression,
            )


def test_float16_and_the_names_of_sites_survive_hdf5(tmp_path: Path) -> None:
    acts = Activations.of({"encoder.3": np.eye(4, dtype=np.float16)}, words=["a", "b", "c", "d"], items=[0, 0, 1, 1])
    acts.to_neurox(tmp_path / "x.hdf5")
    again = Activations.from_neurox(tmp_path / "x.hdf5")
    assert (again.sites, again.dtype) == (("encoder.3",), np.float16)
    assert again.array().tobytes() == acts.array().tobytes()


WORD = st.text(st.characters(exclude_categories=["Cs", "Zs", "Cc"]), min_size=1, max_size=5)
CORPUS = st.lists(st.lists(WORD, max_size=4), min_size=1, max_size=6).filter(any)


@given(CORPUS, st.sampled_from(["hdf5", "json"]), st.booleans())
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_words_come_back(
    tmp_path_factory: pytest.TempPathFactory, sentences: list[list[str]], format_: Any, per_layer: bool
) -> None:
    folder = tmp_path_factory.mktemp("any")
    n = sum(map(len, sentences))
    values = np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32)
    acts = Activations.of({"a": values, "b": -values}, words=sentences)
    acts.to_neurox(folder / f"x.{format_}", per_layer=per_layer)
    again = Activations.from_neurox(folder / f"x.{format_}")
    assert again.sentences == sentences
    assert np.allclose(again.array(), acts.array(), atol=1e-7)


def test_a_large_file_is_converted_without_being_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutaway.store.neurox.read._WINDOW_BYTES", 100)  # a window for every sentence or two
    write_hdf5(tmp_path / "x.hdf5", SENTENCES, layers_of(SENTENCES))
    acts = Activations.from_neurox(tmp_path / "x.hdf5", to=tmp_path / "acts")
    assert acts.path == str(tmp_path / "acts")
    assert acts.is_whole
    assert len(acts._source.starts) > 3
    held = Activations.from_neurox(tmp_path / "x.hdf5")
    assert np.array_equal(acts.array(), held.array())
    assert acts.sentences == held.sentences == SENTENCES


def test_words_that_do_not_fit_their_rows_are_named_and_can_be_given(tmp_path: Path) -> None:
    arrays = layers_of([["a", "b"], ["c"], ["d", "e", "f"]])
    write_hdf5(tmp_path / "x.hdf5", [["a b c", "d"], ["c"], ["d e"]], arrays)
    with pytest.raises(
        InputError, match=r"2 of 3 sentences.*sentence 0 \(4 words, 2 rows\), sentence 2 \(2 words, 3 rows\)"
    ):
        Activations.from_neurox(tmp_path / "x.hdf5")
    acts = Activations.from_neurox(tmp_path / "x.hdf5", sentences=["a b", ["c"], "d e f"])
    assert acts.sentences == [["a", "b"], ["c"], ["d", "e", "f"]]
    with pytest.raises(InputError, match=r"got 2 sentences, but .* has 3"):
        Activations.from_neurox(tmp_path / "x.hdf5", sentences=[["a", "b"], ["c"]])


def test_a_sentence_that_ends_like_a_second_occurrence_is_left_as_it_is(tmp_path: Path) -> None:
    sentences = [["see", "(Occurrence", "2)"], ["see"], ["see"]]
    write_hdf5(tmp_path / "x.hdf5", sentences, layers_of(sentences))
    assert Activations.from_neurox(tmp_path / "x.hdf5").sentences == sentences


def test_files_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="does not exist"):
        Activations.from_neurox(tmp_path / "none.hdf5")
    (tmp_path / "x.acts").write_bytes(b"\x80")
    with pytest.raises(InputError, match="pickles, which can run arbitrary code"):
        Activations.from_neurox(tmp_path / "x.acts")
    (tmp_path / "x.hdf5").write_bytes(b"nothing")
    with pytest.raises(DamagedError, match="as HDF5"):
        Activations.from_neurox(tmp_path / "x.hdf5")
    write_json(tmp_path / "x.json", SENTENCES, layers_of(SENTENCES))
    lines = (tmp_path / "x.json").read_text().splitlines()
    (tmp_path / "x.json").write_text("\n".join([lines[0], lines[1][:-30], lines[2]]))
    with pytest.raises(DamagedError, match=r"x\.json, line 2"):
        Activations.from_neurox(tmp_path / "x.json")
    write_json(tmp_path / "a-layer0.json", SENTENCES, layers_of(SENTENCES))
    write_json(tmp_path / "a-layer1.json", SENTENCES[:2], layers_of(SENTENCES[:2]))
    with pytest.raises(InputError, match="differ in their number of sentences"):
        Activations.from_neurox(tmp_path / "a.json")


def test_nothing_is_overwritten_and_half_a_file_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    acts = Activations.of({"a": np.eye(2)}, words=["x", "y"])
    acts.to_neurox(tmp_path / "x.json")
    with pytest.raises(ExistsError, match="not overwritten"):
        acts.to_neurox(tmp_path / "x.json")
    with pytest.raises(InputError, match="neither"):
        acts.to_neurox(tmp_path / "x.npz")
    monkeypatch.setattr(Activations, "array", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        acts.to_neurox(tmp_path / "y.hdf5")
    assert not (tmp_path / "y.hdf5").exists()


def test_layers_of_different_width_need_a_file_each(tmp_path: Path) -> None:
    acts = Activations.of({"a": np.eye(2), "b": np.ones((2, 3))}, words=["x", "y"])
    with pytest.raises(InputError, match=r"a has 2, b has 3. per_layer=True"):
        acts.to_neurox(tmp_path / "x.hdf5")
    acts.to_neurox(tmp_path / "x.hdf5", per_layer=True)
    assert Activations.from_neurox(tmp_path / "x.hdf5").widths == (2, 3)


def test_without_h5py_the_error_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hdf5(tmp_path / "x.hdf5", SENTENCES, layers_of(SENTENCES))
    original = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "h5py":
            raise ModuleNotFoundError("No module named 'h5py'", name="h5py")
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtraError, match=r"pip install cutaway\[neurox\]"):
        Activations.from_neurox(tmp_path / "x.hdf5")
