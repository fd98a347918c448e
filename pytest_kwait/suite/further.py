"""Further namespaces of a test: what may be asked for, checked before anything is made."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.cleanup.owned_objects import ANNOTATION_PREFIX, LABEL_MANAGED_BY
from pytest_kwait.suite.config.parsers import read_dns_label
from pytest_kwait.suite.config.pod_security import PodSecurity, parse_pod_security

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.suite.kwait import Kwait

    NamespaceMaker = Callable[["NamespaceRequest"], Kwait]
    """Makes the namespace that is asked for, and gives a bench there."""

__all__ = ["NamespaceRequest", "parse_namespace_request"]

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LABEL_PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_LABEL_KEY = re.compile(
    rf"(?:(?=.{{1,253}}/){_LABEL_PREFIX}/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
)


@dataclass(frozen=True, slots=True)
class NamespaceRequest:
    """One more namespace.

    Args:
        name: what it is called by its test; a part of its name.
        labels: labels that it is to have.
        pod_security: what pods may do in it; None for what they may in all.
    """

    name: str
    labels: Mapping[str, str]
    pod_security: PodSecurity | None


def parse_namespace_request(name: Any, labels: Any, pod_security: Any) -> NamespaceRequest:
    """Return what the arguments of `create_namespace` ask for.

    Raises:
        InvalidArgument: one of them cannot be meant.
    """
    level = None if pod_security is None else parse_pod_security(pod_security, "pod_security")
    return NamespaceRequest(read_dns_label(name, "name", None), _check_labels(labels), level)


def _check_labels(labels: Any) -> dict[str, str]:
    if labels is None:
        return {}
    valid = 'use a mapping of label names to texts, for example {"team": "a"}'
    if not isinstance(labels, Mapping):
        raise InvalidArgument("labels", labels, valid)
    for key, value in labels.items():
        if not (isinstance(key, str) and _LABEL_KEY.fullmatch(key)):
            raise InvalidArgument("labels", key, f"no name of a label; {valid}")
        if not (isinstance(value, str) and _LABEL_VALUE.fullmatch(value)):
            raise InvalidArgument(f"labels {key}", value, f"no value of a label; {valid}")
        if key == LABEL_MANAGED_BY or key.startswith(ANNOTATION_PREFIX):
            raise InvalidArgument("labels", key, "it says whose the namespace is; use another name")
    return dict(labels)
