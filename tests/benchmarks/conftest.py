"""`benchmarks` is a folder of the repository and no installed package: make it importable."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
