"""What happened to the rows of a trace while it was read."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ReadReport:
    """A tally of one complete pass. The law: rows_read == rows_kept + every dropped row, each under its reason.

    `reordered_rows` counts rows whose stamp lies before that of the row above them in the file.
    """

    format: str
    source: str
    rows_read: int = 0
    rows_kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    reordered_rows: int = 0

    def drop(self, reason: str, rows: int = 1) -> None:
        """Count rows that are read but not replayed."""
        if rows:
            self.dropped[reason] = self.dropped.get(reason, 0) + rows

    def note(self, text: str) -> None:
        """Keep a fact that the reader of the result must know."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def rows_dropped(self) -> int:
        """Rows read and not kept, for any reason."""
        return sum(self.dropped.values())

    def add_up(self) -> bool:
        """Whether the law holds."""
        return self.rows_read == self.rows_kept + self.rows_dropped

    def as_dict(self) -> dict[str, object]:
        """The report as plain JSON values."""
        return {
            "format": self.format,
            "source": self.source,
            "rows_read": self.rows_read,
            "rows_kept": self.rows_kept,
            "dropped": dict(self.dropped),
            "reordered_rows": self.reordered_rows,
            "notes": list(self.notes),
        }
