"""A minimal control plane for measurements: etcd and kube-apiserver."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from kubernetes import config

from pytest_kwait.client.resource import SERVICE_ACCOUNTS
from pytest_kwait.client.session import ApiSession
from pytest_kwait.clock import Deadline
from tools.controlplane import assets
from tools.controlplane.readiness import Readiness
from tools.controlplane.servers import ControlPlane

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.controlplane.processes import Component


class Plane:
    """The components of a control plane that were started.

    Args:
        folder: an empty folder for data and logs.
        programs: the folder of the built programs.
    """

    def __init__(self, folder: Path, programs: Path) -> None:
        (folder / "logs").mkdir()
        self.servers = ControlPlane(folder, programs, None)
        self._started: list[Component] = []

    def start_server(self) -> None:
        """Start etcd and kube-apiserver, to /readyz."""
        for component in self.servers.storage_and_server():
            self._start(component)
        Readiness(self.servers, self._check).server()

    def start_loops(self, count: int) -> None:
        """Start the first of kube-controller-manager and kube-scheduler."""
        for component in self.servers.loops()[:count]:
            self._start(component)
            Readiness(self.servers, self._check).defaults()

    def stop(self) -> None:
        """Stop them in the opposite order."""
        for component in reversed(self._started):
            component.stop()

    def _start(self, component: Component) -> None:
        component.start()
        self._started.append(component)

    def _check(self) -> None:
        for component in self._started:
            component.check()


@contextmanager
def control_plane(*, controllers: bool = False, scheduler: bool = False) -> Iterator[Path]:
    """Run both in a temporary folder; yield the kubeconfig.

    Args:
        controllers: whether to run a kube-controller-manager as well.
        scheduler: whether to run a kube-scheduler too, with the controllers.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plane = Plane(folder, assets.build())
        try:
            plane.start_server()
            plane.start_loops(controllers + scheduler)
            plane.servers.kubeconfig(folder / "kubeconfig")
            yield folder / "kubeconfig"
        finally:
            plane.stop()


@contextmanager
def some_cluster(kubeconfig: str) -> Iterator[str]:
    """Yield the kubeconfig of an existing cluster, or of a control plane of our own.

    Args:
        kubeconfig: a file; `-` for a control plane of our own.
    """
    if kubeconfig != "-":
        yield kubeconfig
        return
    with control_plane() as own:
        api = config.new_client_from_config(str(own))  # type: ignore[no-untyped-call]
        account = {"metadata": {"name": "default"}}  # elsewhere a controller creates it
        deadline = Deadline.after(30.0)
        ApiSession.of(api).create(SERVICE_ACCOUNTS, account, "default", deadline=deadline)
        yield str(own)
