"""The command line, from its words to its exit code. Only what `--help` needs is imported at the start."""

from __future__ import annotations

import io
import signal
import sys
from contextlib import suppress
from itertools import pairwise
from typing import Any

import typer

from schedlab.cli import served, simulated
from schedlab.cli.codes import DEFECT_EXIT, INTERRUPT_EXIT, USAGE_EXIT
from schedlab.errors import InvariantViolation, SchedlabError, UsageError
from traces.commands import app as trace_app

CHECKS = ("laws", "shadow")
# The base of every complaint about flags, whichever package the installed typer takes it from.
FlagError: Any = typer.BadParameter.__mro__[2]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A lab for LLM-inference schedulers: one scheduler, any device.",
)
app.add_typer(trace_app, name="trace")
for _command in (
    simulated.replay,
    simulated.memory,
    simulated.check,
    served.serve,
    served.bench,
    served.parity,
):
    app.command()(_command)

_VERSION = typer.Option(False, "--version", metavar="", help="Print the version and exit.")


@app.callback(invoke_without_command=True)
def _group(context: typer.Context, version: bool = _VERSION) -> None:
    if version:
        from experiments.config import schedlab_version

        typer.echo(f"schedlab {schedlab_version()}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command and exit: 0 done, 2 bad input, 130 interrupted, 1 a law of the run does not hold."""
    sys.exit(_run())


def _run() -> int:
    # Whoever asks the command to end gets what Ctrl-C gets: nothing half done is left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        return int(app(_spelt_out(sys.argv[1:]), standalone_mode=False) or 0)
    except FlagError as error:
        return _complain(_explained(error))
    except InvariantViolation as error:
        notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
        return _complain(f"a law of the run does not hold: {error}{notes}", DEFECT_EXIT)
    except SchedlabError as error:
        return _complain(str(error))
    except (typer.Abort, KeyboardInterrupt):
        return _complain("interrupted before the results were complete", INTERRUPT_EXIT)
    except MemoryError:
        return _complain("out of memory; replay fewer rows (--limit), or on a machine with more")
    except OSError as error:
        where = error.filename or "standard output"
        return _complain(f"{where}: {error.strerror or error}; give a place that can be read and written")


def _spelt_out(arguments: list[str]) -> list[str]:
    """A bare `--check` means the laws; what follows it is an argument of its own, unless it names a check.

    Underscores in the names of flags are hyphens.
    """
    spelt: list[str] = []
    for before, given in pairwise(["", *arguments]):
        _refuse_empty(before, given)
        name, equals, value = given.partition("=")
        argument = name.replace("_", "-") + equals + value if name.startswith("--") else given
        if before == "--check" and argument in CHECKS:
            spelt[-1] = f"--check={argument}"
        else:
            spelt.append("--check=laws" if argument == "--check" else argument)
    return spelt


def _refuse_empty(before: str, given: str) -> None:
    """What a shell makes of a variable that is not set names no file, no folder and no policy."""
    name, equals, value = given.partition("=")
    if not given or (name.startswith("--") and equals and not value):
        flag = name or (before if before.startswith("--") else "an argument")
        raise UsageError(f"{flag} is empty; give a value, or leave it out")


def _explained(error: Any) -> str:
    """What is wrong with the flags; for one that does not exist, what its like is called here."""
    from experiments.flag_hints import hint

    advice = hint(getattr(error, "option_name", None) or "")
    return f"{error.format_message()}; {advice}" if advice else str(error.format_message())


def _complain(message: str, code: int = USAGE_EXIT) -> int:
    line = "".join(letter if letter.isprintable() else "\ufffd" for letter in " ".join(message.split()))
    if line:
        with suppress(OSError):
            print(f"schedlab: error: {line}", file=sys.stderr)
    return code
