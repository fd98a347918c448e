from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

_RUN = Path(__file__).parents[2] / ".ci" / "run"
_PYTHON = """#!/bin/sh
if [ "$2" != venv ]; then exit; fi
mkdir -p "$3/bin"
cp "$FAKES/tox" "$3/bin/tox"
cp "$FAKES/tox" "$3/bin/pip"
"""
_TOX = """#!/bin/sh
case "$*" in
  *types,docs,package*) echo "mypy: Success"; echo >"$FAKES/begun"; exec sleep infinity ;;
  exec*) read _ <"$FAKES/begun"; echo "test_web FAILED"; echo "1 failed in 2.00s"; exit 1 ;;
esac
"""


def test_a_failed_step_shows_the_background_and_ends_with_its_own_last_line(tmp_path: Path) -> None:
    fakes = tmp_path / "fakes"
    fakes.mkdir()
    os.mkfifo(fakes / "begun")
    for name, text in (("python3", _PYTHON), ("tox", _TOX)):
        (fakes / name).write_text(text)
        (fakes / name).chmod(0o755)
    (tmp_path / ".ci").mkdir()
    shutil.copy(_RUN, tmp_path / ".ci")
    done = subprocess.run(
        [tmp_path / ".ci" / "run", "checks", "clients"],
        env={**os.environ, "PATH": f"{fakes}:/usr/bin:/bin", "FAKES": str(fakes)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == 1, done.stderr
    assert lines[-1] == "1 failed in 2.00s"
    background = next(row for row, line in enumerate(lines) if "source_checks, in the" in line)
    assert "test_web FAILED" in lines[:background]
    assert "mypy: Success" in lines[background:]
    assert "source_checks: exit status 143" in lines[background:]
