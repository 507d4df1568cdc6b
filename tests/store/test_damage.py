"""Damaged files: whatever is cut, flipped or missing costs only itself, and nothing wrong is ever read."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from uuid import uuid4

import pytest
from tests.store.faults import SMALL, Found, check, load, survey, write_run, write_step

from cutaway.core.errors import CutawayError, DamagedError, ExistsError
from cutaway.store.backends.backend import Backend
from cutaway.store.backends.memory import MemoryBackend
from cutaway.store.writing.writer import Options, Writer

STEPS = range(5)
# Every byte takes a minute: here some of them, all in the slow tests.
SOME_OR_ALL = pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)])
INDEX, LEASE, HEAD = "rank-0/0001.index", "rank-0/0001.lease", "cutaway.json"
SEALED = ["rank-0/0001-s0001.safetensors", "rank-0/0001-v0001.safetensors"]
GROWING = ["rank-0/0001-s0002.part", "rank-0/0001-v0002.part"]
FILES = [HEAD, INDEX, LEASE, *SEALED, *GROWING]


@dataclass
class Small:
    """A run with a sealed and a growing segment of each kind, as a killed writer leaves it."""

    backend: Backend
    files: dict[str, bytes]

    def look(self) -> Found:
        return survey(load(self.backend.url), STEPS)

    def with_(self, name: str, data: bytes) -> Found:
        """What is found where one file holds other bytes."""
        self.backend.put(name, data)
        try:
            return self.look()
        finally:
            self.backend.put(name, self.files[name])


@pytest.fixture(scope="module")
def small() -> Small:
    whole, copy = (MemoryBackend(str(uuid4())) for _ in range(2))
    writer = Writer(whole.url, kind="run", options=Options(limits=SMALL))
    for step in STEPS:
        write_step(writer, step)
    writer.flush()
    files = {HEAD: whole.read(HEAD, 0, 1 << 20)}
    files |= {f"rank-0/{name}": whole.read(f"rank-0/{name}", 0, 1 << 20) for name in whole.names("rank-0")}
    writer.close()
    assert sorted(files) == sorted(FILES)
    for name, data in files.items():
        copy.put(name, data)
    return Small(copy, files)


def harmless(found: Found) -> set[str]:
    """What is missing; anything wrong is an assertion."""
    return check(found, STEPS, is_whole=False)


def told(found: Found, missing: set[str], name: str) -> None:
    """What is missing is said to be, with the file that it was in."""
    said = [*map(str, found.errors.values()), *found.run.damage]
    torn = any(session.n_torn for session in found.run.sessions)
    assert not missing or torn or any(name in text for text in said), (missing, said)


def test_it_is_whole(small: Small) -> None:
    assert harmless(small.look()) == set()


@SOME_OR_ALL
@pytest.mark.parametrize("name", FILES)
def test_a_file_cut_at_any_byte_costs_what_is_behind(small: Small, name: str, every: int) -> None:
    costs = []
    for length in range(0, len(small.files[name]), every):
        found = small.with_(name, small.files[name][:length])
        missing = harmless(found)
        if name not in (HEAD, LEASE, INDEX):
            told(found, missing, name)
        costs.append(len(missing))
    assert all(before >= after for before, after in pairwise(costs)), "the more, the more"
    if name in (HEAD, LEASE):
        assert not any(costs)
    else:
        assert costs[0] > 0


@SOME_OR_ALL
def test_an_index_cut_at_any_byte_keeps_every_record_before(small: Small, every: int) -> None:
    whole = small.files[INDEX]
    for length in range(0, len(whole), 3 * every):
        found = small.with_(INDEX, whole[:length])
        session = found.run.sessions[0]
        assert session.n_read + session.n_torn == length
        assert not session.damage
        # Each step before the cut is whole: it refers to nothing that comes later in the index.
        for step in found.things["steps"]:
            for key in (f"matrix {step}", f"value {step} 0", f"value {step} 2", f"loss {step}"):
                assert key in found.things


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_noticed_or_changes_nothing(small: Small, name: str) -> None:
    for at in range(0, len(small.files[name]), 5):
        flip(small, name, at, bit=at % 7)


@pytest.mark.slow
@pytest.mark.parametrize("bit", [0, 6])
@pytest.mark.parametrize("name", FILES)
def test_a_bit_of_every_byte_flipped_is_noticed_or_changes_nothing(small: Small, name: str, bit: int) -> None:
    for at in range(len(small.files[name])):
        flip(small, name, at, bit)


def flip(small: Small, name: str, at: int, bit: int) -> None:
    damaged = bytearray(small.files[name])
    damaged[at] ^= 1 << bit
    found = small.with_(name, bytes(damaged))
    missing = harmless(found)
    told(found, missing, name)
    if name in (HEAD, LEASE):
        assert not missing
    if name == INDEX:
        steps = {int(key.split()[1]) for key in missing if key.startswith("step ")}
        assert len(steps) <= 1, f"byte {at} of the index costs steps {steps}"
    if name in SEALED:
        others = {key for key in missing if key.endswith((" 3", " 4")) or " 3 " in key or " 4 " in key}
        assert not others, f"byte {at} of {name} costs {others}"


@pytest.mark.parametrize("name", FILES)
def test_a_missing_file_costs_only_itself(small: Small, name: str) -> None:
    small.backend.remove(name)
    try:
        found = small.look()
        missing = harmless(found)
    finally:
        small.backend.put(name, small.files[name])
    told(found, missing, name)
    steps = {int(word) for key in missing for word in key.split() if word.isdigit() and not key.startswith("curve")}
    here = {SEALED[0]: {0, 1, 2}, SEALED[1]: {0, 1, 2}, GROWING[0]: {3, 4}, GROWING[1]: {3, 4}, INDEX: set(STEPS)}
    lost = {int(key.split()[1]) for key in missing if key.startswith(("matrix", "value", "step"))}
    assert lost == here.get(name, set())
    if name in here and name != INDEX:
        assert steps >= here[name]
        wanted = "matrix" if "-s0" in name else "value"
        assert {key.split()[0] for key in missing} <= {wanted, "curve"}
        for key, error in found.errors.items():
            assert isinstance(error, DamagedError), key


def test_no_head_and_no_lease_leave_a_run_that_is_read(small: Small) -> None:
    for name in (HEAD, LEASE):
        small.backend.remove(name)
    try:
        found = small.look()
        assert harmless(found) == set()
        assert found.run.is_live is False
        assert any("cutaway.json" in problem for problem in found.run.damage)
    finally:
        for name in (HEAD, LEASE):
            small.backend.put(name, small.files[name])


def test_what_was_damaged_before_it_was_sealed_does_not_get_a_fresh_checksum() -> None:
    backend = MemoryBackend(str(uuid4()))
    writer = Writer(backend.url, kind="run", options=Options(limits=SMALL))
    for step in range(2):
        write_step(writer, step)
    writer.flush()
    name = "rank-0/0001-s0001.part"
    backend._files[name][3] ^= 4  # the disk changes a bit of what it was given

    def go_on() -> None:
        for step in range(2, 7):
            write_step(writer, step)
        writer.close()

    with pytest.warns(RuntimeWarning, match=r"statistics could not be sealed.*statistics of step 0"):
        go_on()
    found = survey(load(backend.url), range(7))
    missing = check(found, range(7), is_whole=False)
    assert {key for key in missing if not key.startswith("curve")} == {"matrix 0"}
    assert name in str(found.errors["matrix 0"])


@pytest.mark.parametrize("how", ["cut", "missing", "version"])
def test_a_run_whose_head_is_lost_is_not_begun_anew_but_can_be_resumed(how: str) -> None:
    backend = MemoryBackend(str(uuid4()))
    write_run(backend.url, range(3))
    head = backend.read(HEAD, 0, 999)
    backend.remove(HEAD)
    if how == "cut":
        backend.put(HEAD, head[:20])
    elif how == "version":
        backend.put(HEAD, head.replace(b'"version": 1', b'"version": 3'))
    with pytest.raises(ExistsError, match=r"cutaway\.json|already has a run"):
        Writer(backend.url, kind="run")
    with pytest.raises(ExistsError, match="is a run, not a trace"):
        Writer(backend.url, kind="trace", resume=True)
    write_run(backend.url, range(3, 5), resume=True)
    check(survey(load(backend.url), range(5)), range(5))


def test_a_lost_seal_is_made_up_for_by_the_checksums_of_steps(small: Small) -> None:
    """The record of the sealing is damaged, and a bit of the sealed statistics as well."""
    index = bytearray(small.files[INDEX])
    for at in range(0, len(index) - 4, 8):
        if index[at : at + 4] == b"CUT1" and b"is_statistics\xc3" in index[at : at + 400].split(b"CUT1")[1]:
            index[at + 20] ^= 1
    data = small.files[SEALED[0]]
    small.backend.put(INDEX, bytes(index))
    try:
        assert not load(small.backend.url).sessions[0].matrix_seals
        assert harmless(small.look()) == set()
        for at in range(len(data) - 3 * 24, len(data)):
            damaged = bytearray(data)
            damaged[at] ^= 1
            found = small.with_(SEALED[0], bytes(damaged))
            assert harmless(found)
    finally:
        small.backend.put(INDEX, small.files[INDEX])


def test_errors_of_damage_are_ours(small: Small) -> None:
    found = small.with_(SEALED[1], b"")
    assert found.errors
    assert all(isinstance(error, CutawayError) for error in found.errors.values())
