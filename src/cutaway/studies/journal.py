"""The file of a study: what it is in the first line, then one line for each row that is done.

Lines are JSON, written whole and flushed: what was done survives the death of the process. A line that a death
cut short is dropped when the study goes on; whole lines are never changed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cutaway.core.errors import InputError
from cutaway.studies.fingerprints import of_text

FORMAT = 1
_BEGIN = b'{"study": "'
_CLOSE = 1e-4
"""How far two baselines may be apart, relative to their size: kernels on a GPU need not repeat themselves."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a study is. Two runs of a program with equal heads make the same rows."""

    study: str
    model: str
    values: str
    """Fingerprint of parameters, buffers and modes."""
    change: str
    """What is done at each row, in words."""
    sites: tuple[str, ...]
    n_rows: int
    rows: str
    """Fingerprint of the names of all rows."""
    shape: tuple[int, ...]
    """Of what is measured."""
    baseline: tuple[float, ...]
    """What is measured without any edit, in all runs without one."""

    @staticmethod
    def of(
        study: str,
        model: str,
        *,
        values: str,
        change: str,
        sites: Sequence[str],
        rows: Sequence[str],
        baseline: NDArray[np.float64],  # (run, *metric)
    ) -> Head:
        return Head(
            study=study,
            model=model,
            values=values,
            change=change,
            sites=tuple(dict.fromkeys(sites)),
            n_rows=len(rows),
            rows=of_text("\n".join(rows)),
            shape=baseline.shape[1:],
            baseline=tuple(baseline.ravel().tolist()),
        )


_MEANING = {
    "study": "kind of study",
    "model": "class of model",
    "values": "parameters, buffers or training mode",
    "change": "change",
    "sites": "sites",
    "n_rows": "number of rows",
    "rows": "rows",
    "shape": "shape of the metric",
    "baseline": "baseline",
}


class Journal:
    """The rows of one study that are done; on disk, if a path was given."""

    def __init__(self, path: str | Path | None, head: Head) -> None:
        self.done: dict[int, NDArray[np.float64]] = {}
        self.baseline = head.baseline
        """That of the file, if it was there."""
        self._head = head
        self._file: BinaryIO | None = None
        if path is None:
            return
        self.path = _file_of(Path(path), head.study)
        n_good = self._read() if self.path.exists() else 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        if self._file.tell() > n_good:  # what was cut short
            self._file.truncate(n_good)
        if not n_good:
            self._write({"study": head.study, "format": FORMAT, **asdict(head), "baseline": _plain(head.baseline)})

    def add(self, row: int, name: str, score: NDArray[np.float64]) -> None:
        """Note that a row is done."""
        self.done[row] = score
        self._write({"row": row, "name": name, "score": _plain(score.ravel().tolist())})

    def scores(self) -> NDArray[np.float64]:
        """(row, *metric): all rows."""
        found = np.empty((self._head.n_rows, *self._head.shape))
        for row in range(self._head.n_rows):
            found[row] = self.done[row]
        return found

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    def _write(self, line: dict[str, Any]) -> None:
        if self._file is not None:
            self._file.write(json.dumps(line).encode() + b"\n")
            self._file.flush()

    # reading

    def _read(self) -> int:
        """Take over what is done; the length of the file up to the end of its last whole line."""
        data = self.path.read_bytes()
        first, *lines = data.split(b"\n")
        if not lines:
            if data[: len(_BEGIN)] != _BEGIN[: len(data)]:
                raise InputError(f"{self.path} is not the file of a study: give another path.")
            return 0
        self._check(first)
        for number, line in enumerate(lines[:-1], start=2):
            try:
                row = json.loads(line)
                score = np.array([float(each) for each in row["score"]]).reshape(self._head.shape)
                self.done[range(self._head.n_rows)[row["row"]]] = score
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise InputError(f"line {number} of {self.path} is no row of a study: {error}.") from error
        return len(data) - len(lines[-1])

    def _check(self, first: bytes) -> None:
        """Raise where the file belongs to another study."""
        try:
            found = json.loads(first)
            if found["format"] != FORMAT:
                raise InputError(f"{self.path} has format {found['format']!r}; this version reads {FORMAT}.")
            was = {name: found[name] for name in _MEANING}
            was["baseline"] = [float(each) for each in was["baseline"]]
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self.path} is not the file of a study: give another path.") from error
        now = asdict(self._head)
        for name, meaning in _MEANING.items():
            old, new = was[name], now[name]
            if name == "baseline":
                if np.allclose(old, new, rtol=_CLOSE, atol=0, equal_nan=True):
                    self.baseline = tuple(old)
                    continue
                old, new = _short(old), _short(list(new))
            elif old == (list(new) if isinstance(new, tuple) else new):
                continue
            raise InputError(
                f"{self.path} holds another study, and is left as it is: its {meaning} was {_short(old)}, and now is "
                f"{_short(new)}. Give another path, or do the same study."
            )


def _file_of(path: Path, study: str) -> Path:
    return path if path.suffix == ".jsonl" else path / f"{study}.jsonl"


def _plain(values: Sequence[float]) -> list[float | str]:
    """Numbers as JSON has them; what is no number as text, which `float` reads."""
    return [value if np.isfinite(value) else str(value) for value in values]


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 120 else f"{text[:117]}…"
