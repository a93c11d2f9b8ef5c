"""Runs a scenario on a device in virtual time with a constant cost, under the laws that hold for every run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from simpy.events import Event

from backends.sim.clock import SimClock
from backends.sim.costs.constant import Constant
from backends.sim.links import DEFAULT_LINKS, Links, LinkSpec
from backends.sim.outputs import ENDLESS, Lengths, OutputModel, Script
from backends.sim.process import SimProcess
from experiments.event_log import EventLog
from schedlab.config import SchedulerConfig
from schedlab.core.plan import Plan
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts, Ticket
from schedlab.inbox import Cancel, Close, Delivery, Inbox, Message, Submit
from schedlab.invariants import Checker
from schedlab.policies.base import Policy
from schedlab.policies.presets import find_preset
from schedlab.policies.registry import find_policy
from tests.conformance import laws
from tests.conformance.devices import STRICTEST, attach, make_device, release
from tests.conformance.policies import POLICIES
from tests.conformance.recorder import Recorder
from tests.conformance.scenario import NS_PER_MS, Ask, Case

DEFAULT_BLOCKS = 1000
MIB = 1 << 20
# A plan may do no more than notice that time has come; more of them in a row without effect is a busy loop.
MOST_IDLE_PLANS = 3


class KeptLengths(Lengths):
    """Lengths that stay when a request ends, so that its id may come again."""

    def forget(self, request_id: int) -> None:
        return None


class WatchedScheduler(Scheduler):
    """Tells an observer of the ends of ticks, and counts launches, so that idle ones are found."""

    watch: Recorder | None = None
    launched = 0
    idle_plans = 0

    def begin_tick(self) -> None:
        self._seen = self._activity()
        super().begin_tick()

    def plan(self) -> Plan:
        plan = super().plan()
        if self.watch is not None:
            self.watch.planned()
        return plan

    def launch(self, lane: Any) -> Ticket | None:
        ticket = super().launch(lane)
        self.launched += ticket is not None
        return ticket

    def end_tick(self) -> None:
        super().end_tick()
        laws.after_tick(self)
        self._check_progress()

    def _check_progress(self) -> None:
        """Whoever can run runs, and nobody spins."""
        if self._activity() != self._seen:
            self.idle_plans = 0
            return
        self.idle_plans += 1
        assert self.idle_plans <= MOST_IDLE_PLANS or self.wake_ns() > self.device.now_ns(), "plans without effect"
        assert not self.batch, "decode rows and no step"
        assert not self.prefilling or self.policy.compose(self.view) <= 0, "prefills and no step"

    def _activity(self) -> tuple[int, int]:
        return self.launched, self.watch.num_events if self.watch is not None else 0


def configuration(case: Case) -> SchedulerConfig:
    """The preset's fields under the case's own.

    Raises:
        UsageError: the fields conflict.
    """
    preset = find_preset(case.setup.get("preset", "vllm"))
    blocks = case.setup.get("blocks", DEFAULT_BLOCKS)
    fields = preset.configuration(blocks, case.config.get("max_model_len", 1 << 20))
    return SchedulerConfig(**{**fields, **_parsed(case.config)})


def run(
    case: Case, *, leap: bool, device: str = STRICTEST, log: Path | None = None, observers: Iterable[object] = ()
) -> Recorder:
    """Play a case to its end; the laws are checked on the way.

    Args:
        device: its name in `ALL_DEVICES`.
        log: where to write the event log.
        observers: who else listens.
    """
    clock = SimClock()
    config = configuration(case)
    block_bytes = case.setup.get("block_mib", 1) * MIB
    facts = DeviceFacts("sim", case.setup.get("blocks", DEFAULT_BLOCKS), block_bytes=block_bytes)
    links = _links(case, clock, block_bytes)
    machine = make_device(device)(clock, _cost(case), _outputs(case.asks), facts, links)
    core = WatchedScheduler(config, _policy(case, config), machine, leap=leap)
    attach(machine, core)
    recorder = core.watch = Recorder(core, case.asks)
    Checker().attach(core)
    for observer in (recorder, *observers):
        core.bus.add(observer)
    event_log = EventLog(log) if log is not None else None
    if event_log is not None:
        core.bus.add(event_log)
    process = SimProcess(clock, core, machine)
    _deliver(clock, core.inbox, case)
    try:
        clock.run()
    finally:
        release(machine)
    if event_log is not None:
        event_log.close()
    assert process.done, f"the run stopped before its end: {core.why_stalled() if core.sequences else 'no Close'}"
    laws.at_end(core)
    unfinished = [name for name, lived in recorder.lived.items() if lived.reason is None]
    assert not unfinished, f"{unfinished} never ended"
    return recorder


def _deliver(clock: SimClock, inbox: Inbox, case: Case) -> None:
    """Messages of one instant arrive in the order of the file, cancels behind requests, the closing last."""
    messages: defaultdict[int, list[Message]] = defaultdict(list)
    for ask in case.asks:
        messages[ask.at_ns].append(Submit(ask.request))
    for cancel in case.cancels:
        messages[cancel.at_ns].append(Cancel(cancel.request_id))
    messages[max(messages, default=0)].append(Close())
    number = 0
    for at_ns, batch in sorted(messages.items()):
        for message in batch:
            clock.at_ns(at_ns, _delivers(inbox, Delivery(at_ns, 0, number, message)))
            number += 1


def _delivers(inbox: Inbox, delivery: Delivery) -> Callable[[Event], None]:
    return partial(_hand_over, inbox, delivery)


def _hand_over(inbox: Inbox, delivery: Delivery, _: Event) -> None:
    inbox.deliver(delivery)


def _cost(case: Case) -> Constant:
    per_token_ns = case.setup.get("per_prefill_token_ms", 0) * NS_PER_MS
    return Constant(step_ns=case.setup.get("step_ms", 1) * NS_PER_MS, per_prefill_token_ns=per_token_ns)


def _links(case: Case, clock: SimClock, block_bytes: int) -> Links:
    """Each link takes `copy_ms` for a block, or what real ones take."""
    if "copy_ms" not in case.setup:
        return Links(clock)
    bytes_per_s = round(block_bytes * 1000 / case.setup["copy_ms"])
    return Links(clock, dict.fromkeys(DEFAULT_LINKS, LinkSpec(bytes_per_s, 0)))


def _outputs(asks: tuple[Ask, ...]) -> OutputModel:
    if any(ask.tokens is not None for ask in asks):
        return Script({ask.request.request_id: ask.tokens for ask in asks if ask.tokens is not None})
    lengths = KeptLengths()
    prompts = {ask.name: ask.request.prompt for ask in asks}
    for ask in asks:
        length = ENDLESS if ask.output_tokens is None else ask.output_tokens
        lengths.expect(ask.request.request_id, length, prompts.get(ask.then))
    return lengths


def _policy(case: Case, config: SchedulerConfig) -> Policy:
    name = case.setup.get("policy", find_preset(case.setup.get("preset", "vllm")).policy)
    policy_class: Any = POLICIES.get(name) or find_policy(name)
    policy: Policy = policy_class(config, **case.setup.get("parameters", {}))
    return policy


def _parsed(fields: Any) -> dict[str, Any]:
    """Words of a file become the enumerations of the configuration."""
    hints = get_type_hints(SchedulerConfig)
    return {name: hints[name](value) for name, value in fields.items()}
