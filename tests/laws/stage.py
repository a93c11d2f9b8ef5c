"""A small run with a checker, that is damaged once as soon as it has come to a certain point."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from backends.sim.clock import SimClock
from backends.sim.costs.constant import Constant
from backends.sim.device import SimDevice
from backends.sim.outputs import Lengths
from backends.sim.process import SimProcess
from backends.sim.shadow_kv import ShadowDevice
from schedlab.config import AdmissionRule, PreemptionMode, SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.inbox import Close, Delivery, Submit
from schedlab.invariants import Checker
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.priority import Priority
from schedlab.request import Prompt, Request

SUBMIT, CLOSE = 0, 9
BLOCK = 4
STEP_NS = 1000


class Place(Enum):
    """Where the damage is done: between two ticks, or in `end_tick` just before the checker looks."""

    BETWEEN = "between two ticks"
    INSIDE = "inside end_tick"


def config(**rules: Any) -> SchedulerConfig:
    """Three seats, steps of 16 tokens, small blocks."""
    return SchedulerConfig(max_num_seqs=3, max_num_batched_tokens=16, block_size=BLOCK, **rules)


@dataclass(frozen=True)
class Scene:
    """A crowd of requests, each with a longer prompt and output than the one before it, that all begin alike."""

    config: SchedulerConfig
    num_blocks: int = 40
    num_requests: int = 7
    first_prompt_tokens: int = 6
    timeout_ns: int = 90_000
    dense: bool = False
    state_bytes: int = 0
    shadow: bool = False
    policy: Callable[[SchedulerConfig], Policy] = Fifo


CROWD = Scene(config())
CRAMPED = Scene(config(), num_blocks=12)
COMMIT = Scene(config(admission=AdmissionRule.COMMIT, watermark_tokens=2))
LONG = Scene(config(max_prefill_tokens=6), num_blocks=80, first_prompt_tokens=70)
CACHE = Scene(config(prefix_cache=True))
SWAP = Scene(config(preemption=PreemptionMode.HOST, swap_host_gib=1), num_blocks=12)
WINDOW = Scene(config(window_blocks=3, swap_disk_gib=1))
STATES = Scene(
    config(prefix_cache=True, snapshot_slots=4, snapshot_interval_blocks=1, snapshot_min_tokens=4),
    state_bytes=1 << 16,
)
EVICTING = Scene(config(), policy=lambda rules: Priority(rules, evict=True))
DENSE = Scene(config(), dense=True)
SHADOW = Scene(config(), shadow=True)


class Stage:
    """A scene that runs. Damages may do anything to it."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.clock = SimClock()
        self.outputs = Lengths()
        kind = ShadowDevice if scene.shadow else SimDevice
        facts = DeviceFacts(
            "sim",
            scene.num_blocks,
            block_bytes=1 << 16,
            state_bytes=scene.state_bytes,
            wants_dense_slots=scene.dense,
        )
        self.device = kind(self.clock, Constant(step_ns=STEP_NS), self.outputs, facts)
        self.core = Scheduler(scene.config, scene.policy(scene.config), self.device, leap=False)
        self.checker = Checker()

    def run(self, damage: Callable[[Stage], bool], place: Place) -> None:
        """To the end. `damage` is asked at each tick until it says that it has struck."""
        self._struck = False
        if isinstance(self.device, ShadowDevice):
            self.device.attach(self.core)
        if place is Place.INSIDE:
            self.wrap("end_tick", after=lambda: self._strike(damage))
        self.checker.attach(self.core)
        if place is Place.BETWEEN:
            self.wrap("begin_tick", before=lambda: self._strike(damage))
        SimProcess(self.clock, self.core, self.device)
        for index in range(self.scene.num_requests):
            self.clock.at_ns(index * 700, lambda _, index=index: self._submit(index))  # type: ignore[misc]
        closing_ns = self.scene.num_requests * 700
        self.clock.at_ns(closing_ns, lambda _: self.core.inbox.deliver(Delivery(closing_ns, CLOSE, 0, Close())))
        self.clock.run()
        assert self._struck, "the run never came to the point where it is damaged"

    def wrap(
        self, method: str, before: Callable[..., object] | None = None, after: Callable[[], object] | None = None
    ) -> None:
        """From now on `core.method` does something before (with its arguments) or after what it does."""
        inner = getattr(self.core, method)

        def call(*arguments: Any) -> Any:
            if before is not None:
                before(*arguments)
            result = inner(*arguments)
            if after is not None:
                after()
            return result

        setattr(self.core, method, call)

    def tell(self, event: Any) -> None:
        """All observers get an event that the scheduler has not sent."""
        name = "on_" + "".join(
            "_" * (at > 0) + letter.lower() if letter.isupper() else letter
            for at, letter in enumerate(type(event).__name__)
        )
        for notify in getattr(self.core.bus, name):
            notify(event)

    @property
    def now_ns(self) -> int:
        return self.clock.now_ns()

    def _strike(self, damage: Callable[[Stage], bool]) -> None:
        if not self._struck:
            # Marked before: a damage may raise by itself.
            self._struck = True
            self._struck = damage(self)

    def _submit(self, index: int) -> None:
        tokens, now_ns = self.scene.first_prompt_tokens + index, self.now_ns
        self.outputs.expect(index, 12 + index, None)
        deadline_ns = now_ns + self.scene.timeout_ns
        ids = tuple(range(-(-tokens // BLOCK)))
        request = Request(index, Prompt(tokens, ids, BLOCK), 1 << 20, arrival_ns=now_ns, deadline_ns=deadline_ns)
        self.core.inbox.deliver(Delivery(now_ns, SUBMIT, index, Submit(request)))
