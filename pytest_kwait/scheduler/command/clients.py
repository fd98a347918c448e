"""Clients of API servers, as kubeconfigs describe them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_kwait.scheduler.command.config_errors import CommandError

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

__all__ = ["make_in_cluster_client", "make_kubeconfig_client", "make_scheduler_client"]


def make_scheduler_client(kubeconfig: str, master: str) -> ApiClient:
    """Return the client that the scheduler works with.

    Args:
        kubeconfig: the file; empty for none.
        master: the server's address, which wins over the file's; empty for none.

    Without either it is the one of the pod that this runs in.

    Raises:
        ProgramError: nothing says where the server is, or what says it cannot be used.

    Source: client-go tools/clientcmd/client_config.go BuildConfigFromFlags.
    """
    if kubeconfig:
        return make_kubeconfig_client(kubeconfig, master)
    master = master or os.environ.get("KUBERNETES_MASTER", "")
    if master:
        return _make_client(master)
    client = make_in_cluster_client()
    if client is None:
        raise CommandError(
            "invalid configuration: no configuration has been provided, "
            "try setting KUBERNETES_MASTER environment variable"
        )
    return client


def make_kubeconfig_client(kubeconfig: str, master: str = "") -> ApiClient:
    """Return the client of a kubeconfig's current context.

    Raises:
        ProgramError: it is not there, or cannot be used.
    """
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_kube_config

    path = Path(kubeconfig).expanduser()
    try:
        path.stat()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CommandError(f"stat {kubeconfig}: {why}") from None
    configuration = Configuration()
    try:
        load_kube_config(  # type: ignore[no-untyped-call] # the client has no types here
            str(path), client_configuration=configuration
        )
    except (ConfigException, OSError, TypeError, ValueError, AttributeError) as error:
        why = " ".join(str(error).split())
        raise CommandError(f"error loading config file {kubeconfig}: {why}") from None
    if master:
        configuration.host = _parse_address(master)
    return ApiClient(_bypass_proxy_for_loopback(configuration))


def make_in_cluster_client() -> ApiClient | None:
    """Return the client of the pod that this runs in; None outside of one.

    Source: client-go rest/config.go InClusterConfig.
    """
    from kubernetes.client import ApiClient, Configuration
    from kubernetes.config import ConfigException, load_incluster_config

    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call] # the client has no types here
    except ConfigException:
        return None
    return ApiClient(configuration)


def _make_client(master: str) -> ApiClient:
    from kubernetes.client import ApiClient, Configuration

    configuration = Configuration()
    configuration.host = _parse_address(master)
    return ApiClient(_bypass_proxy_for_loopback(configuration))


def _parse_address(master: str) -> str:
    address = master if "://" in master else f"http://{master}"
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandError(f"host must be a URL or a host:port pair: {master!r}")
    return address.rstrip("/")


def _bypass_proxy_for_loopback(configuration: object) -> object:
    """Keep to this machine what is on it: as Go's clients, no proxy is asked for loopback."""
    host = urlsplit(getattr(configuration, "host", "")).hostname or ""
    if host in {"localhost", "::1"} or host.startswith("127."):
        configuration.proxy = None  # type: ignore[attr-defined] # the client has no types here
    return configuration
