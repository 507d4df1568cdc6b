"""Archives in memory fulfill the contract."""

from __future__ import annotations

from uuid import uuid4

import pytest
from tests.store.contract import BackendContract

from cutaway.store.backends.backend import Backend, backend_for


class TestMemory(BackendContract):
    @pytest.fixture
    def backend(self) -> Backend:
        return backend_for(f"memory://{uuid4()}")


def test_two_urls_are_two_places() -> None:
    one, other = backend_for("memory://test/one"), backend_for("memory://test/other")
    one.put("x", b"1")
    assert other.names() == []
    one.remove("x")
