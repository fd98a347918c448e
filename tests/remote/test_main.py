"""The program: what it begins is ended with it."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

from pytest_kwait.remote import __main__ as program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


class Closed:
    """The end of a part, which may be awaited."""

    def __await__(self) -> Iterator[None]:
        return iter(())


class _Part:
    """A part of the program that notes its end.

    Args:
        name: its name.
        ended: the names of the parts that were ended.
    """

    def __init__(self, name: str, ended: list[str]) -> None:
        self._name = name
        self._ended = ended

    def __call__(self, *arguments: object) -> _Part:
        return self

    def request(self, method: str, path: str) -> dict[str, Any]:
        return {}

    async def follow(self) -> None:
        """Nothing is there."""

    def start(self) -> dict[tuple[str, int], tuple[str, int]]:
        return {}

    def close(self) -> Closed:
        self._ended.append(self._name)
        return Closed()

    def stop(self) -> None:
        self._ended.append(self._name)


def _replace_parts(monkeypatch: pytest.MonkeyPatch, ended: list[str]) -> None:
    for name in ("_make_client", "RemoteCluster", "make_kubelet_server", "ClusterTunnel"):
        monkeypatch.setattr(program, name, _Part(name, ended))
    monkeypatch.setattr(program, "start_controllers", lambda *arguments, **options: None)


def _run(folder: Path) -> int:
    file = folder / "file"
    file.write_text("x")
    flags = (
        "certificate-authority", "client-certificate", "client-key", "tls-cert-file",
        "tls-private-key-file", "cluster-signing-key-file", "service-account-private-key-file",
    )  # fmt: skip
    return program.main(["--server=https://x", *(f"--{flag}={file}" for flag in flags)])


def test_what_was_begun_is_ended_last_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ended: list[str] = []

    async def fail(*arguments: object) -> None:
        raise TimeoutError("no node is ready")

    _replace_parts(monkeypatch, ended)
    monkeypatch.setattr(program, "wait_nodes_ready", fail)
    assert _run(tmp_path) == 1
    assert ended == ["ClusterTunnel", "make_kubelet_server", "RemoteCluster", "_make_client"]
    assert capsys.readouterr().err == "controllers cannot run on https://x: no node is ready\n"


def test_garbage_collections_are_rare_once_the_nodes_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    calls: list[object] = []

    async def wait(*arguments: object) -> None:
        calls.append("ready")

    def set_threshold(*thresholds: int) -> None:
        calls.append(thresholds)
        raise TimeoutError("that is all")

    _replace_parts(monkeypatch, [])
    monkeypatch.setattr(program, "wait_nodes_ready", wait)
    monkeypatch.setattr(gc, "freeze", lambda: calls.append("freeze"))
    monkeypatch.setattr(gc, "set_threshold", set_threshold)
    assert _run(tmp_path) == 1
    assert calls == ["ready", "freeze", (10_000, 20, 50)]
    assert capsys.readouterr().err == "controllers cannot run on https://x: that is all\n"
