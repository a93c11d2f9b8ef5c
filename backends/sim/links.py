"""The links of the simulated device: copies take turns on each, and overlap with compute and with other links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from backends.sim.clock import SimClock
from schedlab.device import CopyKind, CopyOp, Ticket
from schedlab.pace import QUANTA_PER_NS, ns_to_quanta, quanta_to_ns

NS_PER_S = 1_000_000_000


class LinkSpec(NamedTuple):
    """One direction of one link."""

    bytes_per_s: int
    latency_ns: int

    def duration_quanta(self, num_bytes: int) -> int:
        """Time on the link, rounded up to a quantum."""
        return ns_to_quanta(self.latency_ns) - (-num_bytes * NS_PER_S * QUANTA_PER_NS // self.bytes_per_s)


# PCIe 4.0 x16 carries 32 GB/s a direction (PCI-SIG), about 25 of them as payload; a data-centre NVMe drive reads about
# 7 GB/s and writes about 4 (public data sheets of PCIe 4.0 x4 drives).
DEFAULT_LINKS: dict[CopyKind, LinkSpec] = {
    CopyKind.DEVICE_TO_HOST: LinkSpec(25_000_000_000, 10_000),
    CopyKind.HOST_TO_DEVICE: LinkSpec(25_000_000_000, 10_000),
    CopyKind.HOST_TO_DISK: LinkSpec(4_000_000_000, 100_000),
    CopyKind.DISK_TO_HOST: LinkSpec(7_000_000_000, 100_000),
}


class CopyTicket(NamedTuple):
    """A copy and when it ends."""

    number: int
    end_quanta: int


class Links:
    """First come, first served on each link; a copy starts when its link is free and what it waits for has ended."""

    __slots__ = ("_clock", "_free_at", "_num_copies", "_specs", "on_done")

    def __init__(self, clock: SimClock, specs: Mapping[CopyKind, LinkSpec] = DEFAULT_LINKS) -> None:
        self._clock = clock
        self._specs = specs
        self._free_at = dict.fromkeys(specs, 0)
        self._num_copies = 0
        self.on_done: list[Callable[[CopyTicket], None]] = []

    def copy(self, op: CopyOp) -> CopyTicket:
        """Take a place on the link."""
        ready = max([self._clock.now_quanta(), *(self.end_quanta(ticket) for ticket in op.after)])
        start = max(ready, self._free_at[op.kind])
        end = start + self._specs[op.kind].duration_quanta(op.num_bytes)
        self._free_at[op.kind] = end
        self._num_copies += 1
        ticket = CopyTicket(self._num_copies, end)
        self._clock.at(end, lambda _: self._announce(ticket))
        return ticket

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """Time until a copy that began now would end, behind those that have its link before it."""
        waiting = max(self._free_at[kind] - self._clock.now_quanta(), 0)
        return quanta_to_ns(waiting + self._specs[kind].duration_quanta(num_bytes))

    def read_quanta(self, num_bytes: int) -> int:
        """Time to bring bytes from disk to the device, for a step that reads them itself."""
        kinds = (CopyKind.DISK_TO_HOST, CopyKind.HOST_TO_DEVICE)
        return sum(self._specs[kind].duration_quanta(num_bytes) for kind in kinds)

    def end_quanta(self, ticket: Ticket) -> int:
        """When a copy ends; nothing else can be waited for here."""
        assert isinstance(ticket, CopyTicket)
        return ticket.end_quanta

    def _announce(self, ticket: CopyTicket) -> None:
        for notify in self.on_done:
            notify(ticket)
