from __future__ import annotations

import threading

import pytest

from pytest_kwait import wait


def test_wait_returns_once_all_have_returned() -> None:
    stop = threading.Event()
    ctx, cancel = wait.with_cancel(wait.background())
    ended: list[str] = []
    group = wait.Group()
    group.start(lambda: ended.append("plain"))
    group.start_with_channel(stop, lambda channel: ended.append(f"channel {channel.wait(5)}"))
    group.start_with_context(ctx, lambda context: ended.append(f"context {context.wait(5)}"))
    stop.set()
    cancel()
    group.wait()
    assert sorted(ended) == ["channel True", "context True", "plain"]


def test_an_empty_group_is_done() -> None:
    wait.Group().wait()


def boom(text: str) -> None:
    raise ValueError(text)


def test_what_one_raised_is_raised_by_wait_once() -> None:
    group = wait.Group()
    group.start(lambda: boom("one"))
    with pytest.raises(ValueError, match=r"^one$"):
        group.wait()
    group.wait()


def test_what_several_raised_is_raised_as_a_group() -> None:
    group = wait.Group()
    group.start(lambda: boom("one"))
    group.start(lambda: boom("two"))
    with pytest.raises(ExceptionGroup, match=r"^2 functions of a group failed") as caught:
        group.wait()
    assert sorted(str(error) for error in caught.value.exceptions) == ["one", "two"]
