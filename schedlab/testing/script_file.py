"""Scripts as JSON files, to be replayed and to be pasted into a test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_type_hints

from schedlab.errors import UsageError
from schedlab.policies.registry import find_policy
from schedlab.testing.actions import Action, Script
from schedlab.testing.codec import from_json, tagged, to_json
from schedlab.testing.world import PolicyFactory, World

FORMAT = "schedlab_check"
_HEAD_CHARS = 64
_REQUIRED = ("config", "cost", "num_blocks")


def dumps(script: Script, policy_name: str, law: str = "") -> str:
    """A script as JSON text; `law` is the one that it breaks."""
    world = {name: value for name, value in to_json(script.world).items() if name != "policy"}
    document = {FORMAT: 1, "policy": policy_name, "breaks": law, "leap": script.leap}
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in document.items()]
    fields = ",\n".join(f"    {json.dumps(name)}: {json.dumps(value)}" for name, value in world.items())
    actions = ",".join(f"\n    {json.dumps(tagged(action))}" for action in script.actions)
    lines += [f'  "world": {{\n{fields}\n  }}', f'  "actions": [{actions}]']
    return "{\n" + ",\n".join(lines) + "\n}\n"


def loads(text: str, policy: PolicyFactory | None = None, where: str = "script") -> Script:
    """The script in JSON text, with `policy` or else the one that it names.

    Raises:
        UsageError: it is none, or its policy cannot be found.
    """
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not readable as JSON ({error})") from None
    if not isinstance(document, dict) or document.get(FORMAT) != 1 or not isinstance(document.get("world"), dict):
        raise UsageError(f"{where}: not what `schedlab check` saves (format 1); run the check again")
    decides = policy or find_policy(str(document.get("policy")))
    world: World = _world(document["world"], decides, where)
    actions: tuple[Action, ...] = from_json(tuple[Action, ...], document.get("actions", []), f"{where}: actions")
    return Script(world, actions, from_json(bool, document.get("leap", True), f"{where}: leap"))


def read(path: Path) -> Script:
    """The script in a file.

    Raises:
        UsageError: as `loads`; the message names the file.
    """
    try:
        text = path.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not readable ({error}); give a file that `schedlab check` saved") from None
    return loads(text, where=str(path))


def is_script(path: Path) -> bool:
    """Whether a file is one that `schedlab check` saved, told by its first field."""
    try:
        if not path.is_file():
            return False
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_HEAD_CHARS).lstrip("{ \r\n\t").startswith(f'"{FORMAT}"')
    except OSError:
        return False


def _world(values: dict[str, Any], policy: PolicyFactory, where: str) -> World:
    """A world's fields but its policy, which is code and no value."""
    hints = {name: hint for name, hint in get_type_hints(World).items() if name != "policy"}
    unknown = [name for name in values if name not in hints]
    missing = [name for name in _REQUIRED if name not in values]
    if unknown or missing:
        problem = f"has no field {unknown[0]!r}" if unknown else f"lacks {missing[0]!r}"
        raise UsageError(f"{where}: world {problem}; its fields are {', '.join(hints)}")
    found = {name: from_json(hints[name], value, f"{where}: world.{name}") for name, value in values.items()}
    return World(policy=policy, **found)
