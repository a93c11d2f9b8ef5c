"""Policies by name and `--set` values: what is parsed, and what is refused with what hint."""

from __future__ import annotations

from dataclasses import fields, replace
from importlib.metadata import EntryPoint

import pytest

from schedlab.config import Fusion, SchedulerConfig
from schedlab.errors import UsageError
from schedlab.policies import registry
from schedlab.policies.fifo import Fifo
from schedlab.policies.presets import find_preset
from schedlab.policies.priority import MICRO, NS_PER_S, Priority
from schedlab.policies.registry import build, find_policy, policy_for
from schedlab.policies.slai import Slai
from schedlab.request import Prompt, Request


def built(policy: str = "fifo", **settings: str) -> SchedulerConfig:
    return build(find_preset("vllm"), policy, settings, num_blocks=1000, max_model_len=4096)[0]


@pytest.mark.parametrize(("name", "policy"), [("fifo", Fifo), ("slai", Slai), ("priority", Priority)])
def test_built_in_policies_are_found_and_installed_under_their_names(name: str, policy: type[Fifo]) -> None:
    assert find_policy(name) is policy
    assert policy.name == name


def test_an_unknown_policy_is_refused_with_those_there_are() -> None:
    with pytest.raises(UsageError, match=r"no policy 'lifo'.*fifo, slai, priority"):
        find_policy("lifo")


def test_a_third_party_adds_a_policy_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("moody", "schedlab.testing.hostile:Moody", registry.GROUP),
        EntryPoint("broken", "schedlab.config:SchedulerConfig", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points if group == registry.GROUP else [])
    _, policy, parameters = build(find_preset("vllm"), "moody", {"seed": "5"}, num_blocks=9, max_model_len=99)
    assert policy.name == "moody" and parameters == {"seed": 5}
    with pytest.raises(UsageError, match=r"policy 'broken': schedlab.config:SchedulerConfig is no subclass"):
        find_policy("broken")


def test_settings_are_parsed_to_the_kind_of_their_field() -> None:
    config = built(fusion="none", chunked_prefill="off", max_num_seqs="7", max_model_len="100")
    assert (config.fusion, config.chunked_prefill, config.max_num_seqs) == (Fusion.NONE, False, 7)
    assert config.max_model_len == 100


def test_every_field_of_the_configuration_can_be_set() -> None:
    defaults = SchedulerConfig()
    for field in fields(SchedulerConfig):
        value = getattr(defaults, field.name)
        assert getattr(built(**{field.name: str(value)}), field.name) == value


@pytest.mark.parametrize(
    ("word", "value"), [("true", True), ("FALSE", False), ("1", True), ("0", False), ("yes", True), ("No", False)]
)
def test_a_policys_own_parameters_are_parsed_too(word: str, value: bool) -> None:
    settings = {"evict": word, "aging_per_s": "0.25"}
    _, policy, parameters = build(find_preset("vllm"), "priority", settings, num_blocks=9, max_model_len=99)
    assert isinstance(policy, Priority)
    assert parameters == {"evict": value, "aging_per_s": 0.25}


def test_settings_of_a_made_configuration_are_parsed_alike() -> None:
    """Those that shape the configuration are in it already."""
    config = built("priority", evict="false", max_num_seqs="7")
    request = Request(0, Prompt(1), 1, arrival_ns=8 * NS_PER_S)
    policy = policy_for(config, "priority", {"evict": "no", "aging_per_s": "0.25", "max_num_seqs": "7"})
    made = build(find_preset("vllm"), "priority", {"evict": "no", "aging_per_s": "0.25"}, num_blocks=9, max_model_len=9)
    assert policy.config is config
    assert isinstance(policy, Priority) and isinstance(made[1], Priority)
    assert (policy.evict, policy.key(request)) == (made[1].evict, made[1].key(request)) == (False, 2 * NS_PER_S * MICRO)
    with pytest.raises(UsageError, match="--set tbt_deadline_ms=soon: give a whole number"):
        policy_for(config, "slai", {"tbt_deadline_ms": "soon"})


class Stubborn(Fifo):
    """Keeps a configuration of its own."""

    def __init__(self, config: SchedulerConfig) -> None:
        super().__init__(replace(config))


class Forgetful(Fifo):
    """Keeps none."""

    def __init__(self, config: SchedulerConfig) -> None:
        return None


@pytest.mark.parametrize("policy", [Stubborn, Forgetful])
def test_a_policy_keeps_the_configuration_that_the_scheduler_has(policy: type[Fifo]) -> None:
    with pytest.raises(UsageError, match=r"keeps no config: its constructor must call super\(\).__init__\(config\)"):
        policy_for(SchedulerConfig(), f"{__name__}:{policy.__name__}", {})


@pytest.mark.parametrize(
    ("policy", "settings", "message"),
    [
        ("fifo", {"max_num_seq": "8"}, "--set max_num_seq: .*policy fifo has it; did you mean max_num_seqs"),
        ("fifo", {"evict": "true"}, "--set evict: neither the scheduler nor policy fifo has it"),
        ("slai", {"tbt_deadline": "5"}, "did you mean tbt_deadline_ms"),
        ("fifo", {"max_num_seqs": "many"}, "--set max_num_seqs=many: give a whole number"),
        ("priority", {"aging_per_s": "fast"}, "--set aging_per_s=fast: give a number"),
        ("fifo", {"fusion": "some"}, "--set fusion=some: give one of none, continue, all"),
        ("priority", {"evict": "maybe"}, "--set evict=maybe: give true or false"),
        ("fifo", {"max_num_seqs": "0"}, "max_num_seqs is 0; give at least 1"),
        ("slai", {"tbt_deadline_ms": "0"}, "tbt_deadline_ms is 0"),
        ("priority", {"aging_per_s": "-1"}, "aging_per_s is -1"),
        ("priority", {"aging_per_s": "nan"}, "aging_per_s is nan"),
        ("priority", {"evict": "1", "resume": "smallest"}, "evict needs resume=in_line"),
        ("fifo", {"max_num_seqs": "9000"}, "max_num_batched_tokens .8192. is below max_num_seqs .9000."),
        ("fifo", {"watermark_tokens": "5"}, "watermark_tokens belongs to admission=commit"),
        ("fifo", {"overcommit_percent": "150"}, "overcommit_percent belongs to admission=commit"),
        ("fifo", {"admission": "commit", "watermark_blocks": "5"}, "watermark_blocks belongs to admission=prompt"),
        ("fifo", {"chunked_prefill": "no", "align_chunks": "yes"}, "align_chunks shapes chunks"),
        ("fifo", {"chunked_prefill": "no", "max_prefill_tokens": "8"}, "max_prefill_tokens limits chunks"),
        ("fifo", {"chunked_prefill": "no", "max_model_len": "9000"}, "a prompt must fit in one step"),
    ],
)
def test_a_bad_setting_is_refused_with_its_name_and_a_way_out(
    policy: str, settings: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        build(find_preset("vllm"), policy, settings, num_blocks=1000, max_model_len=4096)


@pytest.mark.parametrize("text", ["\uff13", "\u0663", "1_000"])
@pytest.mark.parametrize(("policy", "key"), [("fifo", "max_bypass"), ("priority", "aging_per_s")])
def test_a_number_is_written_in_plain_digits(policy: str, key: str, text: str) -> None:
    with pytest.raises(UsageError, match=f"--set {key}=.*: give a .*number"):
        built(policy, **{key: text})
