from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_kwait
from pytest_kwait.simulator.runtimes.processes.supervisor import describe_refusal

_LIST = """
import json, sys
sys.path.append(sys.argv[1])
from pytest_kwait.simulator.runtimes.processes import supervisor
print(json.dumps(sorted(sys.modules)))
"""


def test_only_the_standard_library_is_loaded() -> None:
    package = str(Path(pytest_kwait.__file__).parents[1])
    listed = subprocess.check_output([sys.executable, "-I", "-S", "-c", _LIST, package])
    foreign = {
        name
        for name in json.loads(listed)
        if name.partition(".")[0] not in sys.stdlib_module_names | {"__main__"}
    }
    runtime = "pytest_kwait.simulator.runtimes.processes"
    assert {name for name in foreign if not name.startswith(runtime)} == {
        "pytest_kwait",
        "pytest_kwait.simulator",
        "pytest_kwait.simulator.network",
        "pytest_kwait.simulator.network.filter_rules",
        "pytest_kwait.simulator.network.loopback_blocks",
        "pytest_kwait.simulator.runtimes",
    }
    assert f"{runtime}.runtime" not in foreign
    # Imported by none of them: a fork copies what is loaded.
    assert not {"asyncio", "dataclasses", "inspect", "subprocess"} & set(json.loads(listed))


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the limit user.max_user_namespaces is reached"),
        (
            errno.EPERM,
            "not permitted, by a seccomp or AppArmor profile or kernel.unprivileged_userns_clone",
        ),
        (errno.EINVAL, "the kernel has no user namespaces"),
        (errno.ENOSYS, "not known on this processor"),
        (errno.ENOMEM, "cannot allocate memory"),
    ],
)
def test_reason_for_plain_processes(number: int, reason: str) -> None:
    error = OSError(number, os.strerror(number))
    assert describe_refusal(error) == f"create namespaces: {reason}"
