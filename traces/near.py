"""Advice for a file of no known format: which columns are looked for, and which of its own to rename."""

from __future__ import annotations

from collections.abc import Iterable

from traces.formats.own import REQUIRED

_OTHER_NAMES = {
    "arrival_ns": (
        "arrival arrivals arrivaltime arrivaltimes arrivaltimestamp arrivedat arrivalms arrivalus arrivalsec "
        "timestamp timestampns timestampms time times t ts starttime requesttime reqtime submittime createdat"
    ),
    "prompt_tokens": (
        "prompt promptlen promptlength prompttoken numprompttokens input inputs inputtoken inputtokens inputlen "
        "inputlength inputtoks numinputtokens contexttokens numprefilltokens prefilltokens requesttokens prefilllength"
    ),
    "output_tokens": (
        "output outputs outputlen outputlength outputtoken outputtoks numoutputtokens generatedtokens numdecodetokens "
        "decodetokens decodelength completion completiontokens response responselen responselength responsetokens"
    ),
}
_FIELD_OF = {other: field for field, others in _OTHER_NAMES.items() for other in others.split()}
_FIELD_OF |= {field.replace("_", ""): field for field in REQUIRED}
PLAINEST = f"schedlab's own plainest table has the columns {','.join(REQUIRED)}"


_OTHER_FILES = {
    "schedlab_incident": "a server's run tick by tick: schedlab replay {} plays it again; its trace is the file beside "
    "it without .ticks in the name",
    "schedlab_check": "an example that broke a law: schedlab replay {} --check shows it",
    "schedlab_replay": "the config.json of a replay: schedlab replay {} repeats it",
}


def other_file(names: Iterable[str], file: str) -> str:
    """What another file of this project is, told by the fields in its first line; empty for any other."""
    return next((what.format(file) for name, what in _OTHER_FILES.items() if name in names), "")


def advice(names: Iterable[str]) -> str:
    """The columns looked for; where at least two of `names` come near them, what to rename and what is missing."""
    found: dict[str, str] = {}
    for name in sorted(names):
        field = _FIELD_OF.get("".join(letter for letter in name.lower() if letter.isalnum()))
        if field and (field not in found or name == field):
            found[field] = name
    if len(found) < 2:
        return PLAINEST
    renamed = [f"{found[field]} to {field}{_unit(field)}" for field in REQUIRED if found.get(field, field) != field]
    missing = [f"{field}{_unit(field)}" for field in REQUIRED if field not in found]
    steps = [f"rename {', '.join(renamed)}"] * bool(renamed) + [f"add {', '.join(missing)}"] * bool(missing)
    return f"{PLAINEST}; in this file, {' and '.join(steps)}"


def _unit(field: str) -> str:
    return " (whole nanoseconds)" if field == "arrival_ns" else ""
