"""How evenly loads are shared out: the same numbers for the shard plan, the report and what-if."""

from collections.abc import Sequence


def gini(loads: Sequence[int]) -> float:
    """Gini coefficient: 0 is even, near 1 one has all; 0 where there is no load."""
    total = sum(loads)
    if not total:
        return 0.0
    n = len(loads)
    ranked = sum(rank * load for rank, load in enumerate(sorted(loads), 1))
    return 2 * ranked / (n * total) - (n + 1) / n


def max_over_mean(loads: Sequence[int]) -> float:
    """How much more than its part the most loaded one has: 1 is even; 0 where there is nothing."""
    total = sum(loads)
    return max(loads) * len(loads) / total if total else 0.0
