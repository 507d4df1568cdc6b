"""Filters on steps and samples, against the same conditions in plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import cutaway
from cutaway.core.arrays import Raw
from cutaway.core.errors import InputError
from cutaway.store.format.records import Row
from cutaway.store.runs.filtered import RunFilter
from cutaway.store.runs.filters import parse_filter, sample_fields, sites_with_samples
from cutaway.store.runs.run import Run
from cutaway.store.runs.samples import packed_samples
from cutaway.store.writing.writer import Writer

N_STEPS, N_KEPT = 60, 4
STEPS = np.arange(N_STEPS) * 3
LOSS = 2 + np.sin(STEPS / 5)
LABELS = (STEPS[:, None] + np.arange(N_KEPT)) % 5
TARGETS = (STEPS[:, None] * 2 + np.arange(N_KEPT)) % 7
WORDS = ("a", " cat", " dog", " Mat")
WRITERS = np.array([f"{number % 12:02}" for number in range(N_STEPS * N_KEPT)]).reshape(N_STEPS, N_KEPT)


def tokens_of(place: int) -> list[list[str]]:
    return [[WORDS[0], WORDS[1 + (place + number) % 3]] for number in range(N_KEPT)]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run in which every third recorded step is a check, and the last ten kept no samples."""
    path = tmp_path_factory.mktemp("filters") / "run"
    with Writer(path, kind="run") as writer:
        for place, step in enumerate(STEPS.tolist()):
            packed = packed_samples(
                {"label": LABELS[place], "writer": WRITERS[place].tolist(), "tokens": tokens_of(place)}
            )
            rows = [Row("x", role="input"), Row("$target", role="target"), *packed]
            raws = [Raw.of(np.zeros((N_KEPT, 2), np.float32)), Raw.of(TARGETS[place]), *packed.values()]
            writer.step(
                step,
                schema=writer.schema(rows, ("mean",)),
                kind="check" if place % 3 == 2 else "train",
                matrix=np.zeros((len(rows), 1), np.float32),
                values=dict(enumerate(raws)) if place < N_STEPS - 10 else {},
            )
            if place != 7:
                writer.scalars(step, {"loss": float(LOSS[place]), "val/loss": 1.0})
        writer.note("NaN was near", step=int(STEPS[10]), level="warning")
        writer.note("all is well", step=int(STEPS[20]))
        writer.flush()
    found = cutaway.load(path)
    assert isinstance(found, Run)
    return found


def left(run: Run, *texts: str) -> tuple[list[int], int]:
    filtered = RunFilter(run).apply([parse_filter(text, run) for text in texts])
    return run.steps[filtered.places].tolist(), filtered.n_samples


def of(is_left: np.ndarray) -> list[int]:
    return [int(step) for step in STEPS[is_left]]


PLACES = np.arange(N_STEPS)
HAS = PLACES < N_STEPS - 10
LOGGED = PLACES != 7


@pytest.mark.parametrize(
    ("text", "is_left"),
    [
        ("loss > 2", (LOSS > 2) & LOGGED),
        ("loss<=1.5", (LOSS <= 1.5) & LOGGED),
        ("logged.loss >= 2.5", (LOSS >= 2.5) & LOGGED),
        ("val/loss = 1", LOGGED),
        ("val/loss != 1", np.zeros(N_STEPS, bool)),
        ("kind = check", PLACES % 3 == 2),
        ("kind != CHECK", PLACES % 3 != 2),
        ("kind ~ rai", PLACES % 3 != 2),
        ("step >= 90", STEPS >= 90),
        ("note ~ nan", PLACES == 10),
        ("note != 'all is well'", PLACES != 20),
        ("level = warning", PLACES == 10),
    ],
)
def test_filters_on_steps(run: Run, text: str, is_left: np.ndarray) -> None:
    assert left(run, text) == (of(is_left), N_KEPT * int((is_left & HAS).sum()))


HAS_TOKEN = np.array([[word in "".join(row) for row in tokens_of(place)] for place in PLACES for word in ["cat"]])


@pytest.mark.parametrize(
    ("text", "passing"),
    [
        ("label = 3", LABELS == 3),
        ("label != 3", LABELS != 3),
        ("sample.label > 2", LABELS > 2),
        ("target = 3", TARGETS == 3),
        ("value.$target < 2", TARGETS < 2),
        ("writer = 07", WRITERS == "07"),
        ("writer ~ 1", np.char.find(WRITERS, "1") >= 0),
        ("token = cat", HAS_TOKEN),
        ("token = CAT", HAS_TOKEN),
        ("token ~ ca", HAS_TOKEN),
        ("token != cat", ~HAS_TOKEN),
    ],
)
def test_filters_on_samples(run: Run, text: str, passing: np.ndarray) -> None:
    passing = passing & HAS[:, None]
    assert left(run, text) == (of(passing.any(axis=1)), int(passing.sum()))


def test_filters_combine_and_samples_pass_all_of_them(run: Run) -> None:
    filters = RunFilter(run)
    terms = [parse_filter(text, run) for text in ("kind = train", "loss > 1.2", "label = 3", "token = cat")]
    passing = (LABELS == 3) & HAS_TOKEN & HAS[:, None] & ((LOSS > 1.2) & LOGGED & (PLACES % 3 != 2))[:, None]
    for _ in range(2):  # what was read is kept
        found = filters.apply(terms)
        assert run.steps[found.places].tolist() == of(passing.any(axis=1))
        assert found.samples == tuple(tuple(np.flatnonzero(row).tolist()) for row in passing if row.any())
        assert (found.n_samples, found.n_all_samples) == (int(passing.sum()), int(HAS.sum()) * N_KEPT)
    assert filters.apply([]).samples is None
    assert len(filters.apply([]).places) == N_STEPS


def test_one_field_is_read_alone(run: Run) -> None:
    filters = RunFilter(run)
    assert list(filters.field_at(int(STEPS[4]), "writer")) == WRITERS[4].tolist()
    assert list(filters.field_at(1, "writer")) == []
    assert list(filters.field_at(int(STEPS[-1]), "writer")) == []


def test_what_a_run_can_be_filtered_by(run: Run) -> None:
    assert sample_fields(run) == ("label", "writer")
    assert sites_with_samples(run) == ("$target",)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hello", "is not a filter. Write a name, one of = != < <= > >= ~ and a value"),
        ("> 2", "is not a filter"),
        ("loss >", "lacks a value after >"),
        ("los > 2", "Did you mean 'loss'?"),
        ("nothing = 2", "fields of samples: label, writer; recorded values with one number per sample: $target"),
        ("loss > high", "> compares numbers, and 'high' is none"),
        ("kind > 3", "kind is a text"),
        ("loss ~ 2", "loss is a number"),
        ("loss = low", "loss is a number"),
        (f"label = {'x' * 500}", "is not a filter"),
    ],
)
def test_wrong_filters_say_what_is_understood(run: Run, text: str, says: str) -> None:
    with pytest.raises(InputError) as error:
        parse_filter(text, run)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("loss > 2", "steps whose logged loss is above 2"),
        ("note ~ nan", "steps with a note whose text contains “nan”"),
        ("target=3", "samples whose recorded value $target is 3"),
        ("token = cat", "samples with a token that is “cat”"),
    ],
)
def test_filters_say_what_they_mean(run: Run, text: str, meaning: str) -> None:
    assert parse_filter(text, run).meaning == meaning
