"""The hooks of other plugins, in runs on a cluster that is a dictionary."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pytest_kwait.plugin import startup

Log = Callable[[], str]

_RECORD = """
import os


def _write(*words):
    with open(os.environ["CALLS"], "a") as file:
        print(*words, file=file)


def pytest_kwait_namespace_created(kwait, namespace, node):
    assert kwait.namespace == namespace
    _write("created", node.nodeid or "session", "of", namespace.split("-")[1])


def pytest_kwait_namespace_deleting(kwait, namespace, node):
    assert kwait.get(f"namespace/{namespace}")
    _write("deleting", node.nodeid or "session")


def pytest_kwait_applied(kwait, namespace, objects, item):
    assert kwait.namespace == namespace
    _write("applied", *(each["metadata"]["name"] for each in objects), "in", item.name)


def pytest_kwait_wait_started(wait, item):
    assert (wait.outcome, wait.elapsed, wait.headline) == ("", 0, "")
    _write("started", wait.name, item.name)


def pytest_kwait_wait_ended(wait, item):
    _write("ended", wait.name, wait.outcome, item.name)
"""
_WAIT = 'kwait.wait_for("configmap/x", "create", timeout="{}")'
_MAP = '{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}'
_SHORT = _WAIT.format("20ms")


@pytest.fixture
def calls(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[str]]:
    """Return the recorded calls."""
    path = pytester.path / "calls"
    monkeypatch.setenv("CALLS", str(path))
    return lambda: path.read_text().splitlines() if path.exists() else []


def extend_conftest(pytester: pytest.Pytester, text: str) -> None:
    """Add to the conftest of the fake cluster."""
    path = pytester.path / "conftest.py"
    path.write_text(path.read_text() + text)


def test_hooks_are_called_around_namespace_apply_and_wait(
    pytester: pytest.Pytester, calls: Callable[[], list[str]]
) -> None:
    extend_conftest(pytester, _RECORD)
    pytester.makepyfile(
        f"""
        import pytest
        from pytest_kwait import WaitTimeout

        def test_one(kwait):
            kwait.apply({_MAP})
            kwait.create({_MAP.replace("x", "y")}, dry_run=True)
            kwait.create({_MAP.replace("x", "y")}, {_MAP.replace("x", "z")})
            {_WAIT.format("9s")}
            with pytest.raises(WaitTimeout):
                kwait.wait_for("configmap/absent", "create", timeout="20ms")
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    assert calls() == [
        "created test_hooks_are_called_around_namespace_apply_and_wait.py::test_one of one",
        "applied x in test_one",
        "applied y z in test_one",
        "started wait_for test_one",
        "ended wait_for met test_one",
        "started wait_for test_one",
        "ended wait_for timed out test_one",
        "deleting test_hooks_are_called_around_namespace_apply_and_wait.py::test_one",
    ]


def test_markers_environments_factories_and_further_namespaces_call_hooks(
    pytester: pytest.Pytester, calls: Callable[[], list[str]]
) -> None:
    extend_conftest(pytester, _RECORD)
    pytester.makepyfile(
        test_it=f"""
        import pytest
        import pytest_kwait

        @pytest_kwait.environment
        def shared(kwait):
            kwait.apply({_MAP})
            yield

        @pytest.mark.kwait_manifests({_MAP.replace("x", "m")})
        def test_one(kwait, shared, kwait_factory):
            kwait.create_namespace("beside")
            with kwait_factory("made"):
                pass
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    assert calls() == [
        "created test_it.py of shared",
        "applied x in test_one",
        "created test_it.py::test_one of one",
        "applied m in test_one",
        "created test_it.py::test_one of beside",
        "created session of made",
        "deleting session",
        "deleting test_it.py::test_one",
        "deleting test_it.py::test_one",
        "deleting test_it.py",
    ]


def test_an_environment_of_the_run_has_no_hook_at_its_end(
    pytester: pytest.Pytester, calls: Callable[[], list[str]]
) -> None:
    extend_conftest(pytester, _RECORD)
    pytester.makepyfile(
        test_it="""
        import pytest_kwait

        @pytest_kwait.environment(scope="run")
        def shared(kwait):
            yield

        def test_one(shared):
            pass
        """
    )
    pytester.runpytest("--kwait-no-janitor").assert_outcomes(passed=1)
    assert calls() == ["created session of shared"]


def test_a_conftest_sees_the_tests_of_its_folder(
    pytester: pytest.Pytester, calls: Callable[[], list[str]]
) -> None:
    for folder in ("a", "b"):
        place = pytester.mkdir(folder)
        (place / "conftest.py").write_text(_RECORD if folder == "a" else "")
        (place / f"test_{folder}.py").write_text(
            f"def test_{folder}(kwait):\n    kwait.apply({_MAP})\n    {_WAIT.format('9s')}\n"
        )
    pytester.runpytest().assert_outcomes(passed=2)
    assert calls() == [
        "created a/test_a.py::test_a of a",
        "applied x in test_a",
        "started wait_for test_a",
        "ended wait_for met test_a",
        "deleting a/test_a.py::test_a",
    ]


def test_a_plugin_sees_all_tests_and_takes_what_it_needs(
    pytester: pytest.Pytester, calls: Callable[[], list[str]]
) -> None:
    pytester.makepyfile(
        given_plugin="""
        import pytest

        @pytest.hookimpl(wrapper=True)
        def pytest_kwait_wait_ended(wait):
            print(f"[{wait.subject} to {wait.goal} in {wait.step}: {wait.headline}]")
            return (yield)
        """
    )
    pytester.syspathinsert()
    pytester.makepyfile(
        f"""
        def test_it(kwait):
            with kwait.step("look"):
                {_SHORT}
        """
    )
    result = pytester.runpytest("-p", "given_plugin", "-s")
    result.assert_outcomes(failed=1)
    (line,) = re.findall(r"\[configmap .*\]", result.stdout.str())
    shown = re.sub("t-it-[a-z0-9]+", "NAMESPACE", line)
    assert shown == (
        "[configmap NAMESPACE/x to get created in look: configmap NAMESPACE/x did not get created "
        "within 20ms: not found yet]"
    )


def test_no_hook_is_called_for_a_hook(
    pytester: pytest.Pytester, calls: Callable[[], list[str]]
) -> None:
    extend_conftest(
        pytester,
        _RECORD
        + f"""
import pytest

@pytest.hookimpl(specname="pytest_kwait_namespace_created")
def pytest_furnish(kwait):
    kwait.apply({_MAP})
    kwait.create_namespace("beside")
    {_WAIT.format("9s")}
""",
    )
    pytester.makepyfile(test_it=f"def test_it(kwait):\n    {_WAIT.format('9s')}\n")
    pytester.runpytest().assert_outcomes(passed=1)
    assert calls() == [
        "created test_it.py::test_it of it",
        "started wait_for test_it",
        "ended wait_for met test_it",
        "deleting test_it.py::test_it",
    ]


def test_what_a_hook_creates_elsewhere_is_removed(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    extend_conftest(
        pytester,
        """
def pytest_kwait_namespace_created(kwait):
    kwait.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}})
""",
    )
    pytester.makepyfile("def test_it(kwait):\n    pass\n")
    pytester.runpytest().assert_outcomes(passed=1)
    deletions = re.findall(r"DELETE /api/v1/(\w+)/", fake_cluster())
    assert deletions == ["persistentvolumes", "namespaces"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--kwait-keep=always",), ["created test_it.py::test_it of it"]),
        (("--kwait-namespace=given",), []),
        (("-p", "no:pytest_kwait.plugin.hook_calls"), []),
    ],
    ids=["kept", "given", "switched off"],
)
def test_namespaces_without_hooks(
    pytester: pytest.Pytester,
    calls: Callable[[], list[str]],
    options: tuple[str, ...],
    expected: list[str],
) -> None:
    extend_conftest(
        pytester,
        _RECORD
        + """
@pytest.fixture(scope="session", autouse=True)
def given(kwait_client):
    from pytest_kwait.client.resource import NAMESPACES
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clock import Deadline

    made = {"metadata": {"name": "given"}, "kind": "Namespace", "apiVersion": "v1"}
    ApiSession.of(kwait_client).create(NAMESPACES, made, deadline=Deadline.after(9))
""",
    )
    pytester.makepyfile(test_it="def test_it(kwait):\n    pass\n")
    pytester.runpytest(*options).assert_outcomes(passed=1)
    assert calls() == expected


_RAISING = "\ndef {}():\n    raise ValueError('no quota')\n"


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("pytest_kwait_namespace_created", {"errors": 1}),
        ("pytest_kwait_namespace_deleting", {"passed": 1, "errors": 1}),
        ("pytest_kwait_applied", {"failed": 1}),
        ("pytest_kwait_wait_started", {"failed": 1}),
        ("pytest_kwait_wait_ended", {"failed": 1}),
    ],
)
def test_an_error_of_a_hook_fails_the_test_with_its_name(
    pytester: pytest.Pytester, fake_cluster: Log, name: str, outcomes: dict[str, int]
) -> None:
    extend_conftest(pytester, _RAISING.format(name))
    pytester.makepyfile(
        f"""
        def test_it(kwait):
            kwait.apply({_MAP})
            {_WAIT.format("9s")}
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(**outcomes)
    shown = result.stdout.str()
    assert "INTERNALERROR" not in shown
    result.stdout.fnmatch_lines(["E*ValueError: no quota", f"E*in hook {name}"])
    assert re.search(r"^DELETE /api/v1/namespaces/t-it-", fake_cluster(), re.M)


def test_a_namespace_that_could_not_be_prepared_has_no_second_hook(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    for name in ("pytest_kwait_namespace_created", "pytest_kwait_namespace_deleting"):
        extend_conftest(pytester, _RAISING.format(name))
    pytester.makepyfile("def test_it(kwait):\n    pass\n")
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert "in hook pytest_kwait_namespace_created" in result.stdout.str()
    result.stdout.no_fnmatch_line("*pytest_kwait_namespace_deleting*")
    assert re.search(r"^DELETE /api/v1/namespaces/t-it-", fake_cluster(), re.M)


def test_the_error_that_ends_a_namespace_stays_in_front(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    extend_conftest(pytester, _RAISING.format("pytest_kwait_namespace_deleting"))
    pytester.makepyfile(
        """
        def test_it(kwait_factory):
            with kwait_factory("made"):
                raise TypeError("first")
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["E*TypeError: first", "E*at the end of its namespace: ValueError: no quota"]
    )
    assert re.search(r"^DELETE /api/v1/namespaces/t-made-", fake_cluster(), re.M)


@pytest.mark.parametrize(("keep", "deletions"), [("never", 1), ("failed", 0)])
def test_a_failed_test_keeps_a_namespace_whose_last_hook_failed(
    pytester: pytest.Pytester, fake_cluster: Log, keep: str, deletions: int
) -> None:
    extend_conftest(pytester, _RAISING.format("pytest_kwait_namespace_deleting"))
    pytester.makepyfile("def test_it(kwait):\n    pass\n")
    pytester.runpytest(f"--kwait-keep={keep}").assert_outcomes(passed=1, errors=1)
    assert fake_cluster().count("DELETE /api/v1/namespaces/t-it-") == deletions


def test_a_failure_without_traceback_names_the_hook(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    extend_conftest(
        pytester, "\ndef pytest_kwait_applied():\n    pytest.fail('not here', pytrace=False)\n"
    )
    pytester.makepyfile(f"def test_it(kwait):\n    kwait.apply({_MAP})\n")
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["not here", "in hook pytest_kwait_applied"])


@pytest.mark.parametrize("call", [f"kwait.apply({_MAP})", _WAIT.format("9s")])
def test_an_error_that_a_test_catches_fails_it_nevertheless(
    pytester: pytest.Pytester, fake_cluster: Log, call: str
) -> None:
    for name in ("pytest_kwait_applied", "pytest_kwait_wait_ended"):
        extend_conftest(pytester, _RAISING.format(name))
    pytester.makepyfile(
        f"""
        import pytest

        def test_it(kwait):
            if "wait_for" in {call!r}:
                with pytest.raises(ValueError):
                    kwait.apply({_MAP})
            with pytest.raises(ValueError):
                {call}

        def test_next(kwait):
            pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["E*ValueError: no quota", "E*in hook pytest_kwait_applied"])


def test_the_error_of_a_wait_stays_in_front(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    extend_conftest(pytester, _RAISING.format("pytest_kwait_wait_ended"))
    pytester.makepyfile(
        f"""
        import pytest
        from pytest_kwait import WaitTimeout

        def test_shown(kwait):
            {_SHORT}

        def test_expected(kwait):
            with pytest.raises(WaitTimeout):
                {_SHORT}
        """
    )
    result = pytester.runpytest("-v")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        [
            "*_ test_shown _*",
            "E*WaitTimeout: configmap t-shown-*/x did not get created within 20ms:",
            "*hook pytest_kwait_wait_ended failed too: ValueError: no quota",
            "*_ test_expected _*",
            "E*ValueError: no quota",
            "E*in hook pytest_kwait_wait_ended",
        ]
    )
    assert result.stdout.str().count("WaitTimeout: configmap") == 1


def test_async_waits_call_hooks_in_their_thread_and_raise_in_the_task(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    extend_conftest(
        pytester,
        """
import threading

def pytest_kwait_wait_started(item):
    item.user_properties.append(("thread", threading.current_thread().name))

def pytest_kwait_wait_ended():
    raise ValueError("no quota")
""",
    )
    pytester.makepyfile(
        f"""
        import asyncio
        import pytest

        def test_it(kwait, request):
            async def body():
                await kwait.aio.apply({_MAP})
                with pytest.raises(ValueError, match="no quota"):
                    await kwait.aio.wait_for("configmap/x", "create")
            asyncio.run(body())
            assert request.node.user_properties == [("thread", "kwait-aio")]
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*ValueError: no quota", "E*in hook pytest_kwait_wait_ended"])


def test_an_error_in_a_thread_whose_result_is_lost_fails_the_test(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    extend_conftest(pytester, _RAISING.format("pytest_kwait_wait_started"))
    pytester.makepyfile(
        f"""
        from concurrent.futures import ThreadPoolExecutor

        def test_it(kwait):
            with ThreadPoolExecutor() as pool:
                pool.submit(lambda: {_WAIT.format("9s")})
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*ValueError: no quota", "E*in hook pytest_kwait_wait_started"])


def test_a_hook_may_skip_a_test(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    extend_conftest(
        pytester, "\ndef pytest_kwait_namespace_created():\n    pytest.skip('not today')\n"
    )
    pytester.makepyfile("def test_it(kwait):\n    pass\n")
    pytester.runpytest().assert_outcomes(skipped=1)


def test_ctrl_c_stays_one(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    extend_conftest(pytester, _RAISING.format("pytest_kwait_wait_ended"))
    pytester.makepyfile(
        """
        def interrupt(obj):
            raise KeyboardInterrupt

        def test_it(kwait):
            kwait.wait_for(f"namespace/{kwait.namespace}", interrupt)
        """
    )
    result = pytester.runpytest(no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert "INTERNALERROR" not in result.stdout.str()


def test_workers_call_the_hooks(pytester: pytest.Pytester, calls: Callable[[], list[str]]) -> None:
    extend_conftest(pytester, _RECORD)
    pytester.makepyfile(test_it=f"def test_it(kwait):\n    kwait.apply({_MAP})\n")
    pytester.runpytest("-n1").assert_outcomes(passed=1)
    assert calls() == [
        "created test_it.py::test_it of it",
        "applied x in test_it",
        "deleting test_it.py::test_it",
    ]


def test_hooks_are_called_where_a_running_test_activates_the_plugin(
    pytester: pytest.Pytester, calls: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # It is loaded in this process.
    monkeypatch.setattr(startup, "_ENGINE", "pytest_kwait.not_loaded")
    pytester.makeini("[pytest]\n")
    extend_conftest(pytester, _RECORD)
    pytester.makepyfile(
        test_it=f"""
        def test_it(request):
            request.getfixturevalue("kw" + "ait").apply({_MAP})
        """
    )
    pytester.runpytest().assert_outcomes(passed=1)
    assert calls() == [
        "created test_it.py::test_it of it",
        "applied x in test_it",
        "deleting test_it.py::test_it",
    ]


@pytest.mark.parametrize(
    ("conftest", "expected"),
    [
        ("def pytest_kwait_aplied(objects): ...", "unknown hook 'pytest_kwait_aplied'"),
        ("def pytest_kwait_applied(object): ...", "Argument(s) {'object'} are declared"),
    ],
    ids=["name", "argument"],
)
def test_a_misspelled_hook_is_refused(
    pytester: pytest.Pytester, conftest: str, expected: str
) -> None:
    pytester.makeconftest(conftest)
    pytester.makepyfile("def test_it():\n    pass\n")
    result = pytester.runpytest()
    assert result.ret != pytest.ExitCode.OK
    assert expected in result.stdout.str() + result.stderr.str()
