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
- `remote/` runs controllers, scheduler and kubelets without it, on a real API server.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.protocol.recording.files import Recording
    from pytest_kwait.simulator.protocol.replay import ReplayedCluster, ReplayedServer


def replay_recording(recording: Recording) -> tuple[ReplayedCluster, ReplayedServer]:
    """Return a recording as a cluster, at its start, and the server of that cluster."""
    # The API server is expensive to import.
    from pytest_kwait.simulator.replay import RecordedCluster, ReplayServer

    recorded = RecordedCluster(recording)
    return recorded, ReplayServer(recorded)


def find_missing_isolation() -> tuple[str, ...]:
    """Return what programs in pods lack here, one sentence each; takes about 50 ms.

    Raises:
        OSError: no program can be run.
    """
    import asyncio

    from pytest_kwait.simulator.runtimes.processes.runtime import detect_isolation

    return asyncio.run(detect_isolation()).missing
