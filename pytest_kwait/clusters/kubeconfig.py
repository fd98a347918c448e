"""Kubeconfig files: read, merged by kubectl's rules, validated."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from pytest_kwait.errors import ClusterError
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_kwait.client.impersonation import Impersonation

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's credentials."""

_SECTIONS = {"clusters": "cluster", "users": "user", "contexts": "context"}
_PATHS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")


@dataclass(frozen=True)
class RestConfig:
    """A cluster as described by one context of a kubeconfig.

    Args:
        kubeconfig: the file.
        context: the name of the context.
        server: the address of the API server.
        user: the name of the user; empty if the context has none.
        token_file: the file of the user's token, if any.
        pinned: whether the context was named, rather than being the file's current one.
        is_static: whether the user's credentials are those of the file; False if a program gives
            them, or if they are renewed.
        impersonation: the user as whom this one acts; None for itself.
    """

    kubeconfig: Path
    context: str
    server: str
    user: str
    token_file: Path | None
    pinned: bool
    is_static: bool = False
    impersonation: Impersonation | None = None

    @property
    def kubectl_args(self) -> tuple[str, ...]:
        """The kubectl arguments that select the same cluster."""
        context = ("--context", self.context) if self.pinned else ()
        return ("--kubeconfig", str(self.kubeconfig), *context)


@dataclass(frozen=True)
class Kubeconfig:
    """The validated contents of a kubeconfig.

    Args:
        path: the file; of merged files, the result.
        source: the source of the path, for messages; None without one.
        contents: the decoded contents.
    """

    path: Path
    source: str | None
    contents: Mapping[str, Any]

    @property
    def contexts(self) -> tuple[str, ...]:
        """The names of all contexts, in the order of the file."""
        return tuple(_entries_by_name(self.contents, "contexts"))

    def target(self, context: str | None = None, source: str | None = None) -> RestConfig:
        """Return the target of a context.

        Args:
            context: its name; None for the current one.
            source: the source of the name, for messages.

        Raises:
            ClusterError: the context, or its cluster or user, is missing.
        """
        where = _format_place(self.path, self.source)
        name = context or self.contents.get("current-context") or ""
        if not name:
            raise ClusterError(f"{where} has no current context: name one; {self._choices()}")
        contexts = _entries_by_name(self.contents, "contexts")
        if name not in contexts:
            context_text = (
                f"context {name!r}{_format_source(source)}"
                if context
                else f"current context {name!r}"
            )
            raise ClusterError(f"{context_text} is not in {where}; {self._choices()}")
        context_fields = contexts[name]
        cluster = self._referred(name, "clusters", context_fields.get("cluster"))
        server = cluster.get("server")
        if not isinstance(server, str) or not server.startswith(("http://", "https://")):
            raise ClusterError(
                f"{where}: cluster {context_fields.get('cluster')!r} of context {name!r} has no "
                f"server address (server: {server!r}); it must be a URL"
            )
        user = (
            self._referred(name, "users", context_fields["user"])
            if context_fields.get("user")
            else {}
        )
        token_file = None
        # The client prefers an inline token too.
        if user.get("tokenFile") and not user.get("token"):
            token_file = self.path.parent / str(user["tokenFile"])
        return RestConfig(
            self.path,
            name,
            server,
            str(context_fields.get("user") or ""),
            token_file,
            context is not None,
            is_static=user.keys().isdisjoint(("exec", "auth-provider")),
            impersonation=_read_impersonation(user, f"{where}: user {context_fields['user']!r}")
            if user
            else None,
        )

    def select(
        self,
        context: str | None,
        *,
        namespace: str = "",
        user: Mapping[str, Any] | None = None,
        impersonation: Impersonation | None = None,
    ) -> dict[str, Any]:
        """Return the contents of a kubeconfig with one context alone, its current one.

        Args:
            context: its name; None for the current one.
            namespace: its namespace; empty for that of this file.
            user: the user's credentials, as in `users`; None for those of this file.
            impersonation: the user as whom this one acts; None for what the file says.

        Raises:
            ClusterError: the context, or its cluster or user, is missing.
        """
        name = self.target(context).context
        fields = dict(_entries_by_name(self.contents, "contexts")[name])
        if namespace:
            fields["namespace"] = namespace
        if impersonation is not None:
            own = self._referred(name, "users", fields["user"]) if fields.get("user") else {}
            user = {key: value for key, value in own.items() if key not in _IMPERSONATION}
            user |= impersonation.kubeconfig_fields()
        if user is not None:
            fields["user"] = name
        given = {"users": user, "contexts": fields}
        named = {"clusters": fields["cluster"], "users": fields.get("user"), "contexts": name}
        selected: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": name}
        for section, key in _SECTIONS.items():
            if (entry_name := named[section]) is None:
                continue
            entry = given.get(section) or self._referred(name, section, entry_name)
            entry = _absolute(section, entry, self.path.parent)
            selected[section] = [{"name": entry_name, key: entry}]
        return selected

    def _choices(self) -> str:
        return f"it has {', '.join(self.contexts)}" if self.contexts else "it has no contexts"

    def _referred(self, context: str, section: str, name: object) -> Mapping[str, Any]:
        entries = _entries_by_name(self.contents, section)
        if not isinstance(name, str) or name not in entries:
            has = f"it has {', '.join(entries)}" if entries else f"it has no {section}"
            raise ClusterError(
                f"{_format_place(self.path, self.source)}: context {context!r} names the "
                f"{_SECTIONS[section]} {name!r}, which is not there; {has}"
            )
        return entries[name]


class KubeconfigFile:
    """A kubeconfig that only this user can read, until `remove`, or the end of the process.

    Args:
        contents: what it has.
    """

    def __init__(self, contents: Mapping[str, Any]) -> None:
        self._folder = TempDir("kubeconfig-")
        self.path = self._folder.path / "kubeconfig"
        self.path.write_text(yaml.safe_dump(dict(contents)), encoding="utf-8")

    def remove(self) -> None:
        """Remove it; idempotent."""
        self._folder.remove()


def read_kubeconfig(path: Path, source: str | None = None) -> Kubeconfig:
    """Read a kubeconfig file.

    Args:
        path: the file; `~` is expanded.
        source: the source of the path, for messages, for example `option --kwait-kubeconfig`.

    Raises:
        ClusterError: it is missing, unreadable, or no kubeconfig.
    """
    path = expand_home(path, _format_place(path, source)).absolute()
    where = _format_place(path, source)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ClusterError(f"{where} does not exist") from None
    except UnicodeDecodeError:
        raise ClusterError(f"{where} is not text") from None
    except OSError as error:
        raise ClusterError(f"{where} cannot be read: {error.strerror}") from error
    return Kubeconfig(path, source, _parse(text, where))


def home_folder() -> Path:
    """Return the user's home folder.

    Raises:
        ClusterError: the user has none.
    """
    try:
        return Path.home()
    except RuntimeError:
        raise ClusterError("this user has no home folder; set HOME") from None


def expand_home(path: Path, place: str) -> Path:
    """Return a path with `~` and `~user` at its start expanded.

    Args:
        place: the path and its source, for messages.

    Raises:
        ClusterError: there is no such user.
    """
    try:
        return path.expanduser()
    except RuntimeError:
        raise ClusterError(f"{place} is not valid: there is no such user") from None


def standard_paths(environ: Mapping[str, str], home: Path) -> tuple[list[Path], str]:
    """Return the files of the standard loading rules, and their source.

    Raises:
        ClusterError: one is in the home folder of a user that does not exist.

    Source: client-go tools/clientcmd/loader.go NewDefaultClientConfigLoadingRules.
    """
    listed = environ.get("KUBECONFIG", "")
    if listed:
        source = "env KUBECONFIG"
        parts = (Path(part) for part in listed.split(os.pathsep) if part)
        paths = (expand_home(part, _format_place(part, source)) for part in parts)
        return list(dict.fromkeys(paths)), source
    return [home / ".kube" / "config"], "the standard place"


def merge(kubeconfigs: Sequence[Kubeconfig]) -> dict[str, Any]:
    """Merge files like kubectl: the first definition wins, and paths become absolute.

    Source: client-go tools/clientcmd/loader.go Load, ResolveLocalPaths.
    """
    merged: dict[str, Any] = {"apiVersion": "v1", "kind": "Config", "current-context": ""}
    for section, key in _SECTIONS.items():
        entries: dict[str, Any] = {}
        for kubeconfig in kubeconfigs:
            for name, entry in _entries_by_name(kubeconfig.contents, section).items():
                entries.setdefault(name, _absolute(section, entry, kubeconfig.path.parent))
        merged[section] = [{"name": name, key: entry} for name, entry in entries.items()]
    for kubeconfig in kubeconfigs:
        merged["current-context"] = (
            merged["current-context"] or kubeconfig.contents.get("current-context") or ""
        )
    return merged


def in_cluster(environ: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> dict[str, Any] | None:
    """Return a kubeconfig for the pod of this process; None outside a pod.

    The token stays in its file, which the kubelet renews.

    Source: client-go rest/config.go InClusterConfig.
    """
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    token, authority = folder / "token", folder / "ca.crt"
    if not host or not port or not token.is_file():
        return None
    address = f"[{host}]" if ":" in host else host
    cluster: dict[str, Any] = {"server": f"https://{address}:{port}"}
    if authority.is_file():
        cluster["certificate-authority"] = str(authority)
    name = "in-cluster"
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": {"tokenFile": str(token)}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def _read_impersonation(user: Mapping[str, Any], where: str) -> Impersonation | None:
    """Return the user as whom a user of a kubeconfig acts; None for itself.

    Source: client-go transport/transport.go New, tools/clientcmd/api/v1/types.go AuthInfo.
    """
    given = {key: user[key] for key in _IMPERSONATION if user.get(key)}
    if not given:
        return None
    from pytest_kwait.client.impersonation import Impersonation

    extra = given.get("as-user-extra", {})
    valid = "as", "as-uid"
    if not (
        all(isinstance(given.get(key, ""), str) for key in valid)
        and _are_texts(given.get("as-groups", []))
        and isinstance(extra, dict)
        and all(isinstance(key, str) and _are_texts(values) for key, values in extra.items())
    ):
        raise ClusterError(
            f"{where}: {', '.join(given)} cannot be used: `as` and `as-uid` are texts, `as-groups` "
            "a list of texts, and `as-user-extra` a mapping of texts to lists of texts"
        )
    if "as" not in given:
        raise ClusterError(f"{where} has {', '.join(given)} without `as`, the user to act as")
    return Impersonation(
        given["as"],
        tuple(given.get("as-groups", ())),
        given.get("as-uid", ""),
        {key: tuple(values) for key, values in extra.items()},
    )


def _are_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _parse(text: str, where: str) -> Mapping[str, Any]:
    try:
        contents = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" in line {mark.line + 1}" if mark is not None else ""
        problem = getattr(error, "problem", None) or "it has characters that YAML forbids"
        raise ClusterError(f"{where} is not YAML: {problem}{line}") from error
    if contents is None:
        return {}
    if not isinstance(contents, dict) or contents.get("kind", "Config") != "Config":
        raise ClusterError(
            f"{where} is not a kubeconfig: it must be a YAML mapping of kind Config, with "
            "clusters, users and contexts"
        )
    for section, key in _SECTIONS.items():
        entries = contents.get(section) or []
        if not isinstance(entries, list) or not all(_check_entry(entry, key) for entry in entries):
            raise ClusterError(
                f"{where} is not a kubeconfig: its {section} must be a list of name and {key}"
            )
    return contents


def _check_entry(entry: object, key: str) -> bool:
    return (
        isinstance(entry, dict)
        and isinstance(entry.get("name"), str)
        and isinstance(entry.get(key) or {}, dict)
    )


def _entries_by_name(contents: Mapping[str, Any], section: str) -> dict[str, Mapping[str, Any]]:
    entries: Iterable[Mapping[str, Any]] = contents.get(section) or []
    named: dict[str, Mapping[str, Any]] = {}
    for entry in entries:
        named.setdefault(entry["name"], entry.get(_SECTIONS[section]) or {})
    return named


def _absolute(section: str, entry: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    result = dict(entry)
    for key in _PATHS.get(section, ()):
        if result.get(key):
            result[key] = str(folder / str(result[key]))
    plugin = result.get("exec")
    # A bare name is looked up in PATH; only what names a folder is relative to the file.
    if isinstance(plugin, dict) and os.sep in str(plugin.get("command") or ""):
        result["exec"] = plugin | {"command": str(folder / plugin["command"])}
    return result


def _format_place(path: Path, source: str | None) -> str:
    return f"kubeconfig {path}{_format_source(source)}"


def _format_source(source: str | None) -> str:
    return f" (from {source})" if source else ""
