"""Probes, and what is done after a container's start and before its end.

Source: pkg/apis/core/validation/validation.go, validateProbe, validateHandler, validateLifecycle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.formats import (
    header_name_texts,
    port_name_texts,
    port_number_texts,
)

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_lifecycle", "validate_probes"]

_SCHEMES = ("HTTP", "HTTPS")
_PROBE_HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
_LIFECYCLE_HANDLERS = ("exec", "httpGet", "tcpSocket", "sleep")


def validate_probes(container: Obj, grace: int | None, at: str, found: ErrorList) -> None:
    """A container's three probes."""
    for field in ("livenessProbe", "readinessProbe", "startupProbe"):
        if field in container:
            _validate_probe(container[field], field, grace, f"{at}.{field}", found)


def _validate_probe(probe: Obj, field: str, grace: int | None, at: str, found: ErrorList) -> None:
    _validate_handler(probe, _PROBE_HANDLERS, grace, at, found)
    found.not_negative(
        probe,
        at,
        "initialDelaySeconds",
        "timeoutSeconds",
        "periodSeconds",
        "successThreshold",
        "failureThreshold",
    )
    own = probe.get("terminationGracePeriodSeconds")
    if own is not None and own <= 0:
        found.invalid(f"{at}.terminationGracePeriodSeconds", own, "must be greater than 0")
    if field == "readinessProbe":
        if own is not None:
            text = "must not be set for readinessProbes"
            found.invalid(f"{at}.terminationGracePeriodSeconds", own, text)
    elif probe.get("successThreshold", 0) != 1:
        found.invalid(f"{at}.successThreshold", probe.get("successThreshold", 0), "must be 1")


def validate_lifecycle(lifecycle: Obj, grace: int | None, at: str, found: ErrorList) -> None:
    """A container's hooks."""
    for field in ("postStart", "preStop"):
        if field in lifecycle:
            _validate_handler(lifecycle[field], _LIFECYCLE_HANDLERS, grace, f"{at}.{field}", found)


def _validate_handler(
    handler: Obj, kinds: tuple[str, ...], grace: int | None, at: str, found: ErrorList
) -> None:
    taken = False
    for kind in kinds:
        action = handler.get(kind)
        if action is None:
            continue
        if taken:
            found.forbidden(f"{at}.{kind}", "may not specify more than 1 handler type")
            continue
        taken = True
        if kind == "exec":
            if not action.get("command"):
                found.required(f"{at}.exec.command")
        elif kind == "httpGet":
            _validate_http_get(action, f"{at}.httpGet", found)
        elif kind == "sleep":
            seconds = action.get("seconds", 0)
            if grace is not None and not 0 <= seconds <= grace:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
                found.invalid(f"{at}.sleep", seconds, text)
        else:
            _validate_handler_port(action.get("port", 0), f"{at}.{kind}.port", found)
    if not taken:
        found.required(at, "must specify a handler type")


def _validate_http_get(action: Obj, at: str, found: ErrorList) -> None:
    if not action.get("path"):
        found.required(f"{at}.path")
    _validate_handler_port(action.get("port", 0), f"{at}.port", found)
    scheme = action.get("scheme", "")
    if scheme not in _SCHEMES:
        found.unsupported(f"{at}.scheme", scheme, _SCHEMES)
    for header in action.get("httpHeaders", ()):
        name = header.get("name", "")
        found.texts(f"{at}.httpHeaders", name, header_name_texts(name))


def _validate_handler_port(port: int | str, at: str, found: ErrorList) -> None:
    texts = port_name_texts(port) if isinstance(port, str) else port_number_texts(port)
    found.texts(at, port, texts)
