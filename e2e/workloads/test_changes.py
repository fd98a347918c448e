"""Changing objects: patch, update, label, annotate, roll back, evict; running a pod to its end."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

from e2e.objects import config_map, container, daemon_set, deployment, pod, stateful_set
from pytest_kwait import (
    InvalidArgument,
    KubectlError,
    WaitFailed,
    WaitTimeout,
    label,
    wait_for_number_of_pods,
    wait_for_rollout_status,
)

if TYPE_CHECKING:
    from pytest_kwait import Kwait

BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
}


def test_every_type_of_patch(kwait: Kwait) -> None:
    kwait.create(config_map("settings", color="red", size="1"))

    kwait.patch("cm/settings", {"data": {"size": None}}, type="merge")
    kwait.patch("cm/settings", [{"op": "add", "path": "/data/shape", "value": "round"}])
    kwait.patch("cm/settings", {"data": {"taste": "sweet"}}, type="apply")
    patched = kwait.patch("cm/settings", {"data": {"color": "blue"}})

    assert patched["data"] == {"color": "blue", "shape": "round", "taste": "sweet"}


def test_a_strategic_patch_names_one_container(kwait: Kwait) -> None:
    kwait.create(deployment("web", 0))
    (only,) = kwait.get("deployment/web")["spec"]["template"]["spec"]["containers"]

    change = {"containers": [{"name": only["name"], "env": [{"name": "A", "value": "1"}]}]}
    patched = kwait.patch("deployment/web", {"spec": {"template": {"spec": change}}})

    (found,) = patched["spec"]["template"]["spec"]["containers"]
    assert (found["image"], found["env"]) == (only["image"], [{"name": "A", "value": "1"}])


def test_update_changes_what_was_read(kwait: Kwait) -> None:
    kwait.create(config_map("settings", count="1"))

    def double(found: dict[str, Any]) -> None:
        if found["data"]["count"] == "1":
            # Another writer comes between: the update is made again.
            kwait.patch("cm/settings", {"data": {"count": "5"}})
        found["data"]["count"] = str(int(found["data"]["count"]) * 2)

    assert kwait.update("cm/settings", double)["data"] == {"count": "10"}


def test_labels_and_annotations(kwait: Kwait) -> None:
    kwait.create(
        config_map(
            "settings",
        )
    )

    kwait.label("cm/settings", {"tier": "web", "team": "a"})
    with pytest.raises(InvalidArgument, match="it is 'web' already, which overwrite=True replaces"):
        kwait.label("cm/settings", {"tier": "api"})
    kwait.label("cm/settings", {"tier": "api", "team": None}, overwrite=True)
    noted = kwait.annotate("cm/settings", {"example.com/note": "any text, at all"})

    assert noted["metadata"]["labels"] == {"tier": "api"}
    assert noted["metadata"]["annotations"] == {"example.com/note": "any text, at all"}
    found = label(kwait.client, kwait.namespace, "cm/settings", {"x": "y"})
    assert found["metadata"]["labels"]["x"] == "y"


@pytest.mark.parametrize("made", [deployment("web", 2), stateful_set("web", 1), daemon_set("web")])
def test_roll_back(kwait: Kwait, made: dict[str, Any]) -> None:
    target = f"{made['kind']}/web"
    kwait.create_and_wait(made)
    template = kwait.get(target)["spec"]["template"]
    note = {"spec": {"template": {"metadata": {"annotations": {"release": "2"}}}}}
    kwait.patch(target, note)
    wait_for_rollout_status(kwait.client, kwait.namespace, target)

    back = kwait.rollout_undo(target)

    assert back["spec"]["template"] == template
    assert kwait.rollout_undo(target, to_revision=2)["spec"]["template"] != template
    with pytest.raises(
        InvalidArgument, match=r"to_revision=99 is not valid: .* has the revisions "
    ):
        kwait.rollout_undo(target, to_revision=99)


def test_roll_backs_that_change_nothing(kwait: Kwait) -> None:
    """As kubectl refuses them: one revision, and a paused Deployment."""
    kwait.create_and_wait(deployment("web", 1))
    with pytest.raises(InvalidArgument, match="it has no earlier revision"):
        kwait.rollout_undo("deployment/web", to_revision=0)
    kwait.patch(
        "deployment/web", {"spec": {"template": {"metadata": {"labels": {"release": "2"}}}}}
    )
    wait_for_rollout_status(kwait.client, kwait.namespace, "deployment/web")
    kwait.patch("deployment/web", {"spec": {"paused": True}})

    with pytest.raises(InvalidArgument, match="it is paused: resume it first"):
        kwait.rollout_undo("deployment/web")

    kwait.patch("deployment/web", {"spec": {"paused": False}})
    back = kwait.rollout_undo("deployment/web", to_revision=0)
    assert "release" not in back["spec"]["template"]["metadata"]["labels"]


def test_an_eviction_waits_for_the_budget(kwait: Kwait) -> None:
    kwait.create_and_wait(pod("web", labels={"app": "web"}))
    kwait.create(BUDGET)
    kwait.wait_for("pdb/web", "jsonpath={.status.currentHealthy}=1")

    with pytest.raises(WaitTimeout) as caught:
        kwait.evict("web", timeout="2s", poll="0.5s")
    kwait.delete("pdb/web")
    kwait.evict("web", grace_period=0)

    said = str(caught.value)
    assert f"pod {kwait.namespace}/web could not be evicted within " in said
    assert f"is blocked by PodDisruptionBudget {kwait.namespace}/web: " in said
    assert kwait.list("pods") == []


def test_run_a_pod_to_its_end(kwait: Kwait) -> None:
    image = pod("any")["spec"]["containers"][0]["image"]

    done = kwait.run(image, "sh", "-c", "echo hello $NAME", env={"NAME": "world"})
    failed = kwait.run(image, "sh", "-c", "echo no; exit 3", check=False)
    with pytest.raises(WaitFailed, match=r"did not succeed: [\s\S]*its output:\nno") as caught:
        kwait.run(pod("whole", container("main", "echo no; exit 4")))

    assert (done.output, done.exit_code) == ("hello world\n", 0)
    assert done.pod["status"]["phase"] == "Succeeded"
    assert (failed.output, failed.exit_code) == ("no\n", 3)
    assert "exit code 4" in str(caught.value)
    wait_for_number_of_pods(kwait.client, kwait.namespace, 0)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl(kwait: Kwait) -> None:
    kwait.create(config_map("settings", color="red"))

    assert kwait.kubectl("get", "cm", "settings", "-o", "name").stdout == "configmap/settings\n"
    missing = kwait.kubectl("get", "cm", "nothing", check=False)
    with pytest.raises(KubectlError, match="kubectl get cm nothing ended with exit code 1: "):
        kwait.kubectl("get", "cm", "nothing")

    assert missing.exit_code == 1
    assert "not found" in missing.stderr
