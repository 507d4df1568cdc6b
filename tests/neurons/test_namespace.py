"""`cutaway.neurons` offers what it says, every time it is asked."""

from __future__ import annotations

import subprocess
import sys

import pytest

import cutaway


def test_every_name_is_found_again_and_documented() -> None:
    for _ in range(2):  # a module of the same name would have taken its place
        for name in cutaway.neurons.__all__:
            found = getattr(cutaway.neurons, name)
            assert callable(found), name
            assert found.__doc__, name
    assert dir(cutaway.neurons) == cutaway.neurons.__all__
    with pytest.raises(AttributeError, match="It has Span, ablate, "):
        _ = cutaway.neurons.nothing


def test_the_namespace_and_the_streaming_methods_need_no_torch() -> None:
    code = (
        "import sys, cutaway; cutaway.neurons.rank([[0.0, 1.0]] * 2 + [[1.0, 3.0]] * 2, [0, 0, 1, 1]);"
        "assert not {'torch', 'sklearn', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
