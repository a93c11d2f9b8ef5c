"""The folder of a run's results: chosen and tried before the run, filled after it, each file whole or not at all."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from experiments.config import dump, is_config
from experiments.result import ReplayResult
from schedlab.errors import UsageError
from schedlab.policies.presets import find_preset

CONFIG, EVENTS = "config.json", "events.jsonl"
FILES = (
    CONFIG,
    *("summary.json", "run.json", "requests.parquet", "timeline.parquet"),
    *(EVENTS, "report.html", "trace.perfetto.json"),
)
_DRAFT = ".{}.part"
_PLAIN = "abcdefghijklmnopqrstuvwxyz0123456789.-_"


class OutDir:
    """A writable folder. It may hold an earlier replay, whose files are replaced; no other file is touched.

    It is locked until `close`, so that no other run writes into it; the lock of a run that is killed ends with it.
    """

    def __init__(self, path: Path, lock: int, *, is_new: bool) -> None:
        self.path = path
        self._lock = lock
        self._is_new = is_new
        self._drafted: dict[str, None] = {}

    @classmethod
    def open(cls, path: Path) -> OutDir:
        """The folder a caller asks for.

        Raises:
            UsageError: it cannot be made or written, another run is writing there, or files would be replaced that no
                replay wrote.
        """
        is_new = not os.path.lexists(path)
        _make(path)
        return cls._opened(path, is_new=is_new)

    @classmethod
    def _opened(cls, path: Path, *, is_new: bool) -> OutDir:
        opened = cls(path, _locked(path), is_new=is_new)
        try:
            opened._refuse_files_of_others()
            _try(path)
        except BaseException:
            opened.discard()
            raise
        return opened

    @classmethod
    def fresh(cls, config: dict[str, Any], parent: Path = Path("runs")) -> OutDir:
        """A new folder `runs/<trace>-<model>-<hardware>-<preset>`, with a number behind it where that exists.

        A policy that is not the preset's own stands behind the preset.
        """
        names = [config["trace"]["name"], config["model"]["name"], config["hardware"]["name"], config["preset"]]
        if config["policy"]["name"] != find_preset(config["preset"]).policy:
            names.append(config["policy"]["name"])
        base = "-".join(_plain(name) for name in names)
        _make(parent)
        number = 1
        while os.path.lexists(path := parent / (base if number == 1 else f"{base}-{number}")) or not _made(path):
            number += 1
        return cls._opened(path, is_new=True)

    @property
    def events_draft(self) -> Path:
        """Where the decision log grows until the run has ended; whoever asks for it writes one."""
        self._drafted[EVENTS] = None
        return self._draft(EVENTS)

    def write(self, result: ReplayResult) -> None:
        """Write every file of a result; those of an earlier replay that this one does not have are removed.

        Nothing of an earlier replay is replaced before every file of this one is there.

        Raises:
            UsageError: a file cannot be written.
        """
        self._write_draft(CONFIG, lambda path: path.write_bytes(dump(result.config)))
        self._write_draft("summary.json", lambda path: path.write_bytes(dump(result.summary)))
        self._write_draft("run.json", lambda path: path.write_bytes(dump(result.run)))
        self._write_draft("requests.parquet", result.observers.requests.write_parquet)
        self._write_draft("timeline.parquet", result.observers.timeline.write_parquet)
        device = result.config["hardware"]["name"]
        self._write_draft("trace.perfetto.json", lambda path: result.observers.perfetto.write(path, device))
        self._write_draft("report.html", result.report)
        for name in FILES:
            self._place(name)

    def discard(self) -> None:
        """Leave nothing of a run that has failed: drafts go, and the folder too if it is new and empty."""
        with suppress(OSError):
            for name in FILES:
                self._draft(name).unlink(missing_ok=True)
            if self._is_new:
                self.path.rmdir()
        self.close()

    def close(self) -> None:
        """Let other runs write here."""
        os.close(self._lock)

    def _refuse_files_of_others(self) -> None:
        if is_config(self.path / CONFIG):
            return
        in_the_way = next((name for name in FILES if (self.path / name).exists()), None)
        if in_the_way:
            raise UsageError(f"--out {self.path}: {in_the_way} there was written by no replay; choose another folder")

    def _write_draft(self, name: str, write: Callable[[Path], object]) -> None:
        self._drafted[name] = None
        try:
            write(self._draft(name))
        except OSError as error:
            raise self._unwritable(name, error) from error

    def _place(self, name: str) -> None:
        """The draft becomes the file. What this run has no draft for goes, the draft of a run that was killed too."""
        draft, path = self._draft(name), self.path / name
        try:
            if name in self._drafted:
                draft.replace(path)
            else:
                path.unlink(missing_ok=True)
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise self._unwritable(name, error) from error

    def _unwritable(self, name: str, error: OSError) -> UsageError:
        return UsageError(f"cannot write {self.path / name}: {error.strerror or error}; choose another --out")

    def _draft(self, name: str) -> Path:
        return self.path / _DRAFT.format(name)


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be made ({error.strerror}); choose a folder you may write") from error


def _made(path: Path) -> bool:
    """Whether the folder is there now and nobody else made it."""
    try:
        path.mkdir()
    except FileExistsError:
        return False
    except OSError as error:
        raise UsageError(f"{path}: cannot be made ({error.strerror}); choose a folder with --out") from error
    return True


def _locked(path: Path) -> int:
    """An open descriptor of the folder that holds its lock."""
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be opened ({error.strerror}); choose another folder") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise UsageError(f"--out {path}: another run is writing there; wait for it, or choose another folder") from None
    except OSError:
        # A file system without locks: the run goes on unprotected.
        return lock
    return lock


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
