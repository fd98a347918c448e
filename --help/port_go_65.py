from typing import Any

import pytest

from pytest_kwait import Kwait, WaitFailed


def new_test_job(command: str, name: str, completions: int) -> dict[str, Any]:
    container = {"name": "c", "image": "busybox:1.36", "command": ["sh", "-c", command]}
    pod = {"restartPolicy": "Never", "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"completions": completions, "backoffLimit": 0, "template": {"spec": pod}},
    }


def test_job_completes(kwait: Kwait) -> None:
    kwait.create(new_test_job("exit 0", "all-succeed", 2))
    kwait.wait_for_job_complete("all-succeed", completions=2)


def test_job_fails(kwait: Kwait) -> None:
    kwait.create(new_test_job("exit 1", "backoff-limit", 2))
    with pytest.raises(WaitFailed):
        kwait.wait_for_job_complete("backoff-limit")
