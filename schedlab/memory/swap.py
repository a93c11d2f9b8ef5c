"""Room for the images of swapped-out sequences, in two tiers with a byte budget each. Accounting only."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from schedlab.device import Ticket

GIB = 1 << 30


class Tier(StrEnum):
    """Where an image is kept."""

    HOST = "host"
    DISK = "disk"


@dataclass(slots=True)
class Image:
    """The KV blocks of a swapped-out sequence, in the order of its table.

    `written` names the last copy that writes it, until that has ended.
    """

    tier: Tier
    num_blocks: int
    num_bytes: int
    written: Ticket | None


class SwapSpace:
    """Bytes taken of each tier. Law: never more than its budget, and nothing when nobody is swapped out."""

    __slots__ = ("budget_bytes", "used_bytes")

    def __init__(self, host_bytes: int, disk_bytes: int) -> None:
        self.budget_bytes = {Tier.HOST: host_bytes, Tier.DISK: disk_bytes}
        self.used_bytes = {Tier.HOST: 0, Tier.DISK: 0}

    def has_room(self, tier: Tier, num_bytes: int) -> bool:
        """Would an image of that size fit now?"""
        return self.used_bytes[tier] + num_bytes <= self.budget_bytes[tier]

    def take(self, tier: Tier, num_bytes: int) -> None:
        """An image is written; there must be room for it."""
        assert self.has_room(tier, num_bytes)
        self.used_bytes[tier] += num_bytes

    def give_back(self, tier: Tier, num_bytes: int) -> None:
        """An image is dropped."""
        self.used_bytes[tier] -= num_bytes
