"""Measurements of Millgate, and of its peers on the same server in the same call: `python -m benchmarks`."""

from __future__ import annotations

import sys
from pathlib import Path

# servers and broken connections are those of the tests
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
