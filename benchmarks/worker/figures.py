"""Numbers by name, and what is said of many of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

Figures = dict[str, float]


def quantile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def medians(rounds: Sequence[Figures]) -> Figures:
    """Of each number that every round has."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}
