"""A process that renders one chat template: JSON lines in, JSON lines out. It imports nothing of this project.

A template is code out of a model's files. Jinja's sandbox keeps it from files and from Python's insides, but not from
taking time and memory; this process has little of the second, and whoever asks it ends it for want of the first.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from jinja2 import Template, TemplateError, nodes
from jinja2.ext import Extension
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment

_MEMORY_BYTES = 1 << 30


class _Generation(Extension):
    """`{% generation %}` marks what the model says, which matters for training only."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment() -> ImmutableSandboxedEnvironment:
    """What chat templates expect of the place where they run, as transformers documents it."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = _to_json
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return made


def main() -> None:
    """The first line has the template and the words that it may use; each further one a chat."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    given = json.loads(sys.stdin.readline())
    template: Template | None = None

    def compile_it() -> str:
        nonlocal template
        template = environment().from_string(given["source"])
        return ""

    def render(line: str) -> str:
        assert template is not None
        return template.render(messages=json.loads(line), add_generation_prompt=True, **given["words"])

    _reply(compile_it)
    for line in sys.stdin:
        _reply(partial(render, line))


def _reply(work: Callable[[], str]) -> None:
    try:
        answer = {"text": work()}
    except TemplateError as error:
        answer = {"error": str(error) or type(error).__name__}
    except Exception as error:
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def _to_json(value: Any, **options: Any) -> str:
    """Without the escapes for HTML that Jinja's own filter has."""
    return json.dumps(value, **{"ensure_ascii": False, **options})


def _refuse(message: str) -> None:
    raise TemplateError(message)


if __name__ == "__main__":
    main()
