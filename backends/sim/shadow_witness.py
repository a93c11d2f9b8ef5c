"""What one request has read and sampled, and what it would have sampled alone."""

from __future__ import annotations

from backends.sim.outputs import OutputModel
from backends.sim.shadow_content import MASK, Content, digest_of
from schedlab.invariants.contents import SOLO
from schedlab.request import Request
from schedlab.sequence import NOT_YET, Sequence

ALL_BLOCKS = 1 << 40


class Witness:
    """Follows a request from its first seat to its end.

    Attributes:
        deviation: 0 while everything read was right; else a hash of all that was read and was not. Everything that is
            sampled and written from then on depends on it.
        output_digest: the sum of the values of the outputs that it has sampled.
        slot: where its state is or was last.
    """

    __slots__ = ("_first_fault", "content", "deviation", "num_outputs", "output_digest", "slot")

    def __init__(self, request: Request, outputs: OutputModel, block_size: int, *, per_tenant: bool) -> None:
        prompt_keys = request.prompt.block_keys(block_size)
        output_keys = outputs.keys(request.request_id, len(prompt_keys), ALL_BLOCKS, block_size)
        namespace = (request.adapter, request.cache_salt, request.tenant if per_tenant else "")
        self.content = Content(request, prompt_keys, output_keys, block_size, namespace)
        self.deviation = 0
        self.num_outputs = 0
        self.slot = NOT_YET
        self.output_digest = 0
        self._first_fault = ""

    def value(self, first: int, last: int) -> int:
        """The sum of what it writes to positions `first` .. `last - 1`."""
        return self.content.total(first, last, self.deviation)

    def deviate(self, fault: str, read: tuple[int, ...]) -> None:
        """It has read something else than it should have."""
        if not self.deviation:
            self._first_fault = f"output {self.num_outputs}: {fault}"
        self.deviation = digest_of(self.deviation, *read) | 1

    def sample(self, count: int) -> None:
        """It samples its next `count` outputs."""
        first = self.content.num_prompt_tokens + self.num_outputs
        self.output_digest = (self.output_digest + self.value(first, first + count)) & MASK
        self.num_outputs += count

    def check(self, sequence: Sequence) -> None:
        """At its end.

        Raises:
            InvariantViolation: its outputs are not those of the same request alone.
        """
        if sequence.num_outputs != self.num_outputs:
            raise SOLO.broken(
                f"{sequence} ends with {sequence.num_outputs} outputs, {self.num_outputs} were sampled",
                sequence.request_id,
            )
        first = self.content.num_prompt_tokens
        alone = self.content.total(first, first + self.num_outputs)
        if self.output_digest != alone:
            raise SOLO.broken(
                f"request {sequence.request_id}, {self.num_outputs} outputs with digest {self.output_digest:016x}, "
                f"alone {alone:016x}; first at {self._first_fault}",
                sequence.request_id,
            )
