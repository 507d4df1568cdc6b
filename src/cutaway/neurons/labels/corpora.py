"""Sentences and their labels out of CoNLL, CoNLL-U and TSV files, lines of text, and Hugging Face datasets."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from cutaway.core.errors import InputError
from cutaway.neurons.labels.align import Labels, sentence_labels, token_labels
from cutaway.store.activations.activations import Activations

Path = str | os.PathLike[str]
CONLLU: Final = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of CoNLL-U by name."""
_DOCUMENT: Final = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class Corpus:
    """Sentences with labels: of each word, or of each sentence."""

    sentences: tuple[list[str] | str | tuple[Any, Any], ...]
    """As `collect` takes them: the words of each, a list; or its text, where the words are not known; or a pair."""
    labels: tuple[Any, ...]
    """For each sentence its label, or the labels of its words."""
    level: Literal["word", "sentence"]

    def __len__(self) -> int:
        return len(self.sentences)

    def of_rows(self, acts: Activations) -> Labels:
        """The label of each row of activations that were collected from these sentences."""
        spread = token_labels if self.level == "word" else sentence_labels
        return spread(acts, self.labels)

    def __repr__(self) -> str:
        return f"<Corpus of {len(self):,} sentences, a label for each {self.level}>"


def read_conll(path: Path, *, label: int = -1, word: int = 0, separator: str | None = None) -> Corpus:
    """A file with a word a line, its columns parted by tabs or spaces, and an empty line behind each sentence.

    Args:
        label: the column of the labels, counted from 0, or from the end.
        word: the column of the words.
        separator: what parts the columns: a tab where the line has one, else white space.
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
    """A CoNLL-U treebank; words made of several (`3-4`) and empty nodes (`3.1`) are passed over, their parts kept.

    Args:
        label: a column by name (`upos`, `xpos`, `lemma`, `deprel`, …), or a feature: `feats.Number`. A word without
            that feature has the label None.
    """
    column, _, feature = label.partition(".")
    if column not in CONLLU or (feature and column not in ("feats", "misc")):
        raise InputError(f"{label!r} is no column of CoNLL-U: {', '.join(CONLLU)}, or a feature as 'feats.Number'.")
    place = CONLLU.index(column)
    sentences: list[list[str]] = []
    labels: list[tuple[str | None, ...]] = []
    for lines in _paragraphs(path):
        rows = [(number, line.split("\t")) for number, line in lines if not line.startswith("#")]
        for number, columns in rows:
            if len(columns) != len(CONLLU):
                raise InputError(f"{_name(path)}, line {number}: {len(columns)} columns, and CoNLL-U has ten.")
        kept = [columns for _, columns in rows if columns[0].isdecimal()]
        if kept:
            sentences.append([columns[1] for columns in kept])
            labels.append(tuple(_feature(columns[place], feature) for columns in kept))
    return _corpus(path, sentences, labels, "word")


def read_tsv(
    path: Path,
    *,
    text: int | str | tuple[int | str, int | str] = 0,
    label: int | str = -1,
    numbers: bool = False,
    separator: str = "\t",
) -> Corpus:
    """A table with a sentence a line, and its label.

    Args:
        text: the column of the text, or the two of a pair; by number, or by the name in the first line.
        label: the column of the label, likewise. If any column has a name, the first line is a heading.
        numbers: whether the labels are real numbers.
    """
    texts = text if isinstance(text, tuple) else (text,)
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(enumerate(csv.reader(file, delimiter=separator, quoting=_quoting(separator)), 1))
    rows = [(number, row) for number, row in rows if any(cell.strip() for cell in row)]
    heading: list[str] = []
    if rows and any(isinstance(column, str) for column in (*texts, label)):
        heading, rows = rows[0][1], rows[1:]
    places = [_place(path, column, heading) for column in texts]
    own = _place(path, label, heading)
    for number, row in rows:
        _check_columns(path, number, row, *places, own)
    sentences = [tuple(row[place] for place in places) if len(places) > 1 else row[places[0]] for _, row in rows]
    labels = [_number(path, number, row[own]) if numbers else row[own] for number, row in rows]
    return _corpus(path, sentences, labels, "sentence")


def read_lines(words: Path, labels: Path, *, per: Literal["word", "sentence"] = "word") -> Corpus:
    """Two files with a sentence a line: its words, and their labels, each parted by white space. NeuroX has such files.

    Args:
        per: whether each word has a label, or each line of labels is the label of the sentence.
    """
    sentences, found = _lines(words), _lines(labels)
    if len(sentences) != len(found):
        raise InputError(f"{_name(words)} has {len(sentences):,} lines, {_name(labels)} {len(found):,}.")
    split = [line.split() for line in sentences]
    if per == "sentence":
        return _corpus(words, split, [line.strip() for line in found], "sentence")
    tags = [tuple(line.split()) for line in found]
    wrong = [
        f"line {number} ({len(own)} words, {len(theirs)} labels)"
        for number, (own, theirs) in enumerate(zip(split, tags, strict=True), 1)
        if len(own) != len(theirs)
    ]
    if wrong:
        more = f" and {len(wrong) - 5:,} more" if len(wrong) > 5 else ""
        raise InputError(
            f"{len(wrong):,} lines of {_name(words)} do not fit their labels: {', '.join(wrong[:5])}{more}."
        )
    return _corpus(words, split, tags, "word")


def read_dataset(dataset: Any, *, text: str | tuple[str, str], label: str) -> Corpus:
    """Two columns of a Hugging Face dataset; numbers that stand for names of classes become the names.

    Args:
        text: the column of the words (lists) or of the text, or the two of a pair.
        label: the column of the labels, of words or of sentences.
    """
    columns = [text] if isinstance(text, str) else list(text)
    known = list(getattr(dataset, "column_names", None) or [])
    for column in (*columns, label):
        if known and column not in known:
            raise InputError(f"this dataset has no column {column!r}. It has: {', '.join(map(str, known))}.")
    texts = [[_words(value) for value in dataset[column]] for column in columns]
    sentences = texts[0] if len(texts) == 1 else list(zip(*texts, strict=True))
    named = _class_names(getattr(dataset, "features", None), label)
    values = [_plain(value) for value in dataset[label]]
    is_nested = any(isinstance(value, (list, tuple)) for value in values)
    is_words = is_nested and all(isinstance(sentence, list) for sentence in sentences) and len(texts) == 1
    if is_words:
        for number, (words, own) in enumerate(zip(sentences, values, strict=True)):
            if len(words) != len(own):
                raise InputError(f"row {number} of the dataset has {len(words)} words and {len(own)} labels.")
    labels = [tuple(map(named, value)) if isinstance(value, (list, tuple)) else named(value) for value in values]
    return _corpus("the dataset", sentences, labels, "word" if is_words else "sentence")


# parts of files


def _paragraphs(path: Path) -> Iterator[list[tuple[int, str]]]:
    """Lines with their numbers, up to each empty one."""
    found: list[tuple[int, str]] = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            stripped = line.rstrip("\r\n")
            if stripped.strip():
                found.append((number, stripped))
            elif found:
                yield found
                found = []
    if found:
        yield found


def _lines(path: Path) -> list[str]:
    with open(path, encoding="utf-8-sig") as file:
        return file.read().removesuffix("\n").split("\n")


def _columns(line: str, separator: str | None) -> list[str]:
    return line.split(separator or ("\t" if "\t" in line else None))


def _check_columns(path: Path, number: int, row: Sequence[str], *columns: int) -> None:
    needed = max(column + 1 if column >= 0 else -column for column in columns)
    if len(row) < needed:
        raise InputError(f"{_name(path)}, line {number}: {len(row)} columns, and {needed} are needed.")


def _feature(value: str, feature: str) -> str | None:
    if not feature:
        return value
    pairs = dict(pair.partition("=")[::2] for pair in value.split("|"))
    return pairs.get(feature)


def _place(path: Path, column: int | str, heading: Sequence[str]) -> int:
    if isinstance(column, int):
        return column
    if column not in heading:
        raise InputError(f"{_name(path)} has no column {column!r}. Its first line is: {', '.join(heading)}.")
    return list(heading).index(column)


def _number(path: Path, number: int, cell: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise InputError(f"{_name(path)}, line {number}: the label {cell!r} is no number.") from None


def _quoting(separator: str) -> Literal[0, 3]:
    return csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL  # a quotation mark in a TSV is one


def _name(path: Path) -> str:
    return os.fspath(path)


def _corpus(path: Path, sentences: Any, labels: Any, level: Literal["word", "sentence"]) -> Corpus:
    if not sentences:
        raise InputError(f"{_name(path)} holds no sentence.")
    return Corpus(tuple(sentences), tuple(labels), level)


# parts of datasets


def _class_names(features: Any, label: str) -> Any:
    """What gives the name of a class for its number; anything else as it is."""
    inner: Any = features.get(label) if hasattr(features, "get") else None
    while getattr(inner, "feature", None) is not None:  # a list of them
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
