"""Further namespaces of a test: what may be asked for, checked before anything is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.owners import LABEL_MANAGED_BY, NOTE
from pytest_kwait.suite.pod_security import PodSecurity, parse_pod_security
from pytest_kwait.suite.values import read_dns_label

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.suite.bench import Bench

    Maker = Callable[["Request"], Bench]
    """Makes the namespace that is asked for, and gives a bench there."""

__all__ = ["Request", "read_request"]

_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_KEY = re.compile(
    rf"(?:(?=.{{1,253}}/){_PREFIX}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class Request:
    """One more namespace.

    Args:
        name: what it is called by its test; a part of its name.
        labels: labels that it is to have.
        pod_security: what pods may do in it; None for what they may in all.
    """

    name: str
    labels: Mapping[str, str]
    pod_security: PodSecurity | None


def read_request(name: Any, labels: Any, pod_security: Any) -> Request:
    """Return what the arguments of `create_namespace` ask for.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """
    level = None if pod_security is None else parse_pod_security(pod_security, "pod_security")
    return Request(read_dns_label(name, "name", None), _labels(labels), level)


def _labels(labels: Any) -> dict[str, str]:
    if labels is None:
        return {}
    valid = 'use a mapping of label names to texts, for example {"team": "a"}'
    if not isinstance(labels, Mapping):
        raise InvalidArgument("labels", labels, valid)
    for key, value in labels.items():
        if not (isinstance(key, str) and _KEY.fullmatch(key)):
            raise InvalidArgument("labels", key, f"no name of a label; {valid}")
        if not (isinstance(value, str) and _VALUE.fullmatch(value)):
            raise InvalidArgument(f"labels {key}", value, f"no value of a label; {valid}")
        if key == LABEL_MANAGED_BY or key.startswith(NOTE):
            raise InvalidArgument("labels", key, "it says whose the namespace is; use another name")
    return dict(labels)
