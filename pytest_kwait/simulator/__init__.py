"""The embedded cluster: an API server, controllers, a scheduler and kubelets in one process.

Contents: what Kubernetes does on its side of the HTTP connection, written from Kubernetes'
behaviour. Nothing here may know our waits: `client`, `cache`, `engine`, `framework` and the
official client are never imported.

Its door is `protocol/`, the formats and options that its processes and their starters exchange, and
the functions here. Nothing else is imported from outside. Inside, `cluster` is the one entrance to
the objects.
- `apiserver/` speaks HTTP; `authentication/`, `authorization/` and `admission/` guard the requests;
- `registry/` is the write path, `store` holds the objects, `validation/` holds the API's rules;
- `scheme`, `codec/`, `managedfields/`, `patch` and `apiextensions/` know types and schemas;
- `aggregator/`, `controllers/` and `kubelet/` act on the cluster in-process;
- `network/` knows names and services, and serves them to programs;
- `runtimes/` runs containers for the kubelet: interpreted, scripted, or as processes;
- `components` is the table of what runs; `server_main` is the program; `replay` serves a recording;
- `kubelet_server` is the kubelets' port, to which a real API server connects.

`pytest_kwait.remote` runs controllers, scheduler and kubelets on a real API server. It implements
the interface of the cluster (`cluster_protocol`) with the types that this names, and gets the rest
from the functions here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.kubelet_server import KubeletServer
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.protocol.nodes import Nodes
    from pytest_kwait.simulator.protocol.options import RequestedIsolation
    from pytest_kwait.simulator.protocol.recording.files import Recording
    from pytest_kwait.simulator.protocol.replay import ReplayedCluster, ReplayedServer
    from pytest_kwait.simulator.scheme import Kind


def replay_recording(recording: Recording) -> tuple[ReplayedCluster, ReplayedServer]:
    """Return a recording as a cluster, at its start, and the server of that cluster."""
    # The API server is expensive to import.
    from pytest_kwait.simulator.replay import RecordedCluster, ReplayServer

    recorded = RecordedCluster(recording)
    return recorded, ReplayServer(recorded)


def describe_isolation(requested: RequestedIsolation) -> tuple[str, ...]:
    """Return the isolation of programs in pods, and what they lack; takes about 50 ms.

    Args:
        requested: the isolation that was asked for.

    Raises:
        OSError: no program can be run.
    """
    import asyncio

    from pytest_kwait.simulator.runtimes.processes.runtime import detect_isolation

    isolation = asyncio.run(detect_isolation(requested))
    return (f"isolation {isolation.name}", *isolation.missing)


def find_isolation_refusal(requested: RequestedIsolation) -> str:
    """Return why this machine refuses an isolation, and what it permits; empty if it does not.

    It takes about 50 ms for an isolation that may be refused.
    """
    if requested in ("auto", "none"):
        return ""
    import asyncio

    from pytest_kwait.simulator.runtimes.processes.runtime import (
        IsolationRefusedError,
        detect_isolation,
    )

    try:
        asyncio.run(detect_isolation(requested))
    except IsolationRefusedError as error:
        best = asyncio.run(detect_isolation("auto")).name
        others = "auto or none" if best == "none" else f"auto, {best} or none"
        return f"this machine refuses it ({error}); use {others}"
    except OSError as error:
        return f"no program can be run here: {error}"
    return ""


def start_controllers(cluster: Cluster, *, nodes: Nodes, authority: tuple[bytes, bytes]) -> None:
    """Start the controllers, the scheduler and the kubelets on a cluster with an API server.

    Args:
        nodes: the number of nodes, or the nodes.
        authority: the certificate and key that sign certificates, as PEM.
    """
    from pytest_kwait.simulator.components import start_controllers

    start_controllers(cluster, nodes=nodes, authority=authority)


def relax_garbage_collector() -> None:
    """Make full garbage collections rare in a process that keeps the objects of a cluster."""
    from pytest_kwait.simulator.components import relax_garbage_collector

    relax_garbage_collector()


async def wait_nodes_ready(cluster: Cluster, nodes: int) -> None:
    """Return when that many nodes are Ready.

    Raises:
        TimeoutError: they are not in time.
    """
    from pytest_kwait.simulator.components import wait_nodes_ready

    await wait_nodes_ready(cluster, nodes)


def make_kubelet_server(
    cluster: Cluster, certificate: tuple[Path, Path], authority: Path
) -> KubeletServer:
    """Return the ports of a cluster's kubelets; see `KubeletServer`.

    Raises:
        OSError: a file cannot be used.
    """
    from pytest_kwait.simulator.kubelet_server import KubeletServer

    return KubeletServer(cluster, certificate, authority)


def kinds_of_definition(spec: Obj) -> list[Kind]:
    """Return a kind for each served or stored version of a custom resource, in version priority.

    Args:
        spec: the spec of its definition, with the accepted names.
    """
    from pytest_kwait.simulator.apiextensions.controller import kinds_of_definition

    return kinds_of_definition(spec)


def is_deletion_complete(kind: Kind, obj: Obj) -> bool:
    """Return whether a write has removed an object that was being deleted.

    Args:
        obj: the object of the answer.
    """
    from pytest_kwait.simulator.registry.rest_storages import storage_class

    return storage_class(kind).should_delete_during_update(obj)


def sign_legacy_token(account: Obj, secret: Obj, key: bytes) -> str:
    """Return the token of a service account's Secret.

    Args:
        key: the private key of tokens, as PEM.
    """
    from pytest_kwait.simulator.authentication.service_accounts import sign_legacy_token

    return sign_legacy_token(account, secret, key)
