"""The endpoints."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from schedlab.errors import UsageError
from schedlab.serve.answer import Answer
from schedlab.serve.choice import Choice
from schedlab.serve.engine import SHUTTING_DOWN, Engine
from schedlab.serve.errors import ApiError, bad, overloaded
from schedlab.serve.params import Limits, Stamp, Wanted, check, logprobs_of, prompts_of, unknown_fields, wanted_of
from schedlab.serve.replies import ChatReply, Extras, Reply, Usage
from schedlab.serve.schema import Body, ChatBody, CompletionBody, DetokenizeBody, TokenizeBody
from schedlab.serve.text import OutputText
from schedlab.serve.tokenizer import Tokenizer

BodyT = TypeVar("BodyT", bound=BaseModel)
_BODY_S = 30.0
# Longer prompts are tokenised beside the event loop, which others are waiting for.
_LONG_CHARS = 20_000
log = logging.getLogger("schedlab.serve")


@dataclass(slots=True)
class Service:
    """All that the endpoints share.

    Attributes:
        max_queue: requests that may wait beside those that have a seat.
        max_body_bytes: of a request.
        metrics: the text of `/metrics`.
        draining: no new requests, the server is about to end.
    """

    engine: Engine
    tokenizer: Tokenizer
    limits: Limits
    random: Random
    version: str
    api_key: str | None
    max_queue: int
    max_body_bytes: int
    metrics: Callable[[], bytes]
    draining: bool = False
    created: int = 0
    warned: set[str] | None = None

    def admit(self, outputs: int) -> None:
        """Raises ApiError when there is no room for so many more."""
        if self.draining:
            raise overloaded(SHUTTING_DOWN, 5)
        if self.engine.dead:
            raise ApiError(503, self.engine.dead)
        most = self.limits.config.max_num_seqs + self.max_queue
        if self.engine.num_live + outputs > most:
            raise overloaded(
                f"{self.engine.num_live} requests are running or waiting, and at most {most} may; try again"
            )

    def check_model(self, name: str | None) -> None:
        """Raises ApiError for a model that is not served here."""
        if name is not None and name != self.limits.model:
            raise ApiError(404, f"The model `{name}` does not exist.", "model")

    def check_length(self, chars: int, param: str) -> None:
        """Raises ApiError for a text that is too long in whatever tokens it comes: nobody waits for counting them."""
        longest = self.limits.config.max_model_len
        if chars > longest * self.tokenizer.longest_token_bytes:
            raise bad(param, f"a text of {chars} characters; this server's context has {longest} tokens")

    def warn(self, names: Sequence[str]) -> None:
        """Say once of each field that nobody reads it."""
        self.warned = self.warned if self.warned is not None else set()
        for name in names:
            if name not in self.warned and len(self.warned) < 1000:
                self.warned.add(name)
                log.warning("field %r of a request is not known and was left unread", name[:80])


def make_app(service: Service) -> FastAPI:
    """The application; its engine starts and ends with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        service.engine.start()
        service.created = int(time.time())
        yield
        await service.engine.close(SHUTTING_DOWN)

    app = FastAPI(
        title="schedlab", version=service.version, lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_exception_handler(ApiError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_defect)
    _add_facts(app, service)
    _add_tokens(app, service)
    _add_answers(app, service)
    return app


def _add_facts(app: FastAPI, service: Service) -> None:
    limits = service.limits

    @app.get("/health")
    @app.get("/ping")
    async def health() -> Response:
        return Response(status_code=503 if service.engine.dead or service.draining else 200)

    @app.get("/version")
    async def version() -> dict[str, str]:
        return {"version": service.version}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        _authorise(request, service)
        model = {
            "id": limits.model,
            "object": "model",
            "created": service.created,
            "owned_by": "schedlab",
            "root": limits.model,
            "parent": None,
            "max_model_len": limits.config.max_model_len,
            "permission": [],
        }
        return {"object": "list", "data": [model]}


def _add_tokens(app: FastAPI, service: Service) -> None:
    tokenizer, limits = service.tokenizer, service.limits

    @app.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        body = await _read(request, TokenizeBody, service)
        if (body.prompt is None) == (body.messages is None):
            raise bad("prompt", "give either prompt or messages")
        if body.prompt is not None:
            text, special = body.prompt, body.add_special_tokens
            service.check_length(len(text), "prompt")
            tokens = await _aside(len(text), lambda: tokenizer.encode(text, add_special_tokens=special))
        else:
            tokens = _chat_prompt(tokenizer, [message.flat() for message in body.messages or []])
        return {"tokens": tokens, "count": len(tokens), "max_model_len": limits.config.max_model_len}

    @app.post("/detokenize")
    async def detokenize(request: Request) -> dict[str, str]:
        body = await _read(request, DetokenizeBody, service)
        return {"prompt": _text_of(body.tokens, tokenizer)}


def _add_answers(app: FastAPI, service: Service) -> None:
    @app.post("/v1/completions")
    async def completions(request: Request) -> Any:
        body = await _read(request, CompletionBody, service)
        _check(body, service)
        size = sum(_lengths(body))
        service.check_length(max(_lengths(body), default=0), "prompt")
        prompts = await _aside(size, lambda: prompts_of(body, service.tokenizer))
        return _answer(body, prompts, service, Reply, echo=body.echo)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Any:
        body = await _read(request, ChatBody, service)
        _check(body, service)
        messages = [message.flat() for message in body.messages]
        size = sum(len(message["content"]) for message in messages)
        service.check_length(size, "messages")
        prompt = await _aside(size, lambda: _chat_prompt(service.tokenizer, messages))
        return _answer(body, [prompt], service, ChatReply, echo=False)


def _answer(body: Body, prompts: list[list[int]], service: Service, kind: type[Reply], *, echo: bool) -> Answer:
    engine, tokenizer = service.engine, service.tokenizer
    stamp = Stamp(engine.device.now_ns(), engine.next_id, service.random)
    wanted = wanted_of(body, prompts, tokenizer, service.limits, stamp)
    service.admit(len(wanted))
    wake = asyncio.Event()
    choices = [_choice(index, one, body, tokenizer, wake, echo=echo) for index, one in enumerate(wanted)]
    options = body.stream_options
    reply = kind(
        service.limits.model,
        tokenizer,
        Usage(choices, body.n or 1),
        Extras(
            logprobs_of(body) is not None,
            body.prompt_logprobs is not None,
            body.return_token_ids,
            bool(body.return_tokens_as_token_ids),
        ),
        body.request_id or "",
    )
    return Answer(
        engine,
        choices,
        reply,
        wake,
        stream=bool(body.stream),
        usage=options is not None and options.include_usage,
        running_usage=options is not None and options.continuous_usage_stats,
    )


def _choice(index: int, wanted: Wanted, body: Body, tokenizer: Tokenizer, wake: asyncio.Event, *, echo: bool) -> Choice:
    return Choice(index, wanted, tokenizer, wake, skip_special=body.skip_special_tokens, echo=echo)


def _lengths(body: CompletionBody) -> list[int]:
    """Characters of each prompt that is a text."""
    prompts = [body.prompt] if isinstance(body.prompt, str) else body.prompt
    return [len(one) for one in prompts if isinstance(one, str)]


def _check(body: Body, service: Service) -> None:
    service.warn(unknown_fields(body))
    check(body, service.limits)


def _chat_prompt(tokenizer: Tokenizer, messages: list[dict[str, Any]]) -> list[int]:
    try:
        return tokenizer.chat_prompt(messages)
    except UsageError as error:
        raise bad("messages", str(error)) from None


def _text_of(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    if tokens and max(tokens) >= tokenizer.vocab:
        raise bad("tokens", f"token {max(tokens)} is not in the vocabulary of {tokenizer.vocab} tokens")
    text = OutputText(tokenizer, skip_special=False)
    for token in tokens:
        text.feed(token)
    return text.take_rest()


async def _aside(size: int, work: Callable[[], list[Any]]) -> list[Any]:
    return await asyncio.to_thread(work) if size > _LONG_CHARS else work()


async def _read(request: Request, kind: type[BodyT], service: Service) -> BodyT:
    """The body, within its bounds.

    Raises ApiError.
    """
    _authorise(request, service)
    try:
        body: BodyT = kind.model_validate(
            json.loads(await asyncio.wait_for(_body_of(request, service.max_body_bytes), _BODY_S))
        )
    except TimeoutError:
        raise ApiError(408, f"the body did not come within {_BODY_S:g} seconds") from None
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise bad(where.partition(".")[0] or None, f"{where or 'body'}: {first['msg']}") from None
    except (ValueError, RecursionError) as error:
        raise bad(None, f"the body is no JSON: {error}") from None
    service.check_model(getattr(body, "model", None))
    return body


async def _body_of(request: Request, most: int) -> bytes:
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > most:
            raise ApiError(413, f"the body is larger than {most} bytes", headers={"Connection": "close"})
    return bytes(body)


def _authorise(request: Request, service: Service) -> None:
    if service.api_key is None:
        return
    given = request.headers.get("authorization", "")
    if not secrets.compare_digest(given.encode(), f"Bearer {service.api_key}".encode()):
        raise ApiError(401, "the API key is missing or wrong; send it as Authorization: Bearer KEY")


async def _answer_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return Response(error.body(), error.status, error.headers, "application/json")


async def _answer_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    message = f"{request.method} {request.url.path}: {error.detail}"
    return Response(ApiError(error.status_code, message).body(), error.status_code, media_type="application/json")


async def _answer_defect(request: Request, error: Exception) -> Response:
    log.error("%s %s failed: %r", request.method, request.url.path, error)
    return Response(ApiError(500, "the server failed at this request").body(), 500, media_type="application/json")
