"""The service account tokens controller: fills token secrets and deletes orphaned ones.

Source: kube-controller-manager, serviceaccount/tokens_controller.go.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pytest_kwait.simulator.controllers.workqueue import Workqueue
from pytest_kwait.simulator.objects import Obj, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from pytest_kwait.simulator.cluster_protocol import Cluster

__all__ = ["TokensController"]

_TYPE = "kubernetes.io/service-account-token"
_NAME = "kubernetes.io/service-account.name"
_UID = "kubernetes.io/service-account.uid"


class TokensController:
    """Follows secrets and service accounts."""

    def __init__(self, api: Cluster) -> None:
        self._api = api
        self._queue: Workqueue[tuple[str, str]] = Workqueue(
            api.clock, self._sync, "service-account-tokens"
        )
        api.subscribe("secrets", self._secret_changed)
        api.subscribe("serviceaccounts", self._account_changed)

    def _secret_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change != "DELETED" and new.get("type") == _TYPE:
            self._queue.add((namespace_of(new), name_of(new)))

    def _account_changed(self, change: str, new: Obj, _: Obj | None) -> None:
        if change == "MODIFIED" or self._api.store.count("secrets") == 0:
            return
        for secret in self._api.list("secrets", namespace_of(new)):
            if secret.get("type") == _TYPE and _account(secret) == name_of(new):
                self._queue.add((namespace_of(secret), name_of(secret)))

    def _sync(self, key: tuple[str, str]) -> None:
        namespace, name = key
        secret = self._api.find("secrets", name, namespace)
        if secret is None or secret.get("type") != _TYPE:
            return
        account = self._api.find("serviceaccounts", _account(secret), namespace)
        wanted = (secret["metadata"].get("annotations") or {}).get(_UID)
        if account is None or (wanted and wanted != uid_of(account)):
            self._api.delete("secrets", name, namespace, uid=uid_of(secret))
            return
        given = secret.get("data") or {}
        data = {
            **given,
            "ca.crt": _encode_base64(self._api.root_ca),
            "namespace": given.get("namespace") or _encode_base64(namespace),
        }
        if not data.get("token"):
            data["token"] = _encode_base64(self._api.accounts.legacy(account, secret))
        if data == given:
            return
        notes = {_NAME: name_of(account), _UID: uid_of(account)}

        def fill(changed: Obj) -> None:
            changed["data"] = data
            changed["metadata"].setdefault("annotations", {}).update(notes)

        self._api.modify("secrets", name, namespace, fill)


def _account(secret: Obj) -> str:
    return str((secret["metadata"].get("annotations") or {}).get(_NAME, ""))


def _encode_base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
