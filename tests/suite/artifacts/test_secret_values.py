"""No text that a run writes has a value of a Secret, whichever namespace it comes from."""

from __future__ import annotations

import base64
import gzip
import json
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pytest_kwait.apimachinery.secret_mask import SecretMask
from pytest_kwait.engine.failure.redaction import (
    SECRET_VALUES,
    SecretValues,
    make_redactor,
    redact_object,
)
from pytest_kwait.plugin.failures import _mask_secret_values
from pytest_kwait.simulator.protocol.recording.journal import hide_values as hide_in_object
from pytest_kwait.suite.artifacts.dump import to_yaml
from pytest_kwait.suite.artifacts.folder import ArtifactFolder
from pytest_kwait.suite.artifacts.recording import (
    RecordedTest,
    hide_secret_values,
    make_recording,
)
from pytest_kwait.suite.report.records import (
    RecordedVerdict,
    RunRecord,
    TestRecord,
    WaitRecord,
    WaitStarted,
    limit_failure_text,
)
from pytest_kwait.suite.report.run_report import RunReport, encode_report, hide_values
from tests.simulator.protocol.recording.lines import STARTED, change, log, recorded_pod

_line = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")), max_size=30)
# Texts that nothing else has, of one line or of several.
_value = st.lists(_line.map("zq~{}~77".format), min_size=1, max_size=3).map("\n".join)
_secrets = st.lists(
    st.dictionaries(st.sampled_from(["password", "a", "user.conf", "token"]), _value, min_size=1),
    min_size=1,
    max_size=3,
)
_FORMS = (
    str,
    lambda value: base64.b64encode(value.encode()).decode(),
    quote,
    lambda value: json.dumps(value)[1:-1],
    lambda value: json.dumps(value, ensure_ascii=False)[1:-1],
)
_LONG = 70_000
"""Characters of a failure text that is cut."""
_text = st.tuples(_line, st.sampled_from(_FORMS), _line)


@given(_secrets, st.lists(_text, min_size=1, max_size=4))
def test_no_text_that_a_run_writes_has_a_value_of_a_secret(
    secrets: list[dict[str, str]], texts: list[tuple[str, Any, str]]
) -> None:
    """Logs, events, objects, messages, recordings and reports."""
    values = [value for data in secrets for value in data.values()]
    written = [f"{before}{form(value)}{after}" for before, form, after in texts for value in values]
    vars(SECRET_VALUES).update(vars(SecretValues()))
    for data in secrets:
        SECRET_VALUES.learn({"kind": "Secret", "stringData": data})
    with tempfile.TemporaryDirectory() as path:
        outputs = [*_write_all(Path(path), written), *_mask_in_cluster(secrets, written)]
    lines = {line.strip() for value in values for line in value.split("\n")}
    forms = {form(line) for line in lines for form in _FORMS}
    assert [(form, output) for output in outputs for form in forms if form in output] == []


def _write_all(folder: Path, texts: list[str]) -> list[str]:
    """Write texts in all ways of this process; return what was written."""
    redact = make_redactor(())
    files = ArtifactFolder(folder, redact)
    for text in texts:
        pod = {"kind": "Pod", "metadata": {"name": "a"}, "status": {"message": text, "l": [text]}}
        files.write("a.log", text)
        files.write("objects/a.yaml", to_yaml(redact_object(pod, redact)), redacted=True)
        files.problem(text)
    files.finish()
    outputs = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    history = [
        line
        for number, text in enumerate(texts, 2)
        for line in (change(1.0, "ADDED", number, recorded_pod(number, message=text)), log(2, text))
    ]
    hide_secret_values(history)
    recorded = RecordedTest(
        "t.py::test",
        ["t-1"],
        STARTED,
        failed=STARTED + 1,
        headline=texts[0],
        steps=[(STARTED, text) for text in texts],
        waits=[WaitRecord("w", "r", text, text, STARTED, 1.0, "met") for text in texts],
        begun=[WaitStarted("b", "r", text, text, STARTED) for text in texts],
    )
    outputs.append(gzip.decompress(make_recording(history, recorded, STARTED + 9, redact)).decode())
    long = "\n".join(texts)
    long *= _LONG // len(long) + 1
    outputs += [limit_failure_text(text, redact) for text in (*texts, long)]
    report: Any = SimpleNamespace(
        longrepr="\n".join(texts),
        sections=[("out", text) for text in texts],
        user_properties=[("log", text) for text in texts],
        wasxfail=texts[0],
    )
    _mask_secret_values(report)
    outputs += [report.longrepr, report.wasxfail]
    outputs += [text for _, text in (*report.sections, *report.user_properties)]
    return [*outputs, *_write_reports(texts)]


def _write_reports(texts: list[str]) -> list[str]:
    """Write the reports of waits whose verdicts had values that nobody knew then."""
    waits = [
        WaitRecord(
            "w", "r", text, text, STARTED, 1.0, "met",
            changes=[RecordedVerdict(0.1, text)], trouble=text, evidence={"logs": [text]},
        )
        for text in texts
    ]  # fmt: skip
    tests = [TestRecord("t", "r", "t.py::test", "failed", STARTED, text=text) for text in texts]
    report = RunReport(1, [RunRecord("r", "r", STARTED)], waits, tests)
    hide_values(report, SECRET_VALUES)
    assert [wait.test for wait in report.waits] == [wait.test for wait in waits]
    # The page has the same data.
    return [encode_report(report).decode()]


def _mask_in_cluster(secrets: list[dict[str, str]], texts: list[str]) -> list[str]:
    """Return what the embedded cluster records of objects."""
    mask = SecretMask()
    for data in secrets:
        mask.learn({"stringData": data})
    raws = [msgspec.json.encode(recorded_pod(2, message=text)) for text in texts]
    return [hide_in_object(raw, mask).decode() for raw in raws]
