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


@contextmanager
def control_plane(*, controllers: bool = False, scheduler: bool = False) -> Iterator[Path]:
    """Run both in a temporary folder; yield the kubeconfig.

    Args:
        controllers: whether to run a kube-controller-manager as well.
        scheduler: whether to run a kube-scheduler too, with the controllers.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "logs").mkdir()
        plane = ControlPlane(folder, assets.build(), None)
        components: list[Component] = []

        def check() -> None:
            for component in components:
                component.check()

        try:
            for component in plane.storage_and_server():
                component.start()
                components.append(component)
            Readiness(plane, check).server()
            for component in plane.loops()[: controllers + scheduler]:
                component.start()
                components.append(component)
                Readiness(plane, check).defaults()
            plane.kubeconfig(folder / "kubeconfig")
            yield folder / "kubeconfig"
        finally:
            for component in reversed(components):
                component.stop()


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
