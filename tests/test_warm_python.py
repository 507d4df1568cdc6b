"""Programs that are forked from a warm process are processes of their own."""

from __future__ import annotations

from tests import warm_python


def test_its_salt_of_hashes_is_another() -> None:
    """Tests that nothing depends on the salt compare what a program prints with what this process computes."""
    assert int(warm_python.run(["-c", "print(hash('salt'))"], skips_teardown=True, check=True).stdout) != hash("salt")
