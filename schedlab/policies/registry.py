"""Policies by name, with their own parameters; a third party adds one through the entry points `schedlab.policies`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from enum import StrEnum
from importlib.metadata import entry_points
from typing import Any, get_type_hints

from schedlab.config import SchedulerConfig
from schedlab.errors import UsageError
from schedlab.policies.base import Policy
from schedlab.policies.fifo import Fifo
from schedlab.policies.load import load
from schedlab.policies.presets import Preset
from schedlab.policies.priority import Priority
from schedlab.policies.slai import Slai

BUILT_IN: dict[str, type[Policy]] = {policy.name: policy for policy in (Fifo, Slai, Priority)}
GROUP = "schedlab.policies"


def find_policy(name: str) -> type[Policy]:
    """The policy class called `name`: built in, installed, or at `module:Class` or `file.py:Class`.

    Raises:
        UsageError: there is none, or what the name leads to is no policy.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    if ":" in name or name.endswith(".py"):
        return _policy(name, name, lambda: load(name))
    installed = {point.name: point for point in entry_points(group=GROUP)}
    if name not in installed:
        known = ", ".join(dict.fromkeys([*BUILT_IN, *installed]))
        raise UsageError(f"no policy {name!r}; choose one of {known}, or give module:Class or file.py:Class")
    return _policy(name, installed[name].value, installed[name].load)


def _policy(name: str, place: str, loaded: Callable[[], Any]) -> type[Policy]:
    try:
        found = loaded()
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        raise UsageError(f"policy {name!r}: {place} cannot be loaded ({_told(error)}); mend it") from error
    if not (isinstance(found, type) and issubclass(found, Policy)):
        raise UsageError(f"policy {name!r}: {place} is no subclass of schedlab.policies.base.Policy")
    return found


def build(
    preset: Preset, policy_name: str, settings: Mapping[str, str], *, num_blocks: int, max_model_len: int
) -> tuple[SchedulerConfig, Policy, dict[str, Any]]:
    """A configuration and its policy from a preset and `--set` values.

    Returns them with the policy's own parameters as they were set.

    Raises:
        UsageError: a key that neither the configuration nor the policy has, or a value of the wrong kind.
    """
    policy_class = find_policy(policy_name)
    own = _parameters(policy_class)
    hints = get_type_hints(SchedulerConfig)
    names = [field.name for field in fields(SchedulerConfig)]
    values = preset.configuration(num_blocks, max_model_len)
    parameters: dict[str, Any] = {}
    for key, text in settings.items():
        if key in names:
            values[key] = _parse(key, text, hints[key])
        elif key in own:
            parameters[key] = _parse(key, text, own[key])
        else:
            raise UsageError(_unknown(key, policy_name, [*names, *own]))
    config = SchedulerConfig(**values)
    return config, _made(policy_class, policy_name, config, parameters), parameters


def policy_for(config: SchedulerConfig, policy_name: str, settings: Mapping[str, str]) -> Policy:
    """A policy for a configuration that is made already; `settings` as for `build`.

    Raises:
        UsageError: there is none of that name, or a value of the wrong kind.
    """
    policy_class = find_policy(policy_name)
    own = _parameters(policy_class)
    parameters = {key: _parse(key, text, own[key]) for key, text in settings.items() if key in own}
    return _made(policy_class, policy_name, config, parameters)


def _made(policy_class: type[Policy], name: str, config: SchedulerConfig, parameters: Mapping[str, Any]) -> Policy:
    try:
        policy = policy_class(config, **parameters)
    except UsageError:
        raise
    except Exception as error:
        raise UsageError(f"policy {name!r} cannot be made ({_told(error)}); see its constructor and --set") from error
    if getattr(policy, "config", None) is not config:
        raise UsageError(f"policy {name!r} keeps no config: its constructor must call super().__init__(config)")
    return policy


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _parameters(policy_class: type[Policy]) -> dict[str, Any]:
    """The keyword parameters of a policy's constructor behind the configuration, with their types."""
    try:
        hints = get_type_hints(policy_class.__init__)
    except Exception as error:
        raise UsageError(
            f"policy {policy_class.__name__}: the annotations of its constructor cannot be read ({_told(error)}); "
            "import what they name at run time"
        ) from error
    names = list(inspect.signature(policy_class).parameters)[1:]
    return {name: hints.get(name, str) for name in names}


def _parse(key: str, text: str, kind: Any) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no", "on", "off"):
            raise UsageError(f"--set {key}={text}: give true or false")
        return text.lower() in ("true", "1", "yes", "on")
    # Python's own reading takes digits of any script, and `1_000`; what a config.json records is plain.
    if kind in (int, float) and not (text.isascii() and "_" not in text):
        raise UsageError(f"--set {key}={text}: give a {'whole number' if kind is int else 'number'}")
    try:
        return kind(text)
    except TypeError:
        raise UsageError(
            f"--set {key}: a parameter of type {kind} cannot be set from text; annotate it plainly"
        ) from None
    except ValueError:
        if isinstance(kind, type) and issubclass(kind, StrEnum):
            raise UsageError(f"--set {key}={text}: give one of {', '.join(kind)}") from None
        raise UsageError(f"--set {key}={text}: give a {'whole number' if kind is int else 'number'}") from None


def _unknown(key: str, policy_name: str, known: list[str]) -> str:
    owner = next((name for name, policy in BUILT_IN.items() if key in _parameters(policy)), None)
    close = get_close_matches(key, known, n=1)
    if owner is not None:
        hint = f"policy {owner} does: --policy {owner}"
    else:
        hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(known)}"
    return f"--set {key}: neither the scheduler nor policy {policy_name} has it; {hint}"
