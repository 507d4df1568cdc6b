"""The file of a study: a header line, then one JSON line per finished row.

Each line is written whole and flushed, so finished rows survive a killed process. A line that was cut off is dropped
when the study is resumed; complete lines are never changed.
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
from cutaway.core.formatting import clipped
from cutaway.studies.fingerprints import text_fingerprint

FORMAT = 1
_BEGIN = b'{"study": "'
_CLOSE = 1e-4
"""Relative tolerance between two baselines: GPU kernels need not be deterministic."""


@dataclass(frozen=True, slots=True)
class StudyHeader:
    """Identifies a study. Two runs with equal headers make the same rows."""

    study: str
    model: str
    values: str
    """Fingerprint of parameters, buffers and training flags."""
    change: str
    """Description of the edit."""
    sites: tuple[str, ...]
    n_rows: int
    rows: str
    """Fingerprint of the names of all rows."""
    shape: tuple[int, ...]
    """Shape of the metric."""
    baseline: tuple[float, ...]
    """The metric of all runs without an edit."""

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
    ) -> StudyHeader:
        return StudyHeader(
            study=study,
            model=model,
            values=values,
            change=change,
            sites=tuple(dict.fromkeys(sites)),
            n_rows=len(rows),
            rows=text_fingerprint("\n".join(rows)),
            shape=baseline.shape[1:],
            baseline=tuple(baseline.ravel().tolist()),
        )


_LABELS = {
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
    """The finished rows of a study; on disk if there is a path."""

    def __init__(self, path: str | Path | None, header: StudyHeader) -> None:
        self.done: dict[int, NDArray[np.float64]] = {}
        self.baseline = header.baseline
        """The baseline of the file, if there is one."""
        self._header = header
        self._file: BinaryIO | None = None
        if path is None:
            return
        self.path = _journal_path(Path(path), header.study)
        n_good = self._read() if self.path.exists() else 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("ab")
        if self._file.tell() > n_good:  # a line that was cut off
            self._file.truncate(n_good)
        if not n_good:
            self._write(
                {"study": header.study, "format": FORMAT, **asdict(header), "baseline": _plain(header.baseline)}
            )

    def add(self, row: int, name: str, score: NDArray[np.float64]) -> None:
        """Add a finished row."""
        self.done[row] = score
        self._write({"row": row, "name": name, "score": _plain(score.ravel().tolist())})

    def scores(self) -> NDArray[np.float64]:
        """The scores of all rows: (row, *metric)."""
        scores = np.empty((self._header.n_rows, *self._header.shape))
        for row in range(self._header.n_rows):
            scores[row] = self.done[row]
        return scores

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

    def _read(self) -> int:
        """Read the finished rows. Returns the length of the file up to the end of its last complete line."""
        data = self.path.read_bytes()
        first, *lines = data.split(b"\n")
        if not lines:
            # A process that is killed while it writes the header leaves a part of the first line.
            if data[: len(_BEGIN)] != _BEGIN[: len(data)]:
                raise InputError(f"{self.path} is not a study file: pass another path.")
            return 0
        self._check(first)
        for number, line in enumerate(lines[:-1], start=2):
            try:
                row = json.loads(line)
                score = np.array([float(each) for each in row["score"]]).reshape(self._header.shape)
                self.done[range(self._header.n_rows)[row["row"]]] = score
            except (ValueError, KeyError, TypeError, IndexError) as error:
                raise InputError(f"line {number} of {self.path} is not a row of a study: {error}.") from error
        return len(data) - len(lines[-1])

    def _check(self, first: bytes) -> None:
        """Raise if the file belongs to another study."""
        try:
            stored_header = json.loads(first)
            if stored_header["format"] != FORMAT:
                raise InputError(
                    f"{self.path} has format {stored_header['format']!r}, but this version reads {FORMAT}."
                )
            stored = {name: stored_header[name] for name in _LABELS}
            stored["baseline"] = [float(each) for each in stored["baseline"]]
        except (ValueError, KeyError, TypeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{self.path} is not a study file: pass another path.") from error
        current = asdict(self._header)
        for name, label in _LABELS.items():
            old, new = stored[name], current[name]
            if name == "baseline":
                if np.allclose(old, new, rtol=_CLOSE, atol=0, equal_nan=True):
                    self.baseline = tuple(old)
                    continue
                old, new = _short(old), _short(list(new))
            elif old == (list(new) if isinstance(new, tuple) else new):
                continue
            raise InputError(
                f"{self.path} holds another study and was not changed: its {label} is {_short(old)}, not "
                f"{_short(new)}. Pass another path, or repeat the same study."
            )


def _journal_path(path: Path, study: str) -> Path:
    return path if path.suffix == ".jsonl" else path / f"{study}.jsonl"


def _plain(values: Sequence[float]) -> list[float | str]:
    """Numbers for JSON; NaN and infinities as text that `float` can read."""
    # JSON has no NaN; Python's json would write one that other readers refuse.
    return [value if np.isfinite(value) else str(value) for value in values]


def _short(value: Any) -> str:
    return clipped(value if isinstance(value, str) else json.dumps(value), 118)
