"""The embedded cluster's own API: inject, list and end faults.

    GET    /kwait/v1/hold         a holder, as a line of JSON; its faults end with this response
    GET    /kwait/v1/faults       the active faults
    POST   /kwait/v1/faults       inject a fault for a holder
    GET    /kwait/v1/faults/ID    one fault, and how many requests or pulls it has hit
    DELETE /kwait/v1/faults/ID    end it

Authorization is that of every non-resource path: administrators only, by default.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from pytest_kwait.clock import async_sleep
from pytest_kwait.simulator.api_errors import StatusError, bad_request, method_not_allowed
from pytest_kwait.simulator.apiserver.request_bodies import read_body
from pytest_kwait.simulator.apiserver.responses import json_only_response
from pytest_kwait.simulator.codec.json_yaml import read_json
from pytest_kwait.simulator.faults.fault_spec import make_fault

if TYPE_CHECKING:
    from pytest_kwait.simulator.apiserver.request import ApiRequest
    from pytest_kwait.simulator.cluster_protocol import Cluster
    from pytest_kwait.simulator.faults.active_faults import ActiveFault
    from pytest_kwait.simulator.objects import Obj

__all__ = ["serve_faults_api"]

_HEARTBEAT_SECONDS = 1.0
"""Seconds between heartbeats of a hold."""


async def serve_faults_api(api: Cluster, request: ApiRequest) -> web.StreamResponse | None:
    """Serve a path below `/kwait/v1/`; None if it is unknown."""
    match request.path.strip("/").split("/")[2:]:
        case ["hold"]:
            return await _serve_holder(api, request)
        case ["faults"]:
            if request.method == "GET":
                every = [_fault_object(record) for record in api.faults.records.values()]
                return json_only_response(request, {"faults": every})
            return await _create_fault(api, request)
        case ["faults", name]:
            record = api.faults.records.get(name)
            if record is None:
                raise StatusError(404, "NotFound", f'fault "{name}" not found')
            if request.method == "DELETE":
                api.faults.undo(name)
            elif request.method != "GET":
                raise method_not_allowed()
            return json_only_response(request, _fault_object(record))
        case _:
            return None


def _fault_object(record: ActiveFault) -> Obj:
    return {"id": record.id, "holder": record.holder, "hits": record.hits()}


async def _create_fault(api: Cluster, request: ApiRequest) -> web.Response:
    if request.method != "POST":
        raise method_not_allowed()
    try:
        body = read_json(await read_body(request))
    except ValueError as error:
        raise bad_request(str(error)) from None
    if not isinstance(body, dict):
        raise bad_request("a fault is an object")
    record = make_fault(api, body)
    return json_only_response(request, {} if record is None else _fault_object(record))


async def _serve_holder(api: Cluster, request: ApiRequest) -> web.StreamResponse:
    if request.method != "GET":
        raise method_not_allowed()
    response = web.StreamResponse(headers={"Content-Type": "application/json"})
    response.enable_chunked_encoding()
    await response.prepare(request.http)
    holder = api.faults.add_holder()
    try:
        await response.write(msgspec.json.encode({"holder": holder}) + b"\n")
        # A disconnect cancels this; a lost connection fails at a heartbeat.
        while True:
            await async_sleep(_HEARTBEAT_SECONDS)
            await response.write(b"\n")
    except ConnectionError:
        return response
    finally:
        api.faults.remove_holder(holder)
