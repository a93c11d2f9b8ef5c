"""The modelled GPU in real time: steps take their time, words follow from seeds, memory pressure changes no output."""

from __future__ import annotations

import threading
import time
from typing import Any

from backends.sim.costs.constant import Constant
from backends.sim.filler import EOS, VOCAB, Filler, FillerTokenizer, token_of
from backends.sim.links import DEFAULT_LINKS
from backends.sim.paced import PacedClock, PacedDevice
from schedlab.config import PreemptionMode, SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts
from schedlab.driver import run_blocking
from schedlab.events import Finished, StepDone, SwappedOut
from schedlab.inbox import Close, Submit
from schedlab.mailbox import Mailbox
from schedlab.pace import ns_to_quanta
from schedlab.policies.fifo import Fifo
from schedlab.request import Prompt, Request, SamplingParams

STEP_NS = 1_000_000


class Run:
    """What requests gave, all sent at once."""

    def __init__(self, requests: list[Request], num_blocks: int, **settings: Any) -> None:
        config = SchedulerConfig(max_num_seqs=8, max_num_batched_tokens=256, block_size=4, **settings)
        facts = DeviceFacts("paced", num_blocks, block_bytes=1 << 16)
        self.device = PacedDevice(Constant(step_ns=STEP_NS), Filler(), facts, dict(DEFAULT_LINKS))
        core, mailbox = Scheduler(config, Fifo(config), self.device, leap=False), Mailbox()
        self.outputs: dict[int, list[int]] = {}
        self.logprobs: dict[int, list[Any]] = {}
        self.reasons: dict[int, str] = {}
        self.num_swapped = self.num_steps = 0
        core.bus.add(self)
        for request in requests:
            mailbox.send(Submit(request))
        mailbox.send(Close())
        begin_ns, before = time.monotonic_ns(), set(threading.enumerate())
        run_blocking(core, self.device, mailbox)
        self.elapsed_ns = time.monotonic_ns() - begin_ns
        self.device.close()
        assert set(threading.enumerate()) <= before

    def on_step_done(self, event: StepDone) -> None:
        self.num_steps += 1
        for request_id, token in (event.tokens or {}).items():
            self.outputs.setdefault(request_id, []).append(token)
        for request_id, logprobs in (event.logprobs or {}).items():
            self.logprobs.setdefault(request_id, []).append(logprobs)

    def on_swapped_out(self, event: SwappedOut) -> None:
        self.num_swapped += 1

    def on_finished(self, event: Finished) -> None:
        self.reasons[event.sequence.request_id] = str(event.reason)


def requests(count: int, outputs: int, **sampling: Any) -> list[Request]:
    return [
        Request(number, Prompt.of_tokens(range(8)), outputs, sampling=SamplingParams(seed=number, **sampling))
        for number in range(count)
    ]


def test_steps_take_at_least_their_time() -> None:
    run = Run(requests(2, 10), 100)
    assert run.num_steps == 10 and run.elapsed_ns >= 10 * STEP_NS


def test_words_follow_from_seed_and_index_whatever_the_memory() -> None:
    asked = requests(6, 40)
    ample = Run(asked, 200)
    assert ample.outputs == {one.request_id: [token_of(one, at) for at in range(40)] for one in asked}
    assert len({tuple(tokens) for tokens in ample.outputs.values()}) == 6
    swapping = Run(asked, 30, preemption=PreemptionMode.HOST, swap_host_gib=1)
    assert swapping.num_swapped > 0 and swapping.outputs == ample.outputs
    computing_again = Run(asked, 30)
    assert computing_again.outputs == ample.outputs


def test_an_output_ends_of_itself_at_a_seeded_length() -> None:
    asked = requests(4, 300, eos_token_ids=(EOS,))
    run = Run(asked, 400)
    lengths = [len(run.outputs[one.request_id]) for one in asked]
    assert set(run.reasons.values()) == {"stop"} and len(set(lengths)) > 1 and max(lengths) <= 241
    assert all(tokens[-1] == EOS and EOS not in tokens[:-1] for tokens in run.outputs.values())
    longer = Run(requests(1, 300, eos_token_ids=(EOS,), min_tokens=250), 400)
    assert len(longer.outputs[0]) == 251


def test_logprobs_are_of_those_who_want_them_and_name_the_token_first() -> None:
    (plain,), (wanting,) = requests(1, 5), [Request(9, Prompt(8), 5, sampling=SamplingParams(logprobs=3))]
    run = Run([plain, wanting], 100)
    assert list(run.logprobs) == [9] and len(run.logprobs[9]) == 5
    for token, logprobs in zip(run.outputs[9], run.logprobs[9], strict=True):
        assert logprobs.top[0] == (token, logprobs.logprob) and len({one for one, _ in logprobs.top}) == 3


def test_the_tokenizer_reads_any_text_and_gives_every_token_back() -> None:
    tokenizer = FillerTokenizer()
    for text in ("", "the old fox", "Ünï  日本\n😀", "abcdefg h", "\x00"):
        assert b"".join(map(tokenizer.token_bytes, tokenizer.encode(text))).decode() == text
    assert len(tokenizer.encode(" the fox")) == 2
    step = 97
    for token in range(256, EOS, step):
        assert tokenizer.encode(tokenizer.token_bytes(token).decode()) == [token]
    assert VOCAB == EOS + 1 and tokenizer.is_special(EOS) and tokenizer.token_bytes(EOS) == b""


def test_calls_of_the_clock_come_in_order_and_not_early() -> None:
    clock, came, done = PacedClock(), list[tuple[str, int]](), threading.Event()
    now_ns = clock.now_ns()

    def note(name: str) -> None:
        came.append((name, clock.now_ns()))
        if len(came) == 3:
            done.set()

    clock.at(ns_to_quanta(now_ns + 40_000_000), lambda _: note("late"))
    clock.at(ns_to_quanta(now_ns + 20_000_000), lambda _: note("early"))
    clock.at(0, lambda _: note("past"))
    assert done.wait(20)
    assert [name for name, _ in came] == ["past", "early", "late"]
    assert came[1][1] >= now_ns + 20_000_000 and came[2][1] >= now_ns + 40_000_000
