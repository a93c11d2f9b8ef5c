"""The links of the simulated device: copies take turns on each, and overlap with compute and with other links."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from backends.sim.clock import Clock
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


HOST_LATENCY_NS = 10_000
# PCIe 4.0 x16 carries 32 GB/s a direction (PCI-SIG), about 25 of them as payload; a data-centre NVMe drive reads about
# 7 GB/s and writes about 4 (public data sheets of PCIe 4.0 x4 drives).
DEFAULT_LINKS: dict[CopyKind, LinkSpec] = {
    CopyKind.DEVICE_TO_HOST: LinkSpec(25_000_000_000, HOST_LATENCY_NS),
    CopyKind.HOST_TO_DEVICE: LinkSpec(25_000_000_000, HOST_LATENCY_NS),
    CopyKind.HOST_TO_DISK: LinkSpec(4_000_000_000, 100_000),
    CopyKind.DISK_TO_HOST: LinkSpec(7_000_000_000, 100_000),
}


# A copy of many small blocks reaches about this share of a link's data-sheet bandwidth: an assumption, near the 25 of
# 32 GB/s that PCIe 4.0 x16 is known for.
HOST_LINK_PERCENT = 80


def links_of(host_link_bytes_per_s: int) -> dict[CopyKind, LinkSpec]:
    """The default links, those to the host as fast as a GPU's data sheet and `HOST_LINK_PERCENT` say."""
    host = LinkSpec(host_link_bytes_per_s * HOST_LINK_PERCENT // 100, HOST_LATENCY_NS)
    return {**DEFAULT_LINKS, CopyKind.DEVICE_TO_HOST: host, CopyKind.HOST_TO_DEVICE: host}


class CopyTicket(NamedTuple):
    """A copy, when it has its link, and why it fails if it does."""

    number: int
    kind: CopyKind
    request_id: int
    num_bytes: int
    start_quanta: int
    end_quanta: int
    error: str = ""


class Links:
    """First come, first served on each link; a copy starts when its link is free and what it waits for has ended.

    Attributes:
        on_begin: told of every copy as soon as its place on the link is known.
        on_done: told of every copy when it ends.
    """

    __slots__ = ("_clock", "_free_at", "_num_copies", "_specs", "on_begin", "on_done")

    def __init__(self, clock: Clock, specs: Mapping[CopyKind, LinkSpec] = DEFAULT_LINKS) -> None:
        self._clock = clock
        self._specs = specs
        self._free_at = dict.fromkeys(specs, 0)
        self._num_copies = 0
        self.on_begin: list[Callable[[CopyTicket], None]] = []
        self.on_done: list[Callable[[CopyTicket], None]] = []

    def copy(self, op: CopyOp) -> CopyTicket:
        """Take a place on the link."""
        start = self._start_quanta(op)
        end = start + self.duration_quanta(op.kind, op.num_bytes, start)
        return self._place(op, start, end, self.error_of(op, end))

    def copy_for(self, op: CopyOp, duration_quanta: int, error: str = "") -> CopyTicket:
        """Take a place on the link for a time that is known already, and fail at its end if there is an error."""
        start = self._start_quanta(op)
        return self._place(op, start, start + duration_quanta, error)

    def queue_ns(self, kind: CopyKind) -> int:
        """Time until the link is free of the copies that have it."""
        return quanta_to_ns(max(0, self._free_at[kind] - self._clock.now_quanta()))

    def _start_quanta(self, op: CopyOp) -> int:
        """When the link is free and what the copy waits for has ended."""
        ends = (self.end_quanta(ticket) for ticket in op.after)
        return max(self._clock.now_quanta(), self._free_at[op.kind], *ends)

    def _place(self, op: CopyOp, start: int, end: int, error: str) -> CopyTicket:
        self._free_at[op.kind] = end
        self._num_copies += 1
        ticket = CopyTicket(self._num_copies, op.kind, op.request_id, op.num_bytes, start, end, error)
        self._clock.at(end, lambda _: self._announce(ticket))
        for notify in self.on_begin:
            notify(ticket)
        return ticket

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        """Time until a copy that began now would end, behind those that have its link before it."""
        now = self._clock.now_quanta()
        start = max(self._free_at[kind], now)
        return quanta_to_ns(start - now + self.duration_quanta(kind, num_bytes, start))

    def read_quanta(self, num_bytes: int, start_quanta: int) -> int:
        """Time to bring bytes from disk to the device, for a step that reads them itself from then on."""
        kinds = (CopyKind.DISK_TO_HOST, CopyKind.HOST_TO_DEVICE)
        return sum(self.duration_quanta(kind, num_bytes, start_quanta) for kind in kinds)

    def duration_quanta(self, kind: CopyKind, num_bytes: int, start_quanta: int) -> int:
        """Time on the link of a copy that has it from `start_quanta` on."""
        return self._specs[kind].duration_quanta(num_bytes)

    def error_of(self, op: CopyOp, end_quanta: int) -> str:
        """Why the copy fails when it ends; here none does."""
        return ""

    def end_quanta(self, ticket: Ticket) -> int:
        """When a copy ends; nothing else can be waited for here."""
        assert isinstance(ticket, CopyTicket)
        return ticket.end_quanta

    def _announce(self, ticket: CopyTicket) -> None:
        for notify in self.on_done:
            notify(ticket)
