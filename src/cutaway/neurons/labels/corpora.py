"""Reads labeled sentences from CoNLL, CoNLL-U, TSV and text files and Hugging Face datasets."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from cutaway.core.errors import InputError
from cutaway.core.formatting import hint, listed, plural
from cutaway.neurons.labels.align import Labels, sentence_labels, token_labels
from cutaway.store.activations.activations import Activations

Path = str | os.PathLike[str]
CONLLU: Final = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""Names of the CoNLL-U columns."""
_DOCUMENT: Final = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences with one label per word or per sentence."""

    sentences: tuple[list[str] | str | tuple[Any, Any], ...]
    """In the form that `collect` takes: a list of words, a text, or a pair of texts."""
    labels: tuple[Any, ...]
    """The label of each sentence, or the labels of its words."""
    level: Literal["word", "sentence"]

    def __len__(self) -> int:
        return len(self.sentences)

    def of_rows(self, acts: Activations) -> Labels:
        """One label per row of activations collected from these sentences."""
        align = token_labels if self.level == "word" else sentence_labels
        return align(acts, self.labels)

    def __repr__(self) -> str:
        return f"<Corpus of {len(self):,} sentences, a label for each {self.level}>"


def read_conll(path: Path, *, label: int = -1, word: int = 0, separator: str | None = None) -> Corpus:
    """Read a file with one word per line, columns separated by tabs or spaces, and empty lines between sentences.

    Args:
        path: the file to read.
        label: the column of the labels, counted from 0; negative numbers count from the end.
        word: the column of the words.
        separator: the column separator; default: a tab if the line has one, else whitespace.
    """
    sentences: list[list[str]] = []
    labels: list[tuple[str, ...]] = []
    for lines in _paragraphs(path):
        rows = [(number, _columns(line, separator)) for number, line in lines if not line.startswith(_DOCUMENT)]
        for number, columns in rows:
            _check_columns(path, number, columns, word, label)
        if rows:
            sentences.append([columns[word] for _, columns in rows])
            labels.append(tuple(columns[label] for _, columns in rows))
    return _corpus(path, sentences, labels, "word")


def read_conllu(path: Path, *, label: str = "upos") -> Corpus:
    """Read a CoNLL-U treebank. Multiword tokens (`3-4`) and empty nodes (`3.1`) are skipped; their parts are kept.

    Args:
        path: the file to read.
        label: a column name (`upos`, `xpos`, `lemma`, `deprel`, …) or a feature such as `feats.Number`. Words without
            the feature get the label None.
    """
    column, _, feature = label.partition(".")
    if column not in CONLLU or (feature and column not in ("feats", "misc")):
        raise InputError(
            f"CoNLL-U has no column {label!r}. Columns: {', '.join(CONLLU)}, or a feature such as 'feats.Number'."
        )
    place = CONLLU.index(column)
    sentences: list[list[str]] = []
    labels: list[tuple[str | None, ...]] = []
    for lines in _paragraphs(path):
        rows = [(number, line.split("\t")) for number, line in lines if not line.startswith("#")]
        for number, columns in rows:
            if len(columns) != len(CONLLU):
                raise InputError(
                    f"{_name(path)}, line {number}: found {plural(len(columns), 'column')}, but CoNLL-U has 10."
                )
        words = [columns for _, columns in rows if columns[0].isdecimal()]
        if words:
            sentences.append([columns[1] for columns in words])
            labels.append(tuple(_feature(columns[place], feature) for columns in words))
    return _corpus(path, sentences, labels, "word")


def read_tsv(
    path: Path,
    *,
    text: int | str | tuple[int | str, int | str] = 0,
    label: int | str = -1,
    numbers: bool = False,
    separator: str = "\t",
) -> Corpus:
    """Read a table with one labeled sentence per line.

    Args:
        path: the file to read.
        text: the column of the text, or two columns of a pair; by index or by name in the header.
        label: the column of the label, by index or name. If you use names, the first line is the header.
        numbers: whether the labels are real numbers.
        separator: the column separator.
    """
    texts = text if isinstance(text, tuple) else (text,)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(enumerate(csv.reader(file, delimiter=separator, quoting=_quoting(separator)), 1))
    rows = [(number, row) for number, row in rows if any(cell.strip() for cell in row)]
    heading: list[str] = []
    if rows and any(isinstance(column, str) for column in (*texts, label)):
        heading, rows = rows[0][1], rows[1:]
    places = [_place(path, column, heading) for column in texts]
    label_place = _place(path, label, heading)
    for number, row in rows:
        _check_columns(path, number, row, *places, label_place)
    sentences = [tuple(row[place] for place in places) if len(places) > 1 else row[places[0]] for _, row in rows]
    labels = [_number(path, number, row[label_place]) if numbers else row[label_place] for number, row in rows]
    return _corpus(path, sentences, labels, "sentence")


def read_lines(words: Path, labels: Path, *, per: Literal["word", "sentence"] = "word") -> Corpus:
    """Read two files with one sentence per line, words and labels, separated by whitespace. NeuroX uses this format.

    Args:
        words: the file with the words.
        labels: the file with the labels.
        per: "word" for one label per word, "sentence" if each line of labels is the label of the sentence.
    """
    sentences, label_lines = _lines(words), _lines(labels)
    if len(sentences) != len(label_lines):
        raise InputError(f"{_name(words)} has {len(sentences):,} lines, but {_name(labels)} has {len(label_lines):,}.")
    split = [line.split() for line in sentences]
    if per == "sentence":
        return _corpus(words, split, [line.strip() for line in label_lines], "sentence")
    tags = [tuple(line.split()) for line in label_lines]
    wrong = [
        f"line {number} ({plural(len(line_words), 'word')}, {plural(len(line_tags), 'label')})"
        for number, (line_words, line_tags) in enumerate(zip(split, tags, strict=True), 1)
        if len(line_words) != len(line_tags)
    ]
    if wrong:
        n = plural(len(wrong), "line")
        raise InputError(f"{n} of {_name(words)} with a different number of labels: {listed(wrong, 5)}.")
    return _corpus(words, split, tags, "word")


def read_dataset(dataset: Any, *, text: str | tuple[str, str], label: str) -> Corpus:
    """Read two columns of a Hugging Face dataset. Class ids become class names.

    Args:
        dataset: a dataset of the `datasets` library, or a mapping from column to values.
        text: the column of the words (lists) or of the text, or two columns of a pair.
        label: the column of the labels, per word or per sentence.
    """
    columns = [text] if isinstance(text, str) else list(text)
    known = list(getattr(dataset, "column_names", None) or [])
    for column in (*columns, label):
        if known and column not in known:
            raise InputError(
                f"the dataset has no column {column!r}.{hint(column, known)} Columns: {listed(map(str, known), 12)}."
            )
    texts = [[_words(value) for value in dataset[column]] for column in columns]
    sentences = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
    named = _class_names(getattr(dataset, "features", None), label)
    values = [_plain(value) for value in dataset[label]]
    is_nested = any(isinstance(value, (list, tuple)) for value in values)
    is_words = is_nested and all(isinstance(sentence, list) for sentence in sentences) and len(texts) == 1
    if is_words:
        for number, (words, tags) in enumerate(zip(sentences, values, strict=True)):
            if len(words) != len(tags):
                n_words, n_labels = plural(len(words), "word"), plural(len(tags), "label")
                raise InputError(f"row {number} of the dataset has {n_words}, but {n_labels}.")
    labels = [tuple(map(named, value)) if isinstance(value, (list, tuple)) else named(value) for value in values]
    return _corpus("the dataset", sentences, labels, "word" if is_words else "sentence")


def _paragraphs(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Groups of numbered lines between empty lines."""
    # utf-8-sig: the byte order mark of files from Windows would become part of the first word.
    paragraph: list[tuple[int, str]] = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            stripped = line.rstrip("\r\n")
            if stripped.strip():
                paragraph.append((number, stripped))
            elif paragraph:
                yield paragraph
                paragraph = []
    if paragraph:
        yield paragraph


def _lines(path: Path) -> list[str]:
    with open(path, encoding="utf-8-sig") as file:
        # Not splitlines(): it also breaks at form feeds and U+2028, which occur inside sentences.
        return file.read().removesuffix("\n").split("\n")


def _columns(line: str, separator: str | None) -> list[str]:
    return line.split(separator or ("\t" if "\t" in line else None))


def _check_columns(path: Path, number: int, row: Sequence[str], *columns: int) -> None:
    needed = max(column + 1 if column >= 0 else -column for column in columns)
    if len(row) < needed:
        raise InputError(f"{_name(path)}, line {number}: found {plural(len(row), 'column')}, needs {needed}.")


def _feature(value: str, feature: str) -> str | None:
    if not feature:
        return value
    pairs = dict(pair.partition("=")[::2] for pair in value.split("|"))
    return pairs.get(feature)


def _place(path: Path, column: int | str, heading: Sequence[str]) -> int:
    if isinstance(column, int):
        return column
    if column not in heading:
        raise InputError(
            f"{_name(path)} has no column {column!r}.{hint(column, heading)} Columns: {listed(heading, 12)}."
        )
    return list(heading).index(column)


def _number(path: Path, number: int, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"{_name(path)}, line {number}: the label {cell!r} is not a number.") from None


def _quoting(separator: str) -> Literal[0, 3]:
    return (
        csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    )  # TSV has no quoting: a quotation mark is part of the text


def _name(path: Path) -> str:
    return os.fspath(path)


def _corpus(path: Path, sentences: Any, labels: Any, level: Literal["word", "sentence"]) -> Corpus:
    if not sentences:
        raise InputError(f"{_name(path)} has no sentences.")
    return Corpus(tuple(sentences), tuple(labels), level)


def _class_names(features: Any, label: str) -> Any:
    """A function that maps class ids to class names, and returns other values unchanged."""
    inner: Any = features.get(label) if hasattr(features, "get") else None
    while getattr(inner, "feature", None) is not None:  # a Sequence feature
        inner = inner.feature
    if isinstance(inner, list) and inner:
        inner = inner[0]
    names = getattr(inner, "names", None)
    if names is None:
        return lambda value: value
    return lambda value: names[value] if isinstance(value, int) and 0 <= value < len(names) else None


def _words(value: Any) -> Any:
    return value if isinstance(value, str) else list(value)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
