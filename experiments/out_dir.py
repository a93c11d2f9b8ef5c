"""The folder of a run's results: chosen and tried before the run, filled after it, each file whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.config import dump, is_config
from experiments.result import ReplayResult
from reports.files import replace_file
from schedlab.errors import UsageError

CONFIG, EVENTS = "config.json", "events.jsonl"
FILES = (
    CONFIG,
    *("summary.json", "run.json", "requests.parquet", "timeline.parquet"),
    *(EVENTS, "report.html", "trace.perfetto.json"),
)
_DRAFT = ".{}.part"
_PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789.-_"


class OutDir:
    """A writable folder. It may hold an earlier replay, whose files are replaced; no other file is touched."""

    def __init__(self, path: Path, *, is_new: bool) -> None:
        self.path = path
        self._is_new = is_new

    @classmethod
    def open(cls, path: Path) -> OutDir:
        """The folder a caller asks for.

        Raises:
            UsageError: it cannot be made or written, or files there would be replaced that no replay wrote.
        """
        is_new = not path.exists()
        _make(path)
        if not is_new and not is_config(path / CONFIG):
            in_the_way = next((name for name in FILES if (path / name).exists()), None)
            if in_the_way:
                raise UsageError(f"--out {path}: {in_the_way} there was written by no replay; choose another folder")
        _try(path)
        return cls(path, is_new=is_new)

    @classmethod
    def fresh(cls, config: dict[str, Any], parent: Path = Path("runs")) -> OutDir:
        """A new folder `runs/<trace>-<model>-<hardware>-<preset>`, with a number behind it where that exists."""
        names = (config["trace"]["name"], config["model"]["name"], config["hardware"]["name"], config["preset"])
        base = "-".join(_plain(name) for name in names)
        number = 1
        while (path := parent / (base if number == 1 else f"{base}-{number}")).exists():
            number += 1
        return cls.open(path)

    @property
    def events_draft(self) -> Path:
        """Where the decision log grows until the run has ended."""
        return self._draft(EVENTS)

    def write(self, result: ReplayResult) -> None:
        """Write every file of a result; those of an earlier replay that this one does not have are removed.

        Raises:
            UsageError: a file cannot be written.
        """
        replace_file(self.path / CONFIG, dump(result.config))
        replace_file(self.path / "summary.json", dump(result.summary))
        replace_file(self.path / "run.json", dump(result.run))
        self._place("requests.parquet", result.observers.requests.write_parquet)
        self._place("timeline.parquet", result.observers.timeline.write_parquet)
        device = result.config["hardware"]["name"]
        self._place("trace.perfetto.json", lambda path: result.observers.perfetto.write(path, device))
        if self.events_draft.exists():
            self.events_draft.replace(self.path / EVENTS)
        else:
            (self.path / EVENTS).unlink(missing_ok=True)
        result.report(self.path / "report.html")

    def discard(self) -> None:
        """Leave nothing of a run that has failed: drafts go, and the folder too if it is new and empty."""
        for name in FILES:
            self._draft(name).unlink(missing_ok=True)
        if self._is_new:
            with suppress(OSError):
                self.path.rmdir()

    def _place(self, name: str, write: Callable[[Path], object]) -> None:
        draft = self._draft(name)
        try:
            write(draft)
            draft.replace(self.path / name)
        except OSError as error:
            raise UsageError(f"cannot write {self.path / name}: {error.strerror}; choose another --out") from error
        finally:
            draft.unlink(missing_ok=True)

    def _draft(self, name: str) -> Path:
        return self.path / _DRAFT.format(name)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be made ({error.strerror}); choose a folder you may write") from error


def _try(path: Path) -> None:
    probe = path / _DRAFT.format("probe")
    try:
        probe.write_bytes(b"\0" * 4096)
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written ({error.strerror}); choose another folder") from error
    finally:
        with suppress(OSError):
            probe.unlink()


def _plain(name: str) -> str:
    """A name as a part of a file name."""
    kept = "".join(letter if letter in _PLAIN else "-" for letter in name.lower())
    return kept.strip("-.")[:60] or "trace"
