"""Golden failure messages of waits on pods, jobs and the cluster, in `messages/`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from pytest_kwait.client.session import ApiSession
from pytest_kwait.engine import waiter
from pytest_kwait.wait import Backoff
from tests.engine.fake_session import FakeSession
from tests.framework.terminal_cluster_objects import FAILING_CLUSTER_WAITS, FailingClusterWait
from tests.framework.terminal_objects import FAILING_WAITS, FailingWait

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.errors import WaitFailed, WaitTimeout

FOLDER = Path(__file__).parent / "messages"
STATES: dict[str, FailingWait | FailingClusterWait] = {**FAILING_WAITS, **FAILING_CLUSTER_WAITS}


class _Client:
    session: FakeSession


def failure(name: str) -> WaitFailed | WaitTimeout:
    """Return how a wait for it ends, with default settings."""
    state, session, client = STATES[name], FakeSession(), _Client()
    client.session = session
    state.enter(session)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waiter, "make_retry_backoff", lambda: Backoff(0.1, steps=1))
        patch.setattr(ApiSession, "of", staticmethod(lambda client: client.session))
        with pytest.raises(state.error) as caught:
            state.wait(cast("ApiClient", client))
    return cast("WaitFailed | WaitTimeout", caught.value)


@pytest.mark.parametrize("name", STATES)
def test_messages(name: str) -> None:
    error = failure(name)

    assert str(error) + "\n" == (FOLDER / f"{name}.txt").read_text()
    lines = str(error).splitlines()
    assert max(len(line) for line in lines if not line.startswith("  try: ")) <= 92
    assert json.loads(json.dumps(error.evidence))["reason"] == error.evidence["reason"]


def test_every_message_is_of_a_state() -> None:
    assert {file.stem for file in FOLDER.iterdir()} == set(STATES)


if __name__ == "__main__":
    for each in STATES:
        (FOLDER / f"{each}.txt").write_text(f"{failure(each)}\n")
