"""Leader election of two schedulers."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from e2e.scheduler_command.conftest import LEASE

if TYPE_CHECKING:
    from e2e.scheduler_command.conftest import Site

RETRY = ("--leader-elect-retry-period=500ms",)
# Long enough for a busy machine, so that no leader loses its lease before it is stopped.
SHORT = (*RETRY, "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s")
# Longer than the next holder is waited for.
LONG = (*RETRY, "--leader-elect-lease-duration=10m", "--leader-elect-renew-deadline=9m")


@pytest.mark.parametrize(
    ("number", "flags"),
    [
        # A leader that gets SIGTERM releases its lease, which would not expire in time …
        (signal.SIGTERM, LONG),
        # … and a killed one has a short one that expires.
        (signal.SIGKILL, SHORT),
    ],
    ids=["SIGTERM", "SIGKILL"],
)
def test_standby_scheduler_takes_over(
    site: Site, number: signal.Signals, flags: tuple[str, ...]
) -> None:
    config = f"--config={site.configuration()}"
    first = site.start(*flags, config)
    leader = site.holder()
    second = site.start(*flags, config)
    second.until_ready()
    site.place("before")
    assert site.holder() == leader

    first.terminate(number)
    assert first.ended() == (0 if number is signal.SIGTERM else -number), first.log
    site.holder(leader)
    site.place("after")


def test_scheduler_exits_when_it_loses_its_lease(site: Site) -> None:
    # It fills its caches only when it leads.
    text = f"delayCacheUntilActive: true\nprofiles: [{{schedulerName: {site.scheduler}}}]\n"
    program = site.start(*SHORT, f"--config={site.configuration(text)}")
    leader = site.holder()
    site.place("web")
    program.until_ready()
    site.kwait.apply(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE},
            "spec": {"holderIdentity": "thief", "leaseDurationSeconds": 60},
        }
    )
    assert program.ended() == 1, program.log
    assert program.log.endswith("\nError: lost lease\n")
    assert site.holder(leader) == "thief"
