"""The status page `/statusz`.

Source: k8s.io/component-base zpages/statusz.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pytest_kwait.simulator.apiserver.healthz import HEALTH_CHECKS
from pytest_kwait.simulator.apiserver.responses import text_response

if TYPE_CHECKING:
    from aiohttp import web

    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster

STATUSZ_PATH = "/statusz"

_NOTE = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting "
    "compatibility guarantees and is for debugging purposes only."
)


def serve_statusz(request: ApiRequest, cluster: Cluster, started: float) -> web.Response | None:
    """Serve the status page; None for any other path.

    Args:
        started: when the server started, in seconds since the epoch.
    """
    if request.path != STATUSZ_PATH:
        return None
    version = cluster.kinds.version
    up = int(cluster.clock.time() - started)
    paths = ["/metrics", STATUSZ_PATH, "/version", *(f"/{group}" for group in HEALTH_CHECKS)]
    facts = {
        "Started": datetime.fromtimestamp(started, UTC).strftime("%a %b %d %H:%M:%S UTC %Y"),
        "Up": f"{up // 3600} hr {up % 3600 // 60:02d} min {up % 60:02d} sec",
        "Binary version": version["gitVersion"].removeprefix("v"),
        "Emulation version": f"{version['major']}.{version['minor']}",
        "Paths": " ".join(sorted(paths)),
    }
    lines = "".join(f"{name}: {value}\n" for name, value in facts.items())
    return text_response(f"\napiserver statusz\n{_NOTE}\n\n{lines}", nosniff=False)
