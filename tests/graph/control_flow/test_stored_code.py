"""The fingerprint of a piece of code is the same in every process, and another for other code."""

from __future__ import annotations

from contextlib import redirect_stdout
from io import StringIO

from tests import warm_python

from cutaway.graph.control_flow.source import Source, source_of
from cutaway.graph.control_flow.stored_code import StoredCode, fingerprint_of

_SCRIPT = """
from cutaway.graph.control_flow.stored_code import fingerprint_of
text = "def f(x, *, y=2):\\n    inner = lambda z: z in {'a', 'b', 'c', 'd', 1.5}\\n    return inner(x) + y"
print(fingerprint_of(compile(text, "model.py", "exec")))
"""


def code(text: str) -> object:
    return compile(text, "model.py", "exec")


def test_the_same_code_has_the_same_fingerprint_in_every_process() -> None:
    # This process and another, each with its own salt of hashes.
    with redirect_stdout(StringIO()) as printed:
        exec(_SCRIPT, {})
    other = warm_python.run(["-c", _SCRIPT], skips_teardown=True, check=True).stdout
    assert printed.getvalue() == other != ""


def test_other_code_has_another_fingerprint() -> None:
    texts = [
        "x = 1",
        "x = 1.0",
        "x = 2",
        "\nx = 1",
        "y = 1",
        "x = (1, 2)",
        "x = [1, 2]",
        "x = lambda: 1",
        "x = lambda: 2",
    ]
    assert len({fingerprint_of(code(text)) for text in texts}) == len(texts)  # type: ignore[arg-type]


def test_code_that_was_stored_tells_its_lines() -> None:
    stored = StoredCode("model.py", "Net.forward", "0123", {4: (12, "x = relu(x)")})
    assert fingerprint_of(stored) == "0123"
    assert source_of(stored, 4) == Source("model.py", 12, "Net.forward")
    found = source_of(stored, 4)
    assert found is not None
    assert found.text == "x = relu(x)"
