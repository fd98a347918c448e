"""No output of `kwait replay` controls a terminal, whatever was recorded."""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_kwait.cli import main
from pytest_kwait.simulator.protocol.recording.files import RawLine
from tests.examples import scaled
from tests.simulator.protocol.recording.lines import change, log, recorded_pod, recording

_texts = st.text(
    st.characters(categories=["Cc", "Lu"], include_characters="\x1b\x9b[]m;2J\x07"), min_size=1
)


@settings(max_examples=scaled(40))
@given(_texts, _texts, _texts)
def test_output_has_no_control_characters(message: str, step: str, printed: str) -> None:
    lines = (
        change(0.1, "ADDED", 2, recorded_pod(2, message=message, reason=step)),
        RawLine(0.1, "STEP", text=step),
        log(0.2, printed),
        change(0.3, "MODIFIED", 3, recorded_pod(3, "Failed", message=message, reason=step)),
    )
    with tempfile.TemporaryDirectory() as folder:
        file = str(recording(Path(folder, "recording.jsonl.gz"), lines, 0.5))
        missing = str(Path(folder, f"missing{message}".replace("\0", "")))
        outputs = [
            _run("--timeline", file),
            _run("--wait", 'wait_for_pod_running("web")', file),
            _run("--wait", step, file),
            _run("--timeline", "--at", f"now{printed}", file),
            _run("--timeline", missing),
        ]
    signs = {sign for output in outputs for sign in output if not sign.isprintable()}
    assert signs - {"\t"} == {"\n"}
    assert "pods/web created" in outputs[0]
    assert "failed early" in outputs[1]


def _run(*arguments: str) -> str:
    """Return what the program writes to both streams."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        main(["replay", *arguments])
    return output.getvalue()
