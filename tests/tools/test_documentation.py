from __future__ import annotations

import json
import re
import shlex
from importlib import import_module
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_kwait import cli
from pytest_kwait.clusters.node_table import NodeTable
from pytest_kwait.scheduler.command.scheduler_main import run as run_scheduler
from pytest_kwait.suite.config.values import read_nodes
from tests.rows import check_rows
from tools.documentation import (
    PAGES,
    Block,
    Kind,
    matches,
    read_blocks,
    read_session,
    write_annotated,
)

if TYPE_CHECKING:
    from pathlib import Path

BLOCKS = [block for page in PAGES for block in read_blocks(page)]
ELSEWHERE = re.compile(r"^(\$ |pytest |kwait |pip |python3? )", re.M)

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: kind-kind
clusters: [{name: kind, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: kind, user: {token: none}}]
contexts: [{name: kind-kind, context: {cluster: kind, user: kind}}]
"""


def blocks_of(kind: Kind) -> list[Any]:
    return [
        pytest.param(block, id=f"{block.page}:{block.line}")
        for block in BLOCKS
        if block.kind is kind
    ]


def test_every_block_is_run_or_says_why_not() -> None:
    check_rows(BLOCKS, _check_block, name=lambda block: f"{block.page}:{block.line}")


def _check_block(block: Block) -> None:
    assert block.kind is not None, "say `<!-- file: NAME -->` or `<!-- not run: REASON -->` above"
    if block.kind is Kind.NOT_RUN:
        assert len(block.comment.split()) > 4, "the reason is missing"
    if block.kind is Kind.OUTPUT:
        assert not ELSEWHERE.search(block.code), "commands are `sh`, sessions `console`"
    if block.kind is Kind.SESSION:
        assert {command.split()[0] for command, _ in read_session(block)} == {"pytest"}


CI_FILES = [
    pytest.param(each, id=each.file)
    for page in ("docs/ci-files.md", "docs/mac.md")
    for each in read_blocks(page)
    if each.file
]
SHARDS = re.compile(r"\$(?:SHARD|CI_NODE_INDEX|CIRCLE_NODE_INDEX|\{\{ matrix.shard \}\})")
STEP = re.compile(r"^[-\s]*(?:run: |RUN )?((?:pytest|kwait|pip) .*)$", re.M)


def list_commands(block: Block) -> list[str]:
    """Return the command lines of a file for CI systems or dev containers."""
    if block.language == "json":
        return [str(json.loads(block.code)["postCreateCommand"])]
    parsed = yaml.safe_load(block.code) if block.language == "yaml" else {}
    if parsed.get("kind") == "Job":
        return [shlex.join(each["command"]) for each in list_containers(parsed)]
    return [SHARDS.sub("1", line) for line in STEP.findall(block.code)]


def list_containers(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a Job."""
    return list(job["spec"]["template"]["spec"]["containers"])


@pytest.mark.parametrize("block", CI_FILES)
def test_files_for_ci_run_valid_commands(
    block: Block, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = list_commands(block)
    assert commands
    if block.language == "yaml" and len(commands) > 1:
        assert {"pip", "pytest"} <= {line.split()[0] for line in commands}
    check_commands(commands, pytester, monkeypatch)


@pytest.mark.parametrize("block", blocks_of(Kind.COMMANDS))
def test_command_lines_are_valid(
    block: Block, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_commands(block.code.splitlines(), pytester, monkeypatch)


def check_commands(
    lines: list[str], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parse each line; nothing is run but pytest's collection of one test."""
    monkeypatch.setenv("CI_NODE_INDEX", "1")
    monkeypatch.setenv("CI_NODE_TOTAL", "2")
    monkeypatch.setenv("KUBECONFIG", str(pytester.path / "kubeconfig"))
    (pytester.path / "kubeconfig").write_text(KUBECONFIG)
    pytester.makepyfile("import pytest\n\n@pytest.mark.kwait_slow\ndef test_it(kwait): ...")
    for line in lines:
        program, *arguments = shlex.split(line, comments=True)
        if program == "pytest":
            result = pytester.runpytest_inprocess("--collect-only", *arguments)
            assert result.ret in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}, line
        elif program == "pip":
            assert re.fullmatch(r"pytest-kwait(\[cel\])?", arguments[-1])
        elif program in {"docker", "podman"}:
            assert arguments[-3:-1] == ["sh", "-c"], line
            check_commands(arguments[-1].split(" && "), pytester, monkeypatch)
        else:
            assert program == "kwait", line
            assert parse_kwait(arguments, monkeypatch) == 0, line


def parse_kwait(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Parse the arguments of the program `kwait`; run nothing."""

    def without_run(name: str) -> SimpleNamespace:
        return SimpleNamespace(add_arguments=import_module(name).add_arguments, run=lambda _: 0)

    with monkeypatch.context() as patch:
        patch.setattr("pytest_kwait.cli.import_module", without_run)
        return cli.main(arguments)


@pytest.mark.parametrize("name", ["nodes.yaml", "kind.yaml"])
def test_files_of_nodes_are_valid(tmp_path: Path, name: str) -> None:
    (block,) = [block for block in BLOCKS if block.file == name]
    (tmp_path / name).write_text(block.code)
    nodes = read_nodes(str(tmp_path / name), "nodes", None)
    assert isinstance(nodes, NodeTable)
    assert (len(nodes.nodes), nodes.note) == (3, "")


@pytest.mark.parametrize("block", blocks_of(Kind.SETTINGS))
def test_settings_are_valid(block: Block, pytester: pytest.Pytester) -> None:
    if block.language == "toml":
        # pytest 8 reads the same values in another table.
        table = "tool.pytest" if pytest.version_tuple >= (9,) else "tool.pytest.ini_options"
        pytester.makepyprojecttoml(block.code.replace("[tool.pytest]", f"[{table}]"))
    else:
        pytester.makeini(block.code)
    pytester.makepyfile("def test_it(kwait): ...")

    assert pytester.runpytest_inprocess("--collect-only").ret == pytest.ExitCode.OK


def test_the_configuration_of_the_scheduler_is_valid(tmp_path: Path) -> None:
    (block,) = [block for block in BLOCKS if block.file == "scheduler.yaml"]
    config, written = tmp_path / "scheduler.yaml", tmp_path / "written.yaml"
    config.write_text(block.code)

    status = run_scheduler(["--config", str(config), "--write-config-to", str(written)], Event())

    assert status == 0
    assert "schedulerName: mine-packed" in written.read_text()


def test_a_comment_says_what_a_block_is() -> None:
    def kind(comment: str, language: str, code: str = "") -> Kind | None:
        return Block("a.md", 1, language, code, comment).kind

    assert kind("not run: needs a registry", "python") is Kind.NOT_RUN
    assert kind("file: conftest.py", "python", "def test_it(): ...") is Kind.FILE
    assert kind("", "python", "def test_it(): ...") is Kind.TESTS
    assert kind("", "python", "wait()") is Kind.BODY
    assert kind("", "yaml", "kind: Pod\n") is Kind.MANIFEST
    assert kind("", "yaml", "metadata: {}\n") is None
    assert kind("", "go") is None


@pytest.mark.parametrize(
    ("shown", "output", "expected"),
    [
        ("a … c\n", "a b c\n\n", True),
        ("a\n…\nz\n", "a\nb\nc\nz", True),
        ("a\n…\nz\n", "a\nz", True),
        ("a\n", "a\nb\n", False),
        ("a.c\n", "abc\n", False),
        ("===== 1 passed in 2.31s =====\n", "=== 1 passed in 61.2s (0:01:01) ====\n", True),
        ("(ImagePullBackOff)… ImagePullB…\n", "(ErrImagePull); 3 pods: ErrImagePu...\n", True),
    ],
)
def test_shown_output_may_leave_text_out(shown: str, output: str, expected: bool) -> None:
    assert matches(shown, output) is expected


def test_a_session_is_its_commands_with_their_output() -> None:
    block = Block("a.md", 1, "console", "$ pytest\n1 passed\n\n$ pytest -q\n", "")

    assert read_session(block) == [("pytest", "1 passed\n\n"), ("pytest -q", "")]


def test_annotated_tests_are_written_for_type_checkers(tmp_path: Path) -> None:
    written = write_annotated(tmp_path / "examples")

    pages = {path.stem.rpartition("_")[0] for path in written}
    assert {"readme", "tutorial", "which_wait"} <= pages
    assert all("kwait: Kwait" in path.read_text() for path in written)
