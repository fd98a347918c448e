"""What pods and others are said to use: the scriptable source of metrics.

A test writes it in annotations, which a real cluster does not look at:

    metrics.kwait.dev/usage: cpu=250m,memory=64Mi        a pod's containers, each of them
    metrics.kwait.dev/usage.NAME: cpu=100m               one of its containers
    metrics.kwait.dev/values: hits=15                   metrics of a pod or of any other object;
                                                     on an autoscaler, external ones
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.algorithm.quantities import milli_value

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj

__all__ = ["METRICS", "USAGE", "measured", "says_what_it_uses", "usage_of"]

USAGE = "metrics.kwait.dev/usage"
METRICS = "metrics.kwait.dev/values"


def _amounts(text: str | None) -> dict[str, int]:
    """Thousandths by name; what cannot be read is left out."""
    found: dict[str, int] = {}
    for part in (text or "").split(","):
        name, equals, amount = part.strip().partition("=")
        if not equals:
            continue
        try:
            found[name.strip()] = milli_value(amount.strip())
        except ValueError:
            continue
    return found


def usage_of(pod: Obj) -> dict[str, dict[str, int]]:
    """What each container of a pod uses, in thousandths; empty where nothing is said."""
    annotations = pod["metadata"].get("annotations") or {}
    every = _amounts(annotations.get(USAGE))
    found: dict[str, dict[str, int]] = {}
    for container in pod["spec"]["containers"]:
        own = _amounts(annotations.get(f"{USAGE}.{container['name']}"))
        if every or own:
            found[container["name"]] = {**every, **own}
    return found


def says_what_it_uses(pod: Obj) -> bool:
    """Whether anything is said of what a pod uses."""
    annotations = pod["metadata"].get("annotations")
    return bool(annotations) and any(name.startswith(USAGE) for name in annotations)


def measured(obj: Obj, metric: str) -> int | None:
    """Thousandths of a metric of an object; None where it has none."""
    return _amounts((obj["metadata"].get("annotations") or {}).get(METRICS)).get(metric)
