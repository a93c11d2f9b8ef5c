"""A device with the times of a recording: the same run again, and any other question is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from backends.sim.device import SimDevice, StepTicket
from backends.sim.links import CopyTicket
from backends.sim.outputs import Lengths
from backends.sim.recorded import RecordedDevice
from backends.sim.recording import CopyShape, Diverged, Question, RecordedCopy, RecordedStep, Recording, StepShape
from backends.sim.testbed import SimBench, SimTestbed, device_of
from experiments.event_log import EventLog
from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.device import CopyKind, CopyOp, Step
from schedlab.pace import quanta_to_ns
from schedlab.policies.fifo import Fifo
from schedlab.testing import Node, Session, Sessions, Turn, World
from schedlab.testing.world import Cost

LINKS = dict.fromkeys(CopyKind, (1_000_000_000, 300))


class Recorder(SimDevice):
    """Writes down what it was asked. Its steps last whole nanoseconds."""

    recording: Recording

    def launch(self, step: Step) -> StepTicket:
        shape, ticket = StepShape.of(step), super().launch(step)
        elapsed_ns = quanta_to_ns(ticket.pace.last_quanta - ticket.pace.start_quanta)
        self.recording.steps.append(RecordedStep(shape, elapsed_ns))
        return ticket

    def copy(self, op: CopyOp) -> CopyTicket:
        shape, ticket = CopyShape.of(op), super().copy(op)
        elapsed_ns = quanta_to_ns(ticket.end_quanta - ticket.start_quanta)
        self.recording.copies.append(RecordedCopy(shape, elapsed_ns))
        return ticket

    def copy_ns(self, kind: CopyKind, num_bytes: int) -> int:
        answer_ns = super().copy_ns(kind, num_bytes)
        asked = Question.of_copy(self.now_ns(), len(self.recording.copies), kind, num_bytes)
        self.recording.answers_ns[asked] = answer_ns
        return answer_ns

    def prefill_ns(self, num_tokens: int) -> int:
        answer_ns = super().prefill_ns(num_tokens)
        asked = Question.of_prefill(self.now_ns(), len(self.recording.copies), num_tokens)
        self.recording.answers_ns[asked] = answer_ns
        return answer_ns


def world(mode: PreemptionMode) -> World:
    """Six that outgrow a pool of 20 blocks; one leaves and one runs late."""
    room = {PreemptionMode.RECOMPUTE: {}, PreemptionMode.HOST: {"swap_host_gib": 1}}
    config = SchedulerConfig(
        max_num_seqs=6,
        max_num_batched_tokens=24,
        block_size=4,
        max_model_len=200,
        preemption=mode,
        **room.get(mode, {"swap_host_gib": 1, "swap_disk_gib": 1}),
    )
    turns = [Turn(9, 24), Turn(9, 24), Turn(30, 24, timeout_ns=9_000), Turn(9, 24, cancel_ns=7_000), Turn(9, 24)]
    sessions = tuple(Session(700 * number, (turn,)) for number, turn in enumerate(turns))
    cost = Cost("constant", {"step_ns": 1000, "per_context_token_ns": 7, "per_prefill_token_ns": 31})
    return World(config, Fifo, cost, 20, sessions, 1 << 10, LINKS)


def played(given: World, recording: Recording, path: Path, *, leap: bool, repeated: bool) -> bytes:
    """The decision log of the world, recorded or repeated."""
    testbed = SimTestbed(SimDevice)
    made: list[SimDevice] = []

    def bench(of: World, *, leap: bool, breakable: bool = False) -> SimBench:
        clock, outputs = testbed._clock, Lengths()
        device = device_of(clock, of, outputs, Recorder, breakable=False)
        if repeated:
            device = RecordedDevice(clock, outputs, device.facts, recording)
        else:
            device.recording = recording  # type: ignore[attr-defined]
        made.append(device)
        return SimBench(clock, of, outputs, device, leap=leap)

    testbed.bench = bench  # type: ignore[method-assign]
    node = Node(testbed, given, leap=leap)
    with EventLog(path) as log:
        node.core.bus.add(log)
        node.start()
        Sessions(node, given.sessions)
        assert node.run_to_end() == "done"
    if repeated:
        made[0].reader.check_spent()  # type: ignore[attr-defined]
    return path.read_bytes()


@pytest.fixture(params=PreemptionMode)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[World, Recording, bytes]:
    given, recording = world(request.param), Recording()
    return given, recording, played(given, recording, tmp_path / "a.jsonl", leap=False, repeated=False)


@pytest.mark.parametrize("leap", [False, True])
def test_the_same_run_gives_the_same_bytes(
    leap: bool, recorded: tuple[World, Recording, bytes], tmp_path: Path
) -> None:
    given, recording, log = recorded
    assert b'"cancelled"' in log and b'"timeout"' in log and (b'"preempted"' in log or b'"swapped_out"' in log)
    assert played(given, recording, tmp_path / "b.jsonl", leap=leap, repeated=True) == log


def test_a_step_that_is_another_one_is_named(recorded: tuple[World, Recording, bytes], tmp_path: Path) -> None:
    given, recording, _ = recorded
    forged = recording.steps[5]
    recording.steps[5] = forged._replace(shape=forged.shape._replace(rows=99))
    with pytest.raises(Diverged, match=r"^step 6: asked for .* and 99 rows"):
        played(given, recording, tmp_path / "b.jsonl", leap=True, repeated=True)


def test_another_block_is_another_step(recorded: tuple[World, Recording, bytes], tmp_path: Path) -> None:
    given, recording, _ = recorded
    first = recording.steps[0]
    recording.steps[0] = first._replace(shape=first.shape._replace(places="0" * 16))
    with pytest.raises(Diverged, match="places 0000000000000000"):
        played(given, recording, tmp_path / "b.jsonl", leap=True, repeated=True)


def test_what_was_not_asked_for_again_is_named(recorded: tuple[World, Recording, bytes], tmp_path: Path) -> None:
    given, recording, _ = recorded
    recording.steps.append(recording.steps[-1])
    with pytest.raises(Diverged, match=rf"^step {len(recording.steps)}: asked for nothing more"):
        played(given, recording, tmp_path / "b.jsonl", leap=False, repeated=True)


def test_a_recording_that_is_too_short_is_named(recorded: tuple[World, Recording, bytes], tmp_path: Path) -> None:
    given, recording, _ = recorded
    recording.steps.pop()
    with pytest.raises(Diverged, match="the recording has nothing of the kind"):
        played(given, recording, tmp_path / "b.jsonl", leap=False, repeated=True)


def test_a_copy_that_is_another_one_is_named(tmp_path: Path) -> None:
    given, recording = world(PreemptionMode.HOST), Recording()
    played(given, recording, tmp_path / "a.jsonl", leap=False, repeated=False)
    first = recording.copies[0]
    recording.copies[0] = first._replace(shape=first.shape._replace(blocks=(1, 2)))
    with pytest.raises(Diverged, match=r"^copy 1: .* blocks \[1, 2\]"):
        played(given, recording, tmp_path / "b.jsonl", leap=False, repeated=True)


def test_a_question_that_was_not_asked_is_named(tmp_path: Path) -> None:
    given, recording = world(PreemptionMode.CHEAPEST), Recording()
    played(given, recording, tmp_path / "a.jsonl", leap=False, repeated=False)
    recording.answers_ns.clear()
    with pytest.raises(Diverged, match=r"^question 1: asked for prefill_ns of 24 tokens at"):
        played(given, recording, tmp_path / "b.jsonl", leap=False, repeated=True)
