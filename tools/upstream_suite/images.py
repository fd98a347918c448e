"""Programs of this machine in place of the suite's images."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools.upstream_suite.assets import Programs

# Images that no registry has, as tests rely on, and what a node says of them.
UNPULLABLE = {
    "docker.io/library/webserver:404": (
        'failed to pull and unpack image "docker.io/library/webserver:404": failed to resolve '
        'reference "docker.io/library/webserver:404": pull access denied, repository does not '
        "exist or may require authorization"
    ),
}
_E2E = "registry.k8s.io/e2e-test-images"
# What the tests read of the distribution that upstream's images are built on.
_ALPINE = Path(__file__).with_name("os-release")
# What the image of agnhost has besides: the program, and Debian's package of it.
_PACKAGES = {"curl": "curl", "dig": "bind9-dnsutils", "nc": "netcat-openbsd"}


def make_mappings(programs: Programs) -> dict[str, dict[str, Any]]:
    """Return the mappings, as the fixture `kwait_images` returns them.

    Not mapped are images whose tests ask only whether a pod of them is ready (nginx), and those
    that the cluster runs by itself (busybox, pause).
    """
    agnhost = programs.folder / "agnhost"
    porter = programs.images / "agnhost" / "porter"
    image: dict[str, Any] = {
        "command": ["/agnhost"],
        "args": ["pause"],
        "workdir": "/",
        "files": {
            "/agnhost": agnhost,
            "/agnhost-2": agnhost,
            "/localhost.crt": porter / "localhost.crt",
            "/localhost.key": porter / "localhost.key",
        },
    }
    html = programs.images / "nautilus" / "html"
    pages = {f"/{name}": html / name for name in ("data.json", "nautilus.jpg")}
    mappings: dict[str, dict[str, Any]] = {
        f"{_E2E}/agnhost:*": image,
        f"{_E2E}/nautilus:*": {
            **image,
            "args": ["test-webserver"],
            "files": {**image["files"], **pages},
        },
        # It is Debian with dig, to ask as glibc does.
        f"{_E2E}/glibc-dns-testing:*": {"command": ["/bin/bash"], "workdir": "/"},
        f"{_E2E}/kitten:*": {
            **image,
            "files": {
                **image["files"],
                "/data.json": programs.images / "kitten" / "html" / "data.json",
                "/etc/os-release": _ALPINE,
            },
        },
        f"{_E2E}/nonewprivs:*": {
            "command": ["/usr/local/bin/nnp"],
            "workdir": "/",
            "files": {"/usr/local/bin/nnp": programs.folder / "nonewprivs"},
        },
        f"{_E2E}/sample-apiserver:*": {
            "command": ["/sample-apiserver"],
            "workdir": "/",
            "files": {"/sample-apiserver": programs.folder / "sample-apiserver"},
        },
        "registry.k8s.io/etcd:*": {
            "command": ["/usr/local/bin/etcd"],
            "workdir": "/",
            "files": {"/usr/local/bin/etcd": programs.controlplane / "etcd"},
        },
    }
    return mappings


def install_packages() -> None:
    """Install what agnhost's image has besides, where apt-get is there and this is root."""
    missing = [package for name, package in _PACKAGES.items() if shutil.which(name) is None]
    if not missing:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        print(f"not installed, some tests fail: {', '.join(missing)}", file=sys.stderr)
        return
    apt = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"]
    subprocess.run([*apt, "update"], check=False, capture_output=True)
    install = [*apt, "install", "--no-install-recommends", *missing]
    if subprocess.run(install, check=False, capture_output=True).returncode:
        print(f"cannot be installed, some tests fail: {', '.join(missing)}", file=sys.stderr)
