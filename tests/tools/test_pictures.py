from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.test_links import ROOT
from tools.pictures import seconds_besides_wait, take_quiet_run

if TYPE_CHECKING:
    from pathlib import Path

PICTURES = sorted((ROOT / "docs" / "images").glob("*.png"))


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.stem)
def test_a_picture_is_small_and_shown(picture: Path) -> None:
    assert picture.stat().st_size < 150_000, "run `python -m tools.pictures`"
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    assert any(f"images/{picture.name})" in page.read_text() for page in pages)


def output(waited: str, ran: str) -> str:
    summary = f"kwait: waited {waited} in 1 wait, 1 failed early, 0 retries"
    return f"{summary}\n\x1b[31m1 failed\x1b[0m in {ran}\n"


def test_the_run_with_the_least_besides_its_wait_is_pictured() -> None:
    runs = iter([output("4.6s", "9.00s"), *(output("4.6s", f"{n}.10s") for n in (8, 6, 7))])
    assert take_quiet_run(lambda: next(runs)) == output("4.6s", "6.10s")
    assert next(runs, None) is None


def test_a_busy_machine_is_not_pictured() -> None:
    with pytest.raises(SystemExit) as refused:
        take_quiet_run(lambda: output("4.6s", "15.92s"))
    assert str(refused.value) == (
        "the run took 11.3s besides its wait, and may take 4s: take pictures of a terminal on a "
        "quiet machine"
    )


def test_a_run_without_one_failed_wait_is_refused() -> None:
    with pytest.raises(SystemExit, match="the run has no failed test with one wait"):
        seconds_besides_wait("1 passed in 1.00s")
