"""How many claims one call is to bring: a bounded number, and a bounded length as far as the last ones tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from millgate.message import Claim

#: Most claims of one call. More would weigh on this process, and save the broker little.
MOST: Final = 300
#: … while no length is known: never longer than that where topics bound their records as by default.
FIRST: Final = 32
#: Bytes of their records. More would take its time to arrive, and renewals may have to wait behind it.
_HEAVY: Final = 8 * 2**20


def portion(claims: Sequence[Claim]) -> int:
    """The number for the next call after one that brought these."""
    size = sum(len(claim.record) for claim in claims)
    return max(1, min(MOST, _HEAVY * len(claims) // max(1, size)))
