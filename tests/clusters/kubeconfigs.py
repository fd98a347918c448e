"""Kubeconfigs for tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from pathlib import Path


def contents(*names: str, current: str | None = None) -> dict[str, Any]:
    """A kubeconfig with a context, cluster and user for each name, the first being current."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": names[0] if current is None else current,
        "clusters": [
            {"name": name, "cluster": {"server": f"https://{name}.example:6443"}} for name in names
        ],
        "users": [{"name": name, "user": {"token": f"token-of-{name}"}} for name in names],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}} for name in names],
    }


def written(path: Path, content: object) -> Path:
    """Write it, as YAML unless it is text already."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content), "utf-8")
    return path
