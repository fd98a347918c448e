"""A controller by its own manifests: custom objects, their status, what they own, what it may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pytest_kwait import ApiError, Failed, Met, Pending, WaitFailed, WaitTimeout

if TYPE_CHECKING:
    from pytest_kwait import Kwait

# Elsewhere its programs would share one network and the files of the machine.
pytestmark = pytest.mark.kwait_skip_unless_programs_isolated


def page(text: str) -> dict[str, Any]:
    """Return the Page `home`."""
    return {
        "apiVersion": "docs.example.com/v1",
        "kind": "Page",
        "metadata": {"name": "home"},
        "spec": {"text": text},
    }


def page_written(page: dict[str, Any]) -> Met | Pending | Failed:
    """Tell whether a Page is written; one without text never is."""
    for condition in page.get("status", {}).get("conditions", []):
        if condition["observedGeneration"] == page["metadata"]["generation"]:
            if condition["status"] == "True":
                return Met()
            return Failed(condition["message"])
    return Pending("the controller has not seen this generation")


def test_page_is_written(controller: Kwait) -> None:
    """The controller writes the page and reports it."""
    controller.create(page("Welcome"))
    controller.wait_for("page/home", "condition=Ready")
    assert controller.get("configmap/home")["data"] == {"index.html": "<h1>Welcome</h1>\n"}


def test_changed_page_is_written_again(controller: Kwait) -> None:
    """A status of an earlier generation does not count."""
    controller.create(page("Welcome"))
    controller.wait_for("page/home", page_written)
    controller.patch("page/home", {"spec": {"text": "Closed"}})
    written = controller.wait_for("page/home", page_written)
    assert written["status"]["observedGeneration"] == 2
    assert controller.get("configmap/home")["data"] == {"index.html": "<h1>Closed</h1>\n"}


def test_page_owns_what_is_written(controller: Kwait) -> None:
    """The garbage collector removes it with its page."""
    controller.create(page("Welcome"))
    controller.wait_for("page/home", "condition=Ready")
    controller.delete_and_wait("page/home")
    controller.wait_for("configmap/home", "delete")


def test_controller_catches_up(controller: Kwait) -> None:
    """A page that is created while no controller runs is written by the next one."""
    controller.scale("deployment/page-controller", 0)
    controller.create(page("Welcome"))
    controller.scale("deployment/page-controller", 1)
    controller.wait_for("page/home", page_written)


def test_page_with_html_is_refused(controller: Kwait) -> None:
    """By the rule of the definition, before the controller sees it."""
    with pytest.raises(ApiError, match="text is no HTML") as caught:
        controller.create(page("<b>Welcome</b>"))
    assert caught.value.status == 422


def test_empty_page_fails_early(controller: Kwait) -> None:
    """The message is that of the controller's condition, long before the limit of five minutes."""
    controller.create(page(" "))
    with pytest.raises(WaitFailed, match="page home has no text"):
        controller.wait_for("page/home", page_written)


def test_missing_right_is_shown(controller: Kwait) -> None:
    """A wait that times out shows what the API server refused the controller, from its log."""
    controller.patch("role/page-controller", [{"op": "remove", "path": "/rules/2"}], type="json")
    controller.create(page("Welcome"))
    controller.wait_for(
        "deployment/page-controller",
        lambda _: "cannot create" in controller.logs("deployment/page-controller"),
        mode="poll",
        poll="200ms",
    )
    with pytest.raises(WaitTimeout) as caught:
        controller.wait_for("page/home", "condition=Ready", timeout="1s")
    (refusal,) = caught.value.evidence["refusals"]
    assert 'cannot create resource "configmaps"' in refusal["lines"][-1]
    assert "refused by the API server" in str(caught.value)
