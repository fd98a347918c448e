from __future__ import annotations

import subprocess
import sys

import pytest

from pytest_kwait.cli import main, report


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "kwait: the following arguments are required: COMMAND"),
        (
            ["sideways"],
            "kwait: argument COMMAND: invalid choice: 'sideways' (choose from 'up', 'down', "
            "'shards', 'janitor', 'report', 'replay')",
        ),
        (
            ["up", "--nodes", "many"],
            "kwait up: nodes='many' (from --nodes) is not valid: use a number from 1 to 5000, the "
            "path of a .yaml file, or an entry a line, for example 'name=gpu count=2 "
            "labels=pool=gpu capacity=cpu=4,memory=16Gi'",
        ),
        (
            ["up", "--nodes", "0"],
            "kwait up: nodes=0 (from --nodes) is not valid: a number from 1 to 5000",
        ),
        (
            ["up", "--port", "65536"],
            "kwait up: --port=65536 is not valid: a number from 0 to 65535",
        ),
        (
            ["up", "--timing", "slow"],
            "kwait up: argument --timing: invalid choice: 'slow' (choose from 'fast', 'real')",
        ),
        (["down", "now"], "kwait: unrecognized arguments: now"),
        *(
            (
                [*command, option, "~absent-user/x"],
                f"kwait {command[0]}: argument {option}: '~absent-user/x' is not valid: there is "
                "no such user",
            )
            for command, option in (
                (["up"], "--kubeconfig"),
                (["up"], "--token-auth-file"),
                (["down"], "--kubeconfig"),
                (["replay", "r.jsonl.gz"], "--kubeconfig"),
            )
        ),
    ],
)
def test_invalid_usage_is_one_line_and_status_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    status = _status(arguments)
    said = capsys.readouterr()
    # Newer Pythons leave out the quotes around choices.
    assert said.err.replace("'", "") == message.replace("'", "") + "\n"
    assert (status, said.out) == (2, "")


def test_a_command_without_output_does_its_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "run", lambda _: 0)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["report", "limits", "a.json"]) == 0


def _status(arguments: list[str]) -> object:
    try:
        return main(arguments)
    except SystemExit as ended:  # argparse ends the program by itself
        return ended.code


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    said = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "up start an embedded cluster" in said
    assert "down end a cluster that `kwait up` has started" in said


def test_the_program_starts_without_anything_costly() -> None:
    code = (
        "import sys, pytest_kwait.cli as c\n"
        "try: c.main(['up', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('kubernetes', 'urllib3', 'msgspec', 'aiohttp') if m in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.endswith("\n[]\n")
