from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import msgspec

from pytest_kwait.suite.report import files
from pytest_kwait.suite.report.files import render_page
from pytest_kwait.suite.report.records import Playback
from tools.sample_recordings import add_playbacks
from tools.sample_reports import night


def data(html: str) -> Any:
    found = re.search(r'<script type="application/json" id="kwait-data">(.*?)</script>', html, re.S)
    assert found is not None
    return json.loads(found[1])


def test_page_escapes_texts_of_the_cluster() -> None:
    report = night(100)
    report.waits[0].subject = "</script><script>alert(1)</script><!--"
    report.waits[0].text = "{{script}} {{data}} {{style}}"
    html = render_page(report)
    assert html.count("<script") == 2
    assert html.count("</script>") == 2
    assert "<!--" not in html
    assert report.waits[0].subject in data(html)["texts"]
    assert data(html)["evidence"]["0"]["text"] == report.waits[0].text


def test_page_loads_nothing_and_runs_only_its_own_script() -> None:
    html = render_page(night(20))
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    assert policy is not None
    script = html.split("<script>")[1].split("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy[1].startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in policy[1]
    assert not re.search(r"(?:src|href)=[\"']?(?:https?:)?//", html)
    assert "url(" not in html


def test_a_page_has_every_wait_and_its_notes() -> None:
    report = night(100)
    report.runs[1].ended = None
    told = data(render_page(report))
    assert len(told["waits"]) == len(report.waits)
    assert told["notes"] == [
        "run nightly-2 (shard 2/2) was killed: here is what was over until then"
    ]


def test_waits_in_a_page_have_their_steps() -> None:
    told = data(render_page(night(4, steps=True)))
    assert [told["texts"][wait[14]] for wait in told["waits"]] == [
        "create the shop",
        "create the shop > scale it",
        "create the shop",
        "check it",
    ]


def test_a_page_has_the_playbacks_of_its_tests_by_number() -> None:
    report = night(240)
    add_playbacks(report)
    failed = [number for number, test in enumerate(report.tests) if test.outcome == "failed"]
    played = report.tests[failed[0]].playback
    assert played is not None
    played.logs.append((1.0, "web/c", "</script><script>alert(1)</script>"))
    html = render_page(report)
    assert html.count("<script") == 2
    told = data(html)
    assert [*told["playbacks"]] == [str(number) for number in failed]
    assert msgspec.convert(told["playbacks"][str(failed[0])], Playback) == played
    assert told["notes"] == []
    assert data(render_page(night(20)))["playbacks"] == {}


def test_a_page_has_explored_tests_by_number() -> None:
    report = night(20)
    assert data(render_page(report))["explored"] == {}
    explored = {"runs": 200, "passed": 200, "failures": []}
    report.tests[3].explored = explored
    assert data(render_page(report))["explored"] == {"3": explored}


def test_playbacks_in_a_page_are_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "MAX_PAGE_PLAYBACKS", 9000)
    report = night(240)
    add_playbacks(report)
    told = data(render_page(report))
    assert len(told["playbacks"]) == 2
    assert told["notes"] == [
        "recordings left out of this page: 2; kwait replay plays them, and the JSON report has them"
    ]


def test_evidence_in_a_page_is_bounded(monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "MAX_PAGE_EVIDENCE", 6000)
    told = data(render_page(night(400)))
    failed = [wait for wait in night(400).waits if wait.text]
    left_out = len(failed) - len(told["evidence"])
    assert 0 < len(told["evidence"]) < len(failed)
    assert told["notes"] == [
        f"the evidence of {left_out} waits is left out of this page; the JSON report has it"
    ]


def test_ten_thousand_waits_are_under_5_mb() -> None:
    report = night(10_300, shards=4, workers=4)
    assert len(report.waits) >= 10_000
    assert len(render_page(report).encode()) < 5_000_000
