"""Webhook requests for subresources: Evictions, Scales, connections."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait.simulator.admission.attributes import Attributes
from pytest_kwait.simulator.api_errors import StatusError
from pytest_kwait.simulator.scheme import Kind
from tests.simulator.admission.fake_webhooks import Webhooks, configure, patch, rule

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster import SimulatedCluster
    from pytest_kwait.simulator.request_info import Caller

Obj = dict[str, Any]

_EVICTION = Kind("policy", "v1", "evictions", "Eviction", namespaced=True)
_OPTIONS = Kind("", "v1", "", "PodExecOptions", namespaced=True)


def ask(api: SimulatedCluster, webhooks: Webhooks, operation: Any, part: str, content: Kind) -> Obj:
    def write(caller: Caller) -> Obj:
        obj = {"kind": content.kind, "apiVersion": content.api_version, "metadata": {"name": "p"}}
        asked = Attributes(
            operation,
            api.kinds["pods"],
            "default",
            "p",
            obj,
            None,
            part,
            caller,
            subresource_kind=content,
        )
        api.admission.admit_subresource(asked)
        api.admission.validate_subresource(asked)
        return asked.obj or {}

    return webhooks.write(write)


def test_webhook_receives_an_eviction_and_its_user(api: SimulatedCluster) -> None:
    configure(api, rules=[rule("pods/eviction")])
    webhooks = Webhooks(w={"allowed": True})
    ask(api, webhooks, "CREATE", "eviction", _EVICTION)
    ((_, request),) = webhooks.asked
    assert request["kind"] == {"group": "policy", "version": "v1", "kind": "Eviction"}
    assert request["requestKind"] == request["kind"]
    assert request["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert request["subResource"] == "eviction"
    assert request["object"]["kind"] == "Eviction"


def test_webhook_receives_a_connection_without_options(api: SimulatedCluster) -> None:
    configure(api, rules=[rule("pods/exec", operations=["CONNECT"])])
    webhooks = Webhooks(w={"allowed": False})
    with pytest.raises(StatusError, match="denied the request without explanation"):
        ask(api, webhooks, "CONNECT", "exec", _OPTIONS)
    ((_, request),) = webhooks.asked
    assert (request["operation"], request["options"]) == ("CONNECT", None)
    assert request["kind"]["kind"] == "PodExecOptions"


@pytest.mark.parametrize(
    ("operation", "part", "content"),
    [("CREATE", "eviction", _EVICTION), ("CONNECT", "exec", _OPTIONS)],
)
def test_webhook_may_patch_an_eviction(
    api: SimulatedCluster, operation: str, part: str, content: Kind
) -> None:
    configure(api, mutating=True, rules=[rule(f"pods/{part}")])
    change = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    changed = ask(api, Webhooks(w=patch(change)), operation, part, content)
    assert changed["metadata"]["labels"] == {"a": "b"}


def test_webhooks_of_pods_skip_their_subresources(api: SimulatedCluster) -> None:
    configure(api, rules=[rule("pods")])
    webhooks = Webhooks()
    ask(api, webhooks, "CREATE", "eviction", _EVICTION)
    assert webhooks.asked == []
