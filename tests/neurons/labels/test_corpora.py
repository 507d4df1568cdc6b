"""Corpora are read line by line, and a line that cannot be aligned is named."""

from __future__ import annotations

from pathlib import Path

import datasets
import numpy as np
import pytest
from tests.collecting import tiny

from cutaway.collecting.collect import collect
from cutaway.core.errors import InputError
from cutaway.neurons.labels.corpora import read_conll, read_conllu, read_dataset, read_lines, read_tsv
from cutaway.store.activations.activations import Activations

CONLLU = """\
# sent_id = 1
# text = Vámonos al mar
1-2\tVámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tVamos\tir\tVERB\t_\tMood=Imp|Number=Plur\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\tNumber=Plur\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\tNumber=Sing\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\tNumber=Sing\t1\tobl\t_\tSpaceAfter=No
5.1\tya\tya\tADV\t_\t_\t_\t_\t_\t_

# sent_id = 2
1\t#\t#\tSYM\t_\t_\t0\troot\t_\t_
"""


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_conllu_gives_syntactic_words_and_any_column(tmp_path: Path) -> None:
    path = write(tmp_path / "x.conllu", CONLLU)
    corpus = read_conllu(path)
    assert corpus.sentences == (["Vamos", "nos", "a", "el", "mar"], ["#"])
    assert corpus.labels == (("VERB", "PRON", "ADP", "DET", "NOUN"), ("SYM",))
    assert read_conllu(path, label="deprel").labels[0] == ("root", "obj", "case", "det", "obl")
    assert read_conllu(path, label="feats.Number").labels == (("Plur", "Plur", None, "Sing", "Sing"), (None,))
    assert read_conllu(path, label="misc.SpaceAfter").labels[0][-1] == "No"
    with pytest.raises(InputError, match="CoNLL-U has no column 'pos'"):
        read_conllu(path, label="pos")


def test_a_line_of_conllu_with_a_column_too_few_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"x\.conllu, line 2: found 4 columns, but CoNLL-U has 10"):
        read_conllu(write(tmp_path / "x.conllu", "# a\n1\ta\tb\tc\n"))


def test_conll_takes_tabs_spaces_documents_and_a_missing_last_line(tmp_path: Path) -> None:
    text = "-DOCSTART- -X- O O\n\nEU NNP B-NP B-ORG\nrejects VBZ B-VP O\r\n\n\n# NN B-NP O\n. . O O"
    corpus = read_conll(write(tmp_path / "x.conll", text))
    assert corpus.sentences == (["EU", "rejects"], ["#", "."])
    assert corpus.labels == (("B-ORG", "O"), ("O", "O"))
    assert read_conll(tmp_path / "x.conll", label=1).labels[0] == ("NNP", "VBZ")
    tabs = write(tmp_path / "y.conll", "New York\tNP\nis\tV\n")
    assert read_conll(tabs).sentences == (["New York", "is"],)
    with pytest.raises(InputError, match=r"z\.conll, line 3: found 1 column, needs 2"):
        read_conll(write(tmp_path / "z.conll", "a X\n\nb\n"), label=1)
    with pytest.raises(InputError, match="has no sentences"):
        read_conll(write(tmp_path / "empty.conll", "\n\n"))


def test_tsv_by_number_by_name_in_pairs_and_with_real_numbers(tmp_path: Path) -> None:
    plain = write(tmp_path / "a.tsv", 'a "good film\t1\nbad\t0\n\n')
    assert read_tsv(plain).sentences == ('a "good film', "bad")  # a quotation mark is one
    assert read_tsv(plain).labels == ("1", "0")
    assert read_tsv(plain, numbers=True).labels == (1.0, 0.0)
    named = write(tmp_path / "b.tsv", "\ufeffscore\tone\ttwo\n2.5\tA cat.\tA dog.\n")
    corpus = read_tsv(named, text=("one", "two"), label="score", numbers=True)
    assert (corpus.sentences, corpus.labels, corpus.level) == ((("A cat.", "A dog."),), (2.5,), "sentence")
    commas = write(tmp_path / "c.csv", '"a, b",x\n')
    assert read_tsv(commas, separator=",").sentences == ("a, b",)
    with pytest.raises(InputError, match=r"no column 'tow'\. Did you mean 'two'\? Columns: score, one, two"):
        read_tsv(named, text="tow", label="score")
    with pytest.raises(InputError, match=r"a\.tsv, line 1: the label 'x' is not a number"):
        read_tsv(write(tmp_path / "a.tsv", "t\tx\n"), numbers=True)
    with pytest.raises(InputError, match=r"a\.tsv, line 2: found 1 column, needs 2"):
        read_tsv(write(tmp_path / "a.tsv", "t\tx\nt\n"), label=1)


def test_lines_of_words_and_labels_as_neurox_has_them(tmp_path: Path) -> None:
    words = write(tmp_path / "w", "the cat\nsat\n")
    corpus = read_lines(words, write(tmp_path / "l", "D N\nV\n"))
    assert (corpus.sentences, corpus.labels, corpus.level) == ((["the", "cat"], ["sat"]), (("D", "N"), ("V",)), "word")
    assert read_lines(words, write(tmp_path / "s", "good one\nbad\n"), per="sentence").labels == ("good one", "bad")
    with pytest.raises(
        InputError, match=r"1 line of .*w with a different number of labels: line 2 \(1 word, 2 labels\)"
    ):
        read_lines(words, write(tmp_path / "m", "D N\nV X\n"))
    with pytest.raises(InputError, match=r"w has 2 lines, but .*n has 1"):
        read_lines(words, write(tmp_path / "n", "D N\n"))


def test_columns_of_a_hugging_face_dataset(tmp_path: Path) -> None:
    names = datasets.ClassLabel(names=["O", "PER"])
    tagged = datasets.Dataset.from_dict(
        {"tokens": [["Ada", "wrote"], ["x"]], "tags": [[1, 0], [0]]},
        features=datasets.Features(
            {"tokens": datasets.Sequence(datasets.Value("string")), "tags": datasets.Sequence(names)}
        ),
    )
    corpus = read_dataset(tagged, text="tokens", label="tags")
    assert (corpus.sentences, corpus.labels, corpus.level) == (
        (["Ada", "wrote"], ["x"]),
        (("PER", "O"), ("O",)),
        "word",
    )
    pairs = datasets.Dataset.from_dict(
        {"a": ["x", "y"], "b": ["z", "w"], "label": [1, -1], "score": [0.5, 1.5]},
        features=datasets.Features(
            {
                "a": datasets.Value("string"),
                "b": datasets.Value("string"),
                "label": names,
                "score": datasets.Value("float32"),
            }
        ),
    )
    assert read_dataset(pairs, text=("a", "b"), label="label").sentences == (("x", "z"), ("y", "w"))
    assert read_dataset(pairs, text="a", label="label").labels == ("PER", None)  # -1 is no class
    assert read_dataset(pairs, text="a", label="score").labels == (0.5, 1.5)
    several = datasets.Dataset.from_dict({"text": ["x", "y"], "emotions": [["joy"], ["joy", "fear"]]})
    found = read_dataset(several, text="text", label="emotions")
    assert (found.labels, found.level) == ((("joy",), ("joy", "fear")), "sentence")
    with pytest.raises(InputError, match=r"no column 'text'\. Columns: tokens, tags"):
        read_dataset(tagged, text="text", label="tags")
    wrong = datasets.Dataset.from_dict({"tokens": [["a", "b"]], "tags": [["X"]]})
    with pytest.raises(InputError, match="row 0 of the dataset has 2 words, but 1 label"):
        read_dataset(wrong, text="tokens", label="tags")


def test_a_corpus_labels_the_rows_of_its_activations(tmp_path: Path) -> None:
    corpus = read_lines(write(tmp_path / "w", "the cat\nsat\n"), write(tmp_path / "l", "D N\nV\n"))
    acts = Activations.of(np.zeros((3, 1)), words=[list(words) for words in corpus.sentences])
    assert corpus.of_rows(acts) == ["D", "N", "V"]
    again = collect(tiny.bert(), corpus.sentences, tokenizer=tiny.minilm()[1], at="embeddings")
    assert (again.sentences, corpus.of_rows(again)) == ([["the", "cat"], ["sat"]], ["D", "N", "V"])
    sentences = read_tsv(write(tmp_path / "t", "the cat\tgood\nsat\tbad\n"))
    assert sentences.of_rows(acts) == ["good", "good", "bad"]
