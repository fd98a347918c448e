"""Resource usage and metrics that tests set by annotations.

A real cluster ignores these annotations:

    metrics.kwait.dev/usage: cpu=250m,memory=64Mi        each container of a pod
    metrics.kwait.dev/usage.NAME: cpu=100m               one of its containers
    metrics.kwait.dev/values: hits=15                   metrics of a pod or of any other object;
                                                        on an autoscaler, external ones
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.quantities import parse_milli_value

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

USAGE = "metrics.kwait.dev/usage"
METRICS = "metrics.kwait.dev/values"


def _parse_amounts(text: str | None) -> dict[str, int]:
    """Return thousandths by name; invalid parts are left out."""
    amounts: dict[str, int] = {}
    for part in (text or "").split(","):
        name, equals, amount = part.strip().partition("=")
        if not equals:
            continue
        try:
            amounts[name.strip()] = parse_milli_value(amount.strip())
        except ValueError:
            continue
    return amounts


def read_container_usage(pod: Obj) -> dict[str, dict[str, int]]:
    """Return the usage of each container of a pod, in thousandths; empty without an annotation."""
    annotations = pod["metadata"].get("annotations") or {}
    every = _parse_amounts(annotations.get(USAGE))
    usage_by_container: dict[str, dict[str, int]] = {}
    for container in pod["spec"]["containers"]:
        own = _parse_amounts(annotations.get(f"{USAGE}.{container['name']}"))
        if every or own:
            usage_by_container[container["name"]] = {**every, **own}
    return usage_by_container


def read_metric_value(obj: Obj, metric: str) -> int | None:
    """Thousandths of a metric of an object; None where it has none."""
    return _parse_amounts((obj["metadata"].get("annotations") or {}).get(METRICS)).get(metric)
