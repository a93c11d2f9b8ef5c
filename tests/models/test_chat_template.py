"""Chat templates do what published ones expect; they cannot read files, run for ever or fill the memory."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from backends.cuda import chat_template
from backends.cuda.chat_template import ChatTemplate
from schedlab.errors import UsageError

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture(autouse=True)
def little_patience(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(chat_template, "_PATIENCE_S", 2.0)
    yield


def rendered(source: str, **words: str) -> str:
    return ChatTemplate(source, words, "file").render(HELLO)


def test_a_template_sees_the_chat_and_special_words() -> None:
    source = (
        "{{ bos_token }}{% for message in messages %}<{{ message['role'] }}>{{ message.content }}{% endfor %}"
        "{% if add_generation_prompt %}<assistant>{% endif %}"
    )
    assert rendered(source, bos_token="<s>") == "<s><user>Hello<assistant>"


def test_a_template_has_what_transformers_gives_it() -> None:
    """Loop controls, JSON without escapes for HTML, marks of what is trained on, the date."""
    source = (
        "{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}"
        "{{ {'a': '<é>'} | tojson }}{% generation %}!{% endgeneration %}{{ strftime_now('%%') }}"
    )
    assert rendered(source) == '01{"a": "<é>"}!%'


def test_a_template_may_refuse_a_chat() -> None:
    with pytest.raises(UsageError, match="refuses this chat: only roles"):
        rendered("{{ raise_exception('only roles') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ raise_exception.__globals__['json'] }}",
        "{% include '/etc/hostname' %}",
        "{{ open('/etc/hostname').read() }}",
    ],
)
def test_a_template_reaches_nothing_outside(source: str) -> None:
    with pytest.raises(UsageError, match="refuses this chat"):
        rendered(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{{ 10 ** (10 ** 9) }}",
    ],
)
def test_a_template_without_an_end_is_refused_at_the_start(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_template, "_START_PATIENCE_S", 3.0)
    with pytest.raises(UsageError, match=r"file: its chat template cannot be used: it did not finish within"):
        rendered(source)


def test_a_chat_that_takes_too_long_or_too_much_fails_alone() -> None:
    """The next chat is answered by a new process."""
    template = ChatTemplate(
        "{% if messages[0].content == 'long' %}{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}"
        "{% endfor %}{% endif %}{% if messages[0].content == 'large' %}{{ 'a' * 10 ** 10 }}{% endif %}ok",
        {},
        "file",
    )
    began = time.monotonic()
    with pytest.raises(UsageError, match="did not finish within 2 s"):
        template.render([{"role": "user", "content": "long"}])
    assert time.monotonic() - began < 30
    assert template.render(HELLO) == "ok"
    with pytest.raises(UsageError, match="MemoryError"):
        template.render([{"role": "user", "content": "large"}])
    assert template.render(HELLO) == "ok"


def test_a_template_that_cannot_be_compiled_is_named() -> None:
    with pytest.raises(UsageError, match=r"file: its chat template cannot be read: .*end of template"):
        rendered("{% for")


def test_long_chats_pass_whole() -> None:
    text = "\n\u2028é" * 300_000
    template = ChatTemplate("{{ messages[0].content }}", {}, "file")
    assert template.render([{"role": "user", "content": text}]) == text


def test_a_process_ends_with_its_template(tmp_path: Path) -> None:
    template = ChatTemplate("ok", {}, "file")
    assert template._process is not None
    process = template._process
    assert json.loads(Path(f"/proc/{process.pid}/stat").read_text().split()[0]) == process.pid
    del template
    assert process.returncode is not None
