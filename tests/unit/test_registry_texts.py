"""What the registry makes of names and `--set` values, to the word."""

from __future__ import annotations

from dataclasses import fields
from enum import StrEnum
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.policies import registry
from schedlab.policies.fifo import Fifo
from schedlab.policies.presets import Preset, find_preset
from schedlab.policies.priority import Priority
from schedlab.policies.registry import build, find_policy, policy_for
from schedlab.policies.slai import Slai

HERE = __name__
CONFIG = SchedulerConfig()


class Mood(StrEnum):
    """A parameter of few words."""

    GOOD = "good"
    BAD = "bad"


class Every(Fifo):
    """Parameters of every kind that a text can be, and of none."""

    def __init__(
        self,
        config: SchedulerConfig,
        count: int = 1,
        rate: float = 1.0,
        is_on: bool = False,
        mood: Mood = Mood.GOOD,
        label: str = "",
        plain="",  # type: ignore[no-untyped-def]
    ) -> None:
        super().__init__(config)
        self.made_of = {"count": count, "rate": rate, "is_on": is_on, "mood": mood, "label": label, "plain": plain}


class Odd(Fifo):
    """A parameter that no text can be."""

    def __init__(self, config: SchedulerConfig, choice: int | None = None) -> None:
        super().__init__(config)


def even(text: str) -> int:
    """What a parameter may be annotated with: anything that makes a value of a text."""
    if int(text) % 2:
        raise ValueError
    return int(text)


class Paired(Fifo):
    def __init__(self, config: SchedulerConfig, pairs: even = 2) -> None:  # type: ignore[valid-type]
        super().__init__(config)
        self.pairs = pairs


class Raising(Fifo):
    def __init__(self, config: SchedulerConfig) -> None:
        raise RuntimeError("no luck")


class Refusing(Fifo):
    def __init__(self, config: SchedulerConfig) -> None:
        raise UsageError("in its own words")


class Unreadable(Fifo):
    def __init__(self, config: NoSuchType) -> None:  # type: ignore[name-defined] # noqa: F821
        super().__init__(config)


class Nameless(Fifo):
    config: SchedulerConfig

    def __init__(self, config: SchedulerConfig) -> None:
        return None


def of(kind: type[Fifo], **settings: str) -> Any:
    """A policy of that class, made from texts."""
    return policy_for(CONFIG, f"{HERE}:{kind.__name__}", settings)


def refused(told: str, kind: type[Fifo], **settings: str) -> None:
    """It is refused in exactly those words, by whichever way it is made."""
    name = f"{HERE}:{kind.__name__}"
    with pytest.raises(UsageError) as first:
        policy_for(CONFIG, name, settings)
    with pytest.raises(UsageError) as second:
        build(find_preset("vllm"), name, settings, num_blocks=9, max_model_len=9)
    assert str(first.value) == str(second.value) == told


def test_a_parameter_is_read_as_its_annotation_says() -> None:
    texts = {"count": "-3", "rate": "2.5e3", "is_on": "ON", "mood": "bad", "label": "a b", "plain": "7"}
    expected = {"count": -3, "rate": 2500.0, "is_on": True, "mood": Mood.BAD, "label": "a b", "plain": "7"}
    assert of(Every, **texts).made_of == expected
    made = build(find_preset("vllm"), f"{HERE}:Every", texts, num_blocks=9, max_model_len=9)
    assert made[2] == expected and isinstance(made[1], Every) and made[1].config is made[0]
    assert [type(value) for value in made[2].values()] == [int, float, bool, Mood, str, str]
    assert of(Every).made_of == {"count": 1, "rate": 1.0, "is_on": False, "mood": "good", "label": "", "plain": ""}


@pytest.mark.parametrize("words", ["true false", "1 0", "yes no", "on off", "True False", "YES NO", "oN oFF"])
def test_yes_and_no_are_said_in_many_words(words: str) -> None:
    assert [of(Every, is_on=word).made_of["is_on"] for word in words.split()] == [True, False]


@pytest.mark.parametrize(
    ("key", "text", "what"),
    [
        ("is_on", "2", "true or false"),
        ("is_on", "", "true or false"),
        ("count", "3.0", "a whole number"),
        ("count", "1_000", "a whole number"),
        ("count", "\uff13", "a whole number"),
        ("count", "", "a whole number"),
        ("rate", "fast", "a number"),
        ("rate", "1_0.0", "a number"),
        ("rate", "\u0663", "a number"),
        ("mood", "worse", "one of good, bad"),
        ("mood", "GOOD", "one of good, bad"),
    ],
)
def test_a_text_of_another_kind_is_refused(key: str, text: str, what: str) -> None:
    refused(f"--set {key}={text}: give {what}", Every, **{key: text})


def test_a_label_may_be_written_in_any_script() -> None:
    assert of(Every, label="\u0663_1").made_of["label"] == "\u0663_1"


def test_what_no_text_can_be_is_named() -> None:
    told = "--set choice: a parameter of type int | None cannot be set from text; annotate it plainly"
    refused(told, Odd, choice="3")
    assert of(Odd).config is CONFIG


def test_what_a_function_makes_of_a_text_is_taken() -> None:
    assert of(Paired, pairs="4").pairs == 4
    refused("--set pairs=3: give a number", Paired, pairs="3")


def test_a_policy_that_cannot_be_made_says_why_and_one_that_refuses_has_its_own_words() -> None:
    told = f"policy '{HERE}:Raising' cannot be made (RuntimeError: no luck); see its constructor and --set"
    refused(told, Raising)
    refused("in its own words", Refusing)
    refused(
        "policy Unreadable: the annotations of its constructor cannot be read (NameError: name 'NoSuchType' is not "
        "defined); import what they name at run time",
        Unreadable,
    )
    refused(f"policy '{HERE}:Nameless' keeps no config: its constructor must call super().__init__(config)", Nameless)


def leaving() -> Any:
    raise SystemExit(3)


def broken() -> Any:
    raise ValueError("a bad day")


def unusable() -> Any:
    raise UsageError("said already")


class Point:
    """An entry point that is loaded by a function."""

    def __init__(self, name: str, loaded: Any) -> None:
        self.name, self.value, self.load = name, f"somewhere:{name}", loaded


def test_what_is_installed_is_found_by_its_name_or_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("mine", f"{HERE}:Every", registry.GROUP),
        EntryPoint("fifo", f"{HERE}:Every", registry.GROUP),
        Point("leaving", leaving),
        Point("broken", broken),
        Point("unusable", unusable),
        Point("number", lambda: 3),
        Point("stranger", lambda: dict),
        Point("made", lambda: Fifo(CONFIG)),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == "schedlab.policies" else [])
    assert find_policy("mine").__name__ == "Every"
    assert find_policy("fifo") is Fifo, "what is built in keeps its name"
    for name, told in (
        ("leaving", "policy 'leaving': somewhere:leaving cannot be loaded (SystemExit: 3); mend it"),
        ("broken", "policy 'broken': somewhere:broken cannot be loaded (ValueError: a bad day); mend it"),
        ("unusable", "said already"),
        *(
            (name, f"policy '{name}': somewhere:{name} is no subclass of schedlab.policies.base.Policy")
            for name in ("number", "stranger", "made")
        ),
        (
            "nobody",
            "no policy 'nobody'; choose one of fifo, slai, priority, mine, leaving, broken, unusable, number, "
            "stranger, made, or give module:Class or file.py:Class",
        ),
    ):
        with pytest.raises(UsageError) as error:
            find_policy(name)
        assert str(error.value) == told


def test_a_place_is_loaded_whatever_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "entry_points", lambda group: pytest.fail("nobody need look"))
    assert find_policy("schedlab.policies.slai:Slai") is Slai
    with pytest.raises(UsageError, match=r"^policy 'schedlab.config:Fusion': schedlab.config:Fusion is no subclass"):
        find_policy("schedlab.config:Fusion")


FIELDS = ", ".join(field.name for field in fields(SchedulerConfig))


@pytest.mark.parametrize(
    ("policy", "key", "hint"),
    [
        ("fifo", "tbt_deadline_ms", "policy slai does: --policy slai"),
        ("slai", "evict", "policy priority does: --policy priority"),
        ("priority", "tbt_deadline_ms", "policy slai does: --policy slai"),
        ("fifo", "max_num_seq", "did you mean max_num_seqs?"),
        ("priority", "evicts", "did you mean evict?"),
        ("fifo", "qqq", f"known: {FIELDS}"),
        ("priority", "qqq", f"known: {FIELDS}, aging_per_s, evict"),
        ("slai", "qqq", f"known: {FIELDS}, tbt_deadline_ms"),
    ],
)
def test_a_key_that_nobody_has_is_refused_with_who_has_it_or_what_is_near(policy: str, key: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        build(find_preset("vllm"), policy, {key: "1"}, num_blocks=9, max_model_len=9)
    told = f"--set {key}: neither the scheduler nor policy {policy} has it; {hint}"
    assert str(error.value) == str(UsageError(told))


def test_settings_go_over_the_presets_and_the_policy_is_made_of_both() -> None:
    preset = Preset("own", "fifo", "a test", {"max_num_seqs": 5, "max_num_batched_tokens": 50}, watermark_percent=10)
    config, policy, parameters = build(
        preset, "priority", {"max_num_seqs": "7", "evict": "yes"}, num_blocks=95, max_model_len=321
    )
    assert config == SchedulerConfig(max_num_seqs=7, max_num_batched_tokens=50, watermark_blocks=9, max_model_len=321)
    assert isinstance(policy, Priority) and policy.config is config and policy.evict and parameters == {"evict": True}
    assert preset.fields == {"max_num_seqs": 5, "max_num_batched_tokens": 50}, "a preset is not changed"
