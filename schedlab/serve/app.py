"""The endpoints."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from schedlab.errors import UsageError
from schedlab.serve.answer import Answer
from schedlab.serve.bodies import read_body
from schedlab.serve.checks import check, logprobs_of, unknown_fields
from schedlab.serve.choice import Choice
from schedlab.serve.errors import ApiError, bad
from schedlab.serve.params import Stamp, Wanted, apply_defaults, apply_headers, prompts_of, wanted_of
from schedlab.serve.progress import Progress
from schedlab.serve.replies import ChatReply, Extras, Reply, Usage
from schedlab.serve.schema import Body, ChatBody, CompletionBody, DetokenizeBody, Message, TokenizeBody
from schedlab.serve.service import Service
from schedlab.serve.tokenizer import Tokenizer

# Longer prompts are tokenised beside the event loop, which others are waiting for.
_LONG_CHARS = 20_000
log = logging.getLogger("schedlab.serve")


def make_app(service: Service) -> FastAPI:
    """The application; its engine starts with it, and whoever runs it ends that."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> Any:
        service.engine.start()
        service.created = int(time.time())
        telling = asyncio.ensure_future(Progress(service.metrics).tell())
        yield
        telling.cancel()

    app = FastAPI(
        title="schedlab",
        version=service.version,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    app.add_exception_handler(ApiError, _answer_error)
    app.add_exception_handler(HTTPException, _answer_http_error)
    app.add_exception_handler(Exception, _answer_defect)
    _add_facts(app, service)
    _add_tokens(app, service)
    _add_cache(app, service)
    _add_answers(app, service)
    return app


def _add_facts(app: FastAPI, service: Service) -> None:
    limits = service.limits

    @app.api_route("/health", methods=["GET", "HEAD"])
    @app.api_route("/ping", methods=["GET", "HEAD"])
    @app.api_route("/ready", methods=["GET", "HEAD"])
    async def health() -> Response:
        return Response(status_code=503 if service.engine.dead or service.draining else 200)

    @app.get("/load")
    async def load() -> dict[str, int]:
        return {"server_load": service.engine.num_live}

    @app.get("/version")
    async def version() -> dict[str, str]:
        return {"version": service.version}

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        service.authorise(request.headers.get("authorization", ""))
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
    tokenizer, longest = service.tokenizer, service.limits.config.max_model_len

    @app.post("/tokenize")
    async def tokenize(request: Request) -> dict[str, Any]:
        body = await read_body(request, TokenizeBody, service)
        text, special = body.prompt, body.add_special_tokens
        if (text is None) == (body.messages is None):
            raise bad("prompt", "give either prompt or messages")
        if text is None:
            tokens = await _chat_prompt(body.messages or [], service)
        else:
            service.check_length(len(text), "prompt")
            tokens = await _aside(len(text), lambda: tokenizer.encode(text, add_special_tokens=special))
        return {"tokens": tokens, "count": len(tokens), "max_model_len": longest}

    @app.post("/detokenize")
    async def detokenize(request: Request) -> dict[str, str]:
        tokens = (await read_body(request, DetokenizeBody, service)).tokens
        if len(tokens) > longest:
            raise bad("tokens", f"{len(tokens)} tokens; this server's context has {longest}")
        return {"prompt": _text_of(tokens, tokenizer)}


def _add_cache(app: FastAPI, service: Service) -> None:
    @app.post("/reset_prefix_cache")
    async def reset_prefix_cache(request: Request, reset_running_requests: bool = False) -> Response:
        service.authorise(request.headers.get("authorization", ""))
        if not service.limits.config.prefix_cache:
            raise ApiError(409, "this server has no prefix cache; start it with --set prefix_cache=true")
        if not await service.engine.reset_cache(preempt_running=reset_running_requests):
            raise ApiError(409, "blocks are in use; come again, or with ?reset_running_requests=true")
        return Response()


def _add_answers(app: FastAPI, service: Service) -> None:
    @app.post("/v1/completions")
    async def completions(request: Request) -> Any:
        body = await read_body(request, CompletionBody, service)
        _check(body, request.headers, service)
        lengths = [len(one) for one in body.prompt if isinstance(one, str)]
        service.check_length(max(lengths, default=0), "prompt")
        prompts = await _aside(sum(lengths), lambda: prompts_of(body, service.tokenizer))
        return _answer(body, prompts, service, Reply, echo=body.echo)

    @app.post("/v1/chat/completions")
    async def chat(request: Request) -> Any:
        body = await read_body(request, ChatBody, service)
        _check(body, request.headers, service)
        return _answer(body, [await _chat_prompt(body.messages, service)], service, ChatReply, echo=False)


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
            body.return_tokens_as_token_ids,
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


def _check(body: Body, headers: Mapping[str, str], service: Service) -> None:
    service.admit(1)
    service.warn(unknown_fields(body))
    apply_headers(body, headers)
    apply_defaults(body, service.sampling)
    check(body, service.limits)


async def _chat_prompt(messages: Sequence[Message], service: Service) -> list[int]:
    size = sum(len(message.content) + 1 for message in messages)
    service.check_length(size, "messages")
    chat = [message.model_dump() for message in messages]
    try:
        # A template may take seconds, whatever the chat's size.
        return await asyncio.to_thread(service.tokenizer.chat_prompt, chat)
    except UsageError as error:
        raise bad("messages", str(error)) from None


def _text_of(tokens: Sequence[int], tokenizer: Tokenizer) -> str:
    if tokens and max(tokens) >= tokenizer.vocab:
        raise bad("tokens", f"token {max(tokens)} is not in the vocabulary of {tokenizer.vocab} tokens")
    return b"".join(map(tokenizer.token_bytes, tokens)).decode("utf-8", "replace")


async def _aside(size: int, work: Callable[[], list[Any]]) -> list[Any]:
    return await asyncio.to_thread(work) if size > _LONG_CHARS else work()


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
