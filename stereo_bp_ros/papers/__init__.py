"""Programs that repeat papers, beside the product."""

from __future__ import annotations


def memory_bound(width: int, height: int, disparities: int) -> int:
    """(5 + 10 n) M N values: what the AI 2009 paper's program allocates (its section 3.2)."""
    return (5 + 10 * disparities) * width * height
