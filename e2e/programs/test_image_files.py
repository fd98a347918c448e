"""Files of the machine stand at the paths of an image."""

from __future__ import annotations

import venv
from typing import TYPE_CHECKING

import pytest

from e2e.conftest import MAPPINGS
from e2e.objects import pod
from pytest_kwait import WaitFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_kwait import Cluster, Kwait


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(MAPPINGS)
def test_files_stand_at_paths_of_the_image(
    kwait: Kwait,
    kwait_cluster: Cluster,
    wait_for_pod_success: Callable[..., object],
    tmp_path: Path,
) -> None:
    """A manifest names paths that its image has and the machine has not."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "greeting").write_text("from the file\n")
    files: dict[str, str | Path] = {"/greet": "/bin/sh", "/opt/shop/conf": tmp_path / "conf"}
    files["/greeting"] = tmp_path / "conf" / "greeting"
    with kwait_cluster.images.run("kwait.test/inner/files", "/greet", files=files):
        script = "mv /greeting /tmp && cat /opt/shop/conf/greeting /tmp/greeting"
        command = ["/greet", "-c", script]
        container = {"name": "c", "image": "kwait.test/inner/files", "command": command}
        kwait.create(pod("p", container, restartPolicy="Never"))
        wait_for_pod_success("p")
        assert kwait.logs("p") == "from the file\n" * 2


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(MAPPINGS)
def test_a_working_directory_is_a_writable_copy_below_tmp_too(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """Each container has the machine's files; what it writes ends with it."""
    (tmp_path / "state").write_text("first\n")
    script = "cat state && echo second > state && touch made && cat state && ls"
    with kwait_cluster.images.run("kwait.test/inner/work", ["/bin/sh", "-c"], workdir=tmp_path):
        for name in ("a", "b"):
            container = {"name": "c", "image": "kwait.test/inner/work", "args": [script]}
            kwait.create(pod(name, container, restartPolicy="Never"))
            kwait.wait_for_pod_success(name)
            assert kwait.logs(name).split() == ["first", "second", "made", "state"]
    assert (tmp_path / "state").read_text() == "first\n"
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(MAPPINGS)
def test_links_of_a_folder_of_path_lead_where_they_do_on_the_machine(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """As those of a virtual environment; no event is needed."""
    tools, store = tmp_path / "venv" / "bin", tmp_path / "store" / "bin"
    for folder in (tools, store):
        folder.mkdir(parents=True)
    (store / "greet").write_text("#!/bin/sh\ncat $(dirname $(realpath $0))/../text\n")
    (store / "greet").chmod(0o755)
    (store.parent / "text").write_text("welcome\n")
    (tools / "greet").symlink_to(store / "greet")
    command = ["sh", "-c", "greet"]
    with kwait_cluster.images.run("kwait.test/inner/links", command, path=[tools], workdir="/"):
        container = {"name": "c", "image": "kwait.test/inner/links"}
        kwait.create(pod("p", container, restartPolicy="Never"))
        kwait.wait_for_pod_success("p")
    assert kwait.logs("p") == "welcome\n"
    assert not [one for one in kwait.events("pod/p") if one["type"] == "Warning"]


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(MAPPINGS)
def test_python_of_a_container_is_that_of_its_program(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """A virtual environment of the program alone, which is not that of the tests."""
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv" / "bin" / "python"
    script = (
        "import subprocess as s; s.run('python3 -c \"import sys; print(sys.prefix)\"', shell=1)"
    )
    with kwait_cluster.images.run("kwait.test/inner/venv", [python, "-c", script], workdir="/"):
        container = {"name": "c", "image": "kwait.test/inner/venv"}
        kwait.create(pod("p", container, restartPolicy="Never"))
        kwait.wait_for_pod_success("p")
    assert kwait.logs("p") == f"{tmp_path}/venv\n"


_COUNT = """\
import importlib.util, os, sys
compiled = os.path.exists(importlib.util.find_spec("installed").cached)
import installed
sys.path.insert(0, "/code")
import own
print("compiled" if compiled else "to compile", installed.VALUE, own.VALUE)
"""


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(MAPPINGS)
def test_bytecode_of_a_virtual_environment_is_kept_between_pods(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """As uv leaves out bytecode; files of volumes are compiled for each container."""
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv").glob("lib/python3*/site-packages")
    (site / "installed").mkdir()
    (site / "installed" / "__init__.py").write_text("VALUE = 1\n")
    command = [str(tmp_path / "venv" / "bin" / "python"), "-c", _COUNT]
    said = []
    with kwait_cluster.images.run("kwait.test/inner/bytecode", command, workdir="/"):
        for number in (1, 2, 3):
            name = f"code-{number}"
            data = {"own.py": f"VALUE = {number}\n"}
            kwait.create(
                {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
            )
            container = {
                "name": "c", "image": "kwait.test/inner/bytecode",
                "volumeMounts": [{"name": "code", "mountPath": "/code"}],
                "securityContext": {"readOnlyRootFilesystem": number == 3},
            }  # fmt: skip
            volumes = [{"name": "code", "configMap": {"name": name}}]
            kwait.create(pod(f"p-{number}", container, restartPolicy="Never", volumes=volumes))
            kwait.wait_for_pod_success(f"p-{number}")
            said.append(kwait.logs(f"p-{number}").strip())
    assert said == ["to compile 1 1", "compiled 1 2", "compiled 1 3"]
    assert not list(site.rglob("*.pyc"))


@pytest.mark.kwait_skip_unless_programs_isolated
@pytest.mark.needs(MAPPINGS)
def test_a_dangling_link_is_in_the_message_with_its_remedy(
    kwait: Kwait, kwait_cluster: Cluster, tmp_path: Path
) -> None:
    """The mapping that the event names makes the program run."""
    work, store = tmp_path / "work", tmp_path / "store"
    work.mkdir()
    store.mkdir()
    (store / "text").write_text("welcome\n")
    (work / "text").symlink_to(store / "text")
    image = "kwait.test/inner/dangling"
    text = (
        f"Link {work}/text leads to {store}/text, which is not in the container: "
        f'map it by files={{"{store}/text": "{store}/text"}}'
    )
    with kwait_cluster.images.run(image, ["cat", "text"], workdir=work):
        kwait.create(pod("without", {"name": "c", "image": image}, restartPolicy="Never"))
        with pytest.raises(WaitFailed) as caught:
            kwait.wait_for_pod_success("without")
    assert "DanglingLink" in str(caught.value)
    found = [one for one in kwait.events("pod/without") if one["reason"] == "DanglingLink"]
    assert [(one["type"], one["message"]) for one in found] == [("Warning", text)]
    files = {str(store / "text"): store / "text"}
    with kwait_cluster.images.run(image, ["cat", "text"], workdir=work, files=files):
        kwait.create(pod("with", {"name": "c", "image": image}, restartPolicy="Never"))
        kwait.wait_for_pod_success("with")
    assert kwait.logs("with") == "welcome\n"
    assert not [one for one in kwait.events("pod/with") if one["reason"] == "DanglingLink"]


@pytest.mark.needs(MAPPINGS)
def test_an_image_without_an_entrypoint_needs_a_command(
    kwait: Kwait, kwait_cluster: Cluster
) -> None:
    """Its pods name their program, as with an image of tools; without one the wait ends early."""
    image = "kwait.test/inner/tools"
    with kwait_cluster.images.run(image, workdir="/"):
        kwait.create(pod("without", {"name": "c", "image": image}, restartPolicy="Never"))
        with pytest.raises(WaitFailed, match="no command specified"):
            kwait.wait_for_pod_success("without")
        own = {"name": "c", "image": image, "command": ["echo"], "args": ["from the pod"]}
        kwait.create(pod("with", own, restartPolicy="Never"))
        kwait.wait_for_pod_success("with")
    assert kwait.logs("with") == "from the pod\n"
