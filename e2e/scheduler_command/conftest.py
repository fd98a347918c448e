"""Fixtures: a kubeconfig, a scheduler name, a lease in the test's namespace."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import yaml

from e2e.scheduler_command.programs import Program

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pytest_kwait import Kwait

LEASE = "scheduler"


class Site:
    """The kubeconfig, scheduler name and lease of a test's programs."""

    def __init__(self, kwait: Kwait, folder: Path) -> None:
        self.kwait = kwait
        self.folder = folder
        self.scheduler = f"scheduler-of-{kwait.namespace}"
        self.programs: list[Program] = []
        self._numbers = itertools.count()
        content = yaml.safe_load(kwait.cluster.kubeconfig.read_text())
        content["current-context"] = kwait.cluster.context or content["current-context"]
        self.kubeconfig = folder / "kubeconfig"
        self.kubeconfig.write_text(yaml.safe_dump(content))

    @property
    def flags(self) -> list[str]:
        """Return the flags for the cluster and the test's lease."""
        return [
            f"--kubeconfig={self.kubeconfig}",
            f"--leader-elect-resource-namespace={self.kwait.namespace}",
            f"--leader_elect_resource_name={LEASE}",
        ]

    def configuration(self, text: str = "") -> Path:
        """Write a configuration with a profile of the test's scheduler name."""
        file = self.folder / f"config-{next(self._numbers)}.yaml"
        file.write_text(
            "apiVersion: kubescheduler.config.k8s.io/v1\n"
            "kind: KubeSchedulerConfiguration\n"
            + (text or f"profiles: [{{schedulerName: {self.scheduler}}}]\n")
        )
        return file

    def start(self, *flags: object) -> Program:
        """Start a program, which ends with the test."""
        program = Program(self.folder / f"log-{next(self._numbers)}", *self.flags, *flags)
        self.programs.append(program)
        return program

    def holder(self, *but: str) -> str:
        """Return the lease's holder, once it is none of these."""

        def held(lease: dict[str, dict[str, str]]) -> bool:
            return (lease["spec"].get("holderIdentity") or "") not in ("", *but)

        lease = self.kwait.wait_for(f"lease/{LEASE}", held, timeout=240)
        holder: str = lease["spec"]["holderIdentity"]
        return holder

    def place(self, name: str, scheduler: str | None = None) -> None:
        """Create a pod for the test's scheduler, and wait until it has a node."""
        self.kwait.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name},
                "spec": {
                    "schedulerName": scheduler or self.scheduler,
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 0,
                    "containers": [
                        {"name": "main", "image": "busybox:1.36", "command": ["sleep", "300"]}
                    ],
                },
            }
        )
        self.kwait.wait_for(f"pod/{name}", "condition=PodScheduled", timeout=240)


@pytest.fixture
def site(kwait: Kwait, tmp_path: Path) -> Iterator[Site]:
    """Yield the test's programs, which end with it."""
    site = Site(kwait, tmp_path)
    yield site
    for program in site.programs:
        program.stop()
