"""The scheduler on a thread of its own, and the way back from it to the clients on the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import suppress
from typing import NamedTuple, Protocol

from schedlab.core.scheduler import Scheduler
from schedlab.device import BlockingDevice, PromptLogprobs, TokenLogprobs
from schedlab.driver import run_blocking
from schedlab.events import CacheReset, Finished, Refused, StepDone
from schedlab.inbox import Cancel, Close, ResetCache, Submit
from schedlab.mailbox import Mailbox
from schedlab.request import FinishReason, Request

SHUTTING_DOWN = "the server is shutting down"


class End(NamedTuple):
    """How a request ended; `error` is empty unless it went wrong."""

    reason: FinishReason
    error: str
    num_cached_tokens: int


class Sink(Protocol):
    """Where the tokens of a request go, on the event loop. It must not block.

    Scores of a prompt come before its first token, and a second time if the prompt is computed a second time.
    """

    def prompt(self, scores: PromptLogprobs) -> None: ...

    def token(self, token: int, logprobs: TokenLogprobs | None) -> None: ...

    def end(self, end: End) -> None: ...


class _Tokens(NamedTuple):
    tokens: dict[int, int]
    logprobs: dict[int, TokenLogprobs] | None
    prompt_logprobs: dict[int, PromptLogprobs] | None


_Parcel = _Tokens | CacheReset | tuple[int, End]


class HandOver:
    """Observer: puts what a tick gave to the event loop in one parcel, however many rows it has.

    Only the lock is shared, and nobody holds it for longer than it takes to swap a list.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._parcels: list[_Parcel] = []

    def on_step_done(self, event: StepDone) -> None:
        if event.tokens or event.prompt_logprobs:
            self._put(_Tokens(event.tokens or {}, event.logprobs, event.prompt_logprobs))

    def on_finished(self, event: Finished) -> None:
        sequence = event.sequence
        self._put((sequence.request_id, End(event.reason, sequence.error, sequence.num_cached_tokens)))

    def on_refused(self, event: Refused) -> None:
        self._put((event.sequence.request_id, End(FinishReason.REFUSED, event.reason, 0)))

    def on_cache_reset(self, event: CacheReset) -> None:
        self._put(event)

    def take(self) -> list[_Parcel]:
        with self._lock:
            parcels, self._parcels = self._parcels, []
        return parcels

    def _put(self, parcel: _Parcel) -> None:
        with self._lock:
            is_first = not self._parcels
            self._parcels.append(parcel)
        if is_first:
            self._engine.call_soon(self._engine.deliver)


class Engine:
    """Submits and cancels on the event loop; the scheduler's thread never waits for what happens there.

    Attributes:
        dead: why the scheduler's thread has stopped; empty while it runs. `died` is set then.
    """

    def __init__(self, core: Scheduler, device: BlockingDevice) -> None:
        self.core = core
        self.device = device
        self.mailbox = Mailbox()
        self.dead = ""
        self.died = asyncio.Event()
        self._hand_over = HandOver(self)
        core.bus.add(self._hand_over)
        self._live: dict[int, Sink] = {}
        self._num_submitted = 0
        self._resets: deque[asyncio.Future[bool]] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="scheduler", daemon=True)

    @property
    def num_live(self) -> int:
        """Requests that have not ended."""
        return len(self._live)

    @property
    def is_running(self) -> bool:
        """Whether the scheduler's thread goes on."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Begin, on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def next_id(self) -> int:
        """The id of the next request."""
        self._num_submitted += 1
        return self._num_submitted

    def submit(self, request: Request, sink: Sink) -> None:
        """Hand a request in; `sink` learns of its tokens and of its end, which always comes."""
        if self.dead:
            sink.end(End(FinishReason.ERROR, self.dead, 0))
            return
        self._live[request.request_id] = sink
        self._idle.clear()
        self.mailbox.send(Submit(request))

    def cancel(self, request_id: int) -> None:
        """Nobody wants it any more: its memory is free after one tick. Ended ids are no errors."""
        if self._live.pop(request_id, None) is not None:
            self.mailbox.send(Cancel(request_id))
            self._note_idle()

    async def reset_cache(self, *, preempt_running: bool) -> bool:
        """Empty the prefix cache; False, and it is as it was, if blocks were in use and nobody was to start over."""
        if self.dead:
            return False
        done = asyncio.get_running_loop().create_future()
        self._resets.append(done)
        self.mailbox.send(ResetCache(preempt_running))
        return await asyncio.shield(done)

    async def wait_idle(self) -> None:
        """Until every request has ended."""
        await self._idle.wait()

    async def close(self, error: str, patience_s: float) -> bool:
        """End what is left with `error`, and the thread when its step in flight is over: nothing interrupts a step.

        False, and the thread goes on to that end, if the step takes longer than `patience_s`. May be called again.
        """
        for request_id, sink in list(self._live.items()):
            sink.end(End(FinishReason.ERROR, error, 0))
            self.cancel(request_id)
        self.mailbox.send(Close())
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopped.wait(), patience_s)
            # That was the last thing it did.
            self._thread.join()
        return not self.is_running

    def deliver(self) -> None:
        """Bring what has come to the sinks."""
        for parcel in self._hand_over.take():
            if isinstance(parcel, _Tokens):
                self._deliver_tokens(parcel)
            elif isinstance(parcel, CacheReset):
                self._resets.popleft().set_result(parcel.done)
            elif (sink := self._live.pop(parcel[0], None)) is not None:
                sink.end(parcel[1])
        self._note_idle()

    def call_soon(self, action: object) -> None:
        """Call on the event loop; nothing happens once that is closed."""
        assert self._loop is not None and callable(action)
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def _deliver_tokens(self, parcel: _Tokens) -> None:
        live, logprobs = self._live, parcel.logprobs or {}
        for request_id, scores in (parcel.prompt_logprobs or {}).items():
            if (sink := live.get(request_id)) is not None:
                sink.prompt(scores)
        for request_id, token in parcel.tokens.items():
            if (sink := live.get(request_id)) is not None:
                sink.token(token, logprobs.get(request_id))

    def _note_idle(self) -> None:
        if not self._live:
            self._idle.set()

    def _run(self) -> None:
        try:
            run_blocking(self.core, self.device, self.mailbox)
        except Exception as error:
            reason = f"the scheduler has stopped: {type(error).__name__}: {error}"
            self.call_soon(lambda: self._die(reason))
        finally:
            self.device.close()
            self.call_soon(self._stopped.set)

    def _die(self, reason: str) -> None:
        self.dead = reason
        self.died.set()
        while self._resets:
            self._resets.popleft().set_result(False)
        for sink in list(self._live.values()):
            sink.end(End(FinishReason.ERROR, reason, 0))
        self._live.clear()
        self._note_idle()
