"""What every test here begins with: a process in which nothing is compiled."""

from tests.compiling import nothing_compiled as nothing_compiled
