"""The HTML report: self-contained, escaped, bounded, and whole for every shape of run."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from reports.html import write_report
from schedlab.errors import UsageError
from tests.unit.made_run import MadeRun, empty_run, made_run

VOID = ("meta", "br", "img", "link", "hr", "path", "use", "rect", "image")


class Page(HTMLParser):
    """Collects tags, ids, text and addresses, and checks that elements nest."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.ids += [value or "" for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action")]
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self._open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data

    @property
    def nests(self) -> bool:
        return not self._open


def report(tmp_path: Path, run: MadeRun) -> tuple[str, Page]:
    path = write_report(
        tmp_path / "report.html", run.requests, run.timeline, run.summary, run.config, run.run, run.notes
    )
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    return text, page


def test_every_element_closes_and_ids_are_unique(tmp_path: Path) -> None:
    _, page = report(tmp_path, made_run(300))
    assert page.nests
    assert len(page.ids) == len(set(page.ids))


def test_the_page_says_how_finely_itl_is_read(tmp_path: Path) -> None:
    assert "Percentiles of ITL are read from buckets 0.8 % wide" in report(tmp_path, made_run(40))[1].text


def test_nothing_is_fetched_and_nothing_runs(tmp_path: Path) -> None:
    text, page = report(tmp_path, made_run(3_000))
    assert all(link.startswith(("#", "data:image/png")) for link in page.links)
    assert any(link.startswith("data:image/png") for link in page.links)
    assert "script" not in page.tags
    assert not re.search(r"url\((?!#)", text)
    assert "default-src 'none'" in text


def test_references_inside_pictures_lead_somewhere(tmp_path: Path) -> None:
    text, page = report(tmp_path, made_run(300))
    wanted = re.findall(r"url\(#([^)]*)\)", text) + [link[1:] for link in page.links if link.startswith("#")]
    assert wanted
    assert not [name for name in wanted if name not in page.ids]


def test_hostile_text_is_shown_and_not_obeyed(tmp_path: Path) -> None:
    run = made_run(40)
    evil = "</title></style><script>alert('x')</script>\x1b[31m\udcff\u202e\"onload="
    run.config.update(trace={"name": evil, evil: evil}, model=evil, preset=evil)
    run.run["machine"] = evil
    run.notes.append(evil)
    run.summary["requests"]["finished"][evil] = 3
    run.summary["goodput"]["targets"][evil] = 1.0
    text, page = report(tmp_path, run)
    assert page.nests
    assert not {"script", "img"} & set(page.tags)
    assert "alert('x')" in page.text
    assert not set("\x1b\u202e") & set(text)


@pytest.mark.parametrize(("targets", "label"), [(["ttft"], "all of them (goodput)"), (["itl"], None)])
def test_goodput_is_of_requests_alone(tmp_path: Path, targets: list[str], label: str | None) -> None:
    run = made_run(40)
    run.summary["goodput"]["targets"] = dict.fromkeys(targets, 0.1)
    _, page = report(tmp_path, run)
    assert ("Goodput" in page.text) == (label is not None) == ("(goodput)" in page.text)
    assert label is None or label in page.text
    run.summary["goodput"]["targets"] = {"ttft": 0.1, "itl": 0.1}
    assert "all of them but ITL" in report(tmp_path, run)[1].text


def test_colours_follow_the_page_and_every_picture_has_a_name(tmp_path: Path) -> None:
    text, page = report(tmp_path, made_run(300))
    assert "prefers-color-scheme: dark" in text
    assert "#010a0" not in text
    assert page.tags.count("svg") == 9 == len(re.findall(r'<svg role="img" aria-label="[^"]{20,}', text))


def test_notes_and_key_figures_are_there(tmp_path: Path) -> None:
    run = made_run(300)
    _, page = report(tmp_path, run)
    assert page.text.index(run.notes[0]) < page.text.index("Completed")
    for figure in ("SLO 100 ms", "91.3 %", "98.1 %", "ab" * 32, "scheduler.max_num_seqs", "1,683×", "a pool of 9,000"):
        assert figure in page.text, figure


def test_endings_name_what_is_left_and_no_reason_that_nothing_had(tmp_path: Path) -> None:
    run = made_run(10)
    run.summary["requests"] = {"arrived": 8, "refused": 0, "finished": {"length": 6, "timeout": 0}, "unfinished": 2}
    text, _ = report(tmp_path, run)
    endings = text[text.index("How requests ended") :]
    rows = re.findall(r'<th scope="row">(\w+)</th><td class="num">([\d,]+)</td><td class="num">([^<]*)</td>', endings)
    assert rows == [("length", "6", "75.0 %"), ("unfinished", "2", "25.0 %")]


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    assert report(tmp_path, made_run(2_000))[0] == report(tmp_path, made_run(2_000))[0]


def test_size_does_not_grow_with_the_run(tmp_path: Path) -> None:
    text, _ = report(tmp_path, made_run(200_000, intervals=100_000))
    assert len(text.encode()) < 1_500_000


def test_enormous_configuration_is_cut(tmp_path: Path) -> None:
    run = made_run(10)
    run.config.update({f"key{index}": "x" * 10_000 for index in range(5_000)})
    text, page = report(tmp_path, run)
    assert len(text.encode()) < 1_000_000
    assert "more in config.json" in page.text


def _all_refused() -> MadeRun:
    run = made_run(5)
    for name in ("admitted_ns", "first_token_ns", "finished_ns"):
        run.requests[name] = pd.array([pd.NA] * 5, dtype="Int64")
    run.requests["finish_reason"] = "refused"
    run.timeline = run.timeline.iloc[:0]
    run.summary.clear()
    run.summary.update(requests={"arrived": 5, "finished": {}, "refused": 5}, duration_s=0.0, ttft_ms={"count": 0})
    return run


def _at_one_instant() -> MadeRun:
    run = made_run(1, intervals=1)
    for name in ("arrival_ns", "admitted_ns", "first_token_ns", "finished_ns"):
        run.requests[name] = pd.array([0], dtype="Int64")
    run.timeline["t_ns"] = 0
    run.summary.update(duration_s=0.0, throughput={})
    return run


def _single_outputs() -> MadeRun:
    run = made_run(30)
    run.requests["output_tokens"] = 1
    run.summary["tpot_ms"] = {"count": 0}
    return run


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (empty_run(), ["nothing ran", "no request has a first token", "No request ended", "No objective was given"]),
        (_all_refused(), ["100.0 %", "refused", "no request has this latency"]),
        (made_run(1, intervals=1), ["of 4 requests"]),
        (_at_one_instant(), ["zero for all 1 requests"]),
        (_single_outputs(), ["no request has this latency"]),
    ],
    ids=["empty", "all refused", "one request", "zero duration", "single outputs"],
)
def test_runs_of_every_shape_give_a_whole_page(tmp_path: Path, run: MadeRun, words: list[str]) -> None:
    _, page = report(tmp_path, run)
    assert page.nests
    for word in words:
        assert word in page.text


@pytest.mark.parametrize("name", ["absent/report.html", "taken", "file/report.html"])
def test_unwritable_place_is_a_usage_error_that_names_it(tmp_path: Path, name: str) -> None:
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=re.escape(str(tmp_path / name))):
        _write(tmp_path / name, empty_run())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "taken"]


def test_a_failed_write_keeps_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="No space left on device"):
        _write(path, empty_run())
    assert path.read_text() == "old"


def _write(path: Path, run: MadeRun) -> None:
    write_report(path, run.requests, run.timeline, run.summary, run.config, run.run, run.notes)
