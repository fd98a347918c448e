from __future__ import annotations

import asyncio
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

import pytest_kwait
from pytest_kwait.engine.active_waits import ACTIVE_WAITS, WaitCall
from pytest_kwait.suite.audit.call_sites import find_call, make_relative
from pytest_kwait.suite.kwait import AsyncKwait

_PACKAGE = Path(pytest_kwait.__file__).parent
_TEST = ("/suite/test_shop.py", "test_shop")
_BOUND = (f"{_PACKAGE}/suite/bound_wait.py", "__call__")
_DECLARED = (f"{_PACKAGE}/framework/registry.py", "run")
_METHOD = (f"{_PACKAGE}/suite/wait_methods.py", "wait_for_pod_ready")
_MARKERS = (f"{_PACKAGE}/plugin/markers.py", "fulfil")
_INSTALLED = (f"{sysconfig.get_path('purelib')}/tools/helper.py", "help_out")
_RUNNER = (f"{sysconfig.get_path('purelib')}/pluggy/_callers.py", "_multicall")


def find(wait: str, *layers: tuple[str, str]) -> WaitCall | None:
    """Return the call that is found in a stack of functions, outermost first."""
    found: list[WaitCall | None] = []
    inner: Any = lambda: found.append(find_call(wait, sys._getframe(1)))  # noqa: E731
    for file, name in reversed(layers):
        names: dict[str, Any] = {"inner": inner}
        source = f"def {name}():\n    inner()\n"
        exec(compile(source, file, "exec"), names)
        inner = names[name]
    inner()
    return found[0]


@pytest.mark.parametrize(
    ("wait", "layers", "name", "site"),
    [
        ("wait_for_pod_ready", (_TEST, _BOUND, _DECLARED), "wait_for_pod_ready", f"{_TEST[0]}:2"),
        ("wait_for_pod_ready", (_TEST, _METHOD, _BOUND), "wait_for_pod_ready", f"{_TEST[0]}:2"),
        ("", (_TEST, (_DECLARED[0], "call"), (_BOUND[0], "scale")), "scale", f"{_TEST[0]}:2"),
        (
            "wait_for_crd_established",
            (_TEST, (f"{_PACKAGE}/suite/kwait.py", "apply"), _BOUND),
            "apply",
            f"{_TEST[0]}:2",
        ),
        (
            "wait_for_pod_ready",
            (_TEST, _INSTALLED, _BOUND),
            "wait_for_pod_ready",
            f"{_TEST[0]}:2",
        ),
        (
            "wait_for_pod_ready",
            (_RUNNER, ("/suite/conftest.py", "shop"), _BOUND),
            "wait_for_pod_ready",
            "/suite/conftest.py:2",
        ),
    ],
    ids=["fixture", "method", "verb", "part of a verb", "installed helper", "fixture of a suite"],
)
def test_call_is_the_innermost_line_of_the_suite(
    wait: str, layers: tuple[tuple[str, str], ...], name: str, site: str
) -> None:
    found = find(wait, *layers)
    assert found is not None
    assert (found.name, found.site, found.is_precondition) == (name, site, False)


def test_marker_is_a_precondition_without_a_line() -> None:
    found = find("wait_for_pod_ready", _TEST, _RUNNER, _MARKERS, _BOUND)
    assert found is not None
    assert (found.name, found.site, found.is_precondition) == ("wait_for_pod_ready", "", True)


def test_wait_of_the_plugin_itself_has_no_call() -> None:
    plugin = (f"{_PACKAGE}/plugin/namespaces.py", "make_namespace")
    assert find("wait_for_default_service_account", _TEST, _RUNNER, plugin, _BOUND) is None


def test_async_call_is_found_where_it_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ACTIVE_WAITS, "locate_call", lambda wait: WaitCall())
    found: list[WaitCall | None] = []

    class Fake:
        def get(self, target: str, **given: Any) -> None:
            found.append(find_call("wait_for_pod_ready"))

    async def main() -> None:
        await AsyncKwait(Fake()).get("pod/a")

    line = main.__code__.co_firstlineno + 1
    asyncio.run(main())
    (call,) = found
    assert call is not None
    assert (call.name, call.site) == ("get", f"{__file__}:{line}")


def test_site_is_relative_to_the_root_of_the_suite() -> None:
    assert make_relative("/suite/e2e/test_shop.py:7", Path("/suite")) == "e2e/test_shop.py:7"
    assert make_relative("/lib/helpers.py:7", Path("/suite")) == "/lib/helpers.py:7"
