"""The scheduler's thread and the event loop: what becomes of requests when one of them stops."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

from backends.sim.costs.constant import Constant
from backends.sim.filler import Filler
from backends.sim.links import DEFAULT_LINKS
from backends.sim.paced import PacedDevice
from schedlab.config import SchedulerConfig
from schedlab.core.scheduler import Scheduler
from schedlab.device import DeviceFacts, StepResult
from schedlab.policies.fifo import Fifo
from schedlab.request import FinishReason, Prompt, Request
from schedlab.serve.engine import End, Engine

PATIENCE_S = 20.0


class Kept:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.ends: list[End] = []
        self.came = asyncio.Event()

    def prompt(self, scores: object) -> None:
        raise AssertionError("nobody asked for scores of a prompt")

    def token(self, token: int, logprobs: object) -> None:
        self.tokens.append(token)
        self.came.set()

    def end(self, end: End) -> None:
        self.ends.append(end)
        self.came.set()


def engine() -> Engine:
    config = SchedulerConfig(max_num_seqs=4, block_size=4)
    device = PacedDevice(Constant(step_ns=1_000_000), Filler(), DeviceFacts("paced", 50_000), dict(DEFAULT_LINKS))
    return Engine(Scheduler(config, Fifo(config), device, leap=False), device)


def request(number: int, outputs: int) -> Request:
    return Request(number, Prompt.of_tokens(range(8)), outputs)


async def until(condition: Any) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        await asyncio.sleep(0.005)


def test_a_dead_scheduler_ends_everybody_with_its_error_and_takes_nobody() -> None:
    async def run() -> None:
        served, kept, late = engine(), Kept(), Kept()
        served.start()
        served.submit(request(1, 100_000), kept)
        await until(lambda: kept.tokens)

        def fail(step: object) -> None:
            raise ZeroDivisionError("on purpose")

        served.device.launch = fail  # type: ignore[assignment,method-assign]
        await until(lambda: kept.ends)
        served.submit(request(2, 1), late)
        for sink in (kept, late):
            (end,) = sink.ends
            assert end.reason is FinishReason.ERROR and "ZeroDivisionError: on purpose" in end.error
        assert served.num_live == 0 and "on purpose" in served.dead
        assert await served.close("over", PATIENCE_S)

    asyncio.run(run())


def test_a_loop_that_is_busy_gets_everything_afterwards_and_the_scheduler_did_not_wait() -> None:
    async def run() -> None:
        served, kept = engine(), Kept()
        served.start()
        served.submit(request(1, 60), kept)
        await until(lambda: kept.tokens)
        end = time.monotonic() + 20
        while 1 in served.core.sequences:
            assert time.monotonic() < end
            time.sleep(0.005)
        assert not kept.ends
        await until(lambda: kept.ends)
        assert len(kept.tokens) == 60
        assert await served.close("over", PATIENCE_S)

    asyncio.run(run())


def test_closing_ends_what_is_left_once_and_the_thread() -> None:
    async def run() -> None:
        served, kept = engine(), Kept()
        served.start()
        served.submit(request(1, 100_000), kept)
        await until(lambda: kept.tokens)
        assert await served.close("over", PATIENCE_S)
        assert [end.error for end in kept.ends] == ["over"] and not served.is_running
        assert await served.close("again", PATIENCE_S)
        assert len(kept.ends) == 1

    asyncio.run(run())


def test_closing_in_the_middle_of_a_long_step_ends_its_requests_at_once_and_the_thread_after_the_step() -> None:
    async def run() -> None:
        served, kept, in_step, go_on = engine(), Kept(), threading.Event(), threading.Event()
        wait = served.device.wait

        def long_wait(ticket: object) -> StepResult:
            in_step.set()
            assert go_on.wait(PATIENCE_S)
            return wait(ticket)

        served.device.wait = long_wait  # type: ignore[method-assign]
        served.start()
        served.submit(request(1, 100_000), kept)
        await until(in_step.is_set)
        assert not await served.close("over", 0.01)
        assert [end.error for end in kept.ends] == ["over"] and served.is_running
        go_on.set()
        assert await served.close("over", PATIENCE_S)
        assert len(kept.ends) == 1 and not served.is_running

    asyncio.run(run())


def test_cancelled_requests_give_their_blocks_back_after_a_tick() -> None:
    async def run() -> None:
        served, kept = engine(), Kept()
        served.start()
        served.submit(request(1, 100_000), kept)
        await until(lambda: kept.tokens)
        served.cancel(1)
        await until(lambda: served.core.pool.used_blocks == 0)
        served.cancel(1)
        assert not kept.ends
        await asyncio.wait_for(served.wait_idle(), 5)
        assert await served.close("over", PATIENCE_S)

    asyncio.run(run())
