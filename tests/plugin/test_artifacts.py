from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable

import pytest

from pytest_kwait.errors import KwaitError
from pytest_kwait.plugin.artifacts import _is_in_chain
from tests.plugin.outputs import hide_random_parts, read_files

FakeCluster = Callable[[], str]

_WAITING = """
def test_it(kwait, wait_for_job_complete):
    kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
    print("token=abcdef")
    wait_for_job_complete("pi", timeout="100ms")
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest("--kwait-artifacts=art", "--kwait-run-id=r1", *options)


def test_a_failed_test_has_a_folder_with_everything(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=_WAITING + "\n\ndef test_good(kwait): pass")
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1)
    assert "kwait: artifacts of 1 failed test: art" in result.stdout.str().splitlines()
    found = read_files(pytester.path / "art")
    folder, space = "test_it-test_it-########", "t-it-########"
    assert list(found) == [
        "failures.md",
        f"{folder}/evidence.json",
        f"{folder}/failure.txt",
        f"{folder}/{space}/namespace.yaml",
        f"{folder}/{space}/objects/configmaps.yaml",
        f"{folder}/{space}/objects/serviceaccounts.yaml",
    ]
    failure = hide_random_parts(found[f"{folder}/failure.txt"])
    shown = hide_random_parts(result.stdout.str())
    middle = failure[failure.index("    def test_it") : failure.index("test_it.py:4: WaitTimeout")]
    # The summary has the same, in fewer lines.
    headline = "WaitTimeout: job t-it-########/pi did not become complete within 100ms: not"
    assert headline in " ".join(middle.replace("\nE ", " ").split())
    assert headline in shown
    assert failure.endswith(
        "test_it.py:4: WaitTimeout\n"
        "----------------------------- Captured stdout call -----------------------------\n"
        "token=(hidden)\n"
    )
    assert "name: mine" in found[f"{folder}/{space}/objects/configmaps.yaml"]
    evidence = json.loads(hide_random_parts(found[f"{folder}/evidence.json"]))
    (wait,) = evidence.pop("waits")
    assert evidence == {
        "test": "test_it.py::test_it",
        "phase": "call",
        "attempt": 1,
        "run": "r1",
        "shard": "",
        "worker": "",
        "namespaces": [space],
        "cluster": "embedded",
        "kubectl": ["kubectl", "--kubeconfig", "/fake/kubeconfig"],
        "place": "test_it.py:4",
        "step": "",
        "headline": f"job {space}/pi did not become complete within 100ms: not found yet",
    }
    assert (wait["error"], wait["goal"]) == ("WaitTimeout", "become complete")


def test_nothing_is_dumped_without_the_option(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=_WAITING)
    result = pytester.runpytest()
    result.assert_outcomes(failed=1)
    assert "artifacts" not in result.stdout.str()
    result = run(pytester, "--collect-only")
    assert not (pytester.path / "art").exists()


def test_setup_and_teardown_that_fail(pytester: pytest.Pytester, fake_cluster: FakeCluster) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.wait_for_job_complete("pi", timeout="100ms")
        def test_setup(): pass

        @pytest.fixture
        def mine(kwait):
            kwait.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}})
            yield
            raise ValueError("no way out")

        def test_teardown(mine): pass

        def test_both(mine): assert False
        """
    )
    result = run(pytester)
    result.assert_outcomes(passed=1, failed=1, errors=3)
    assert "kwait: artifacts of 3 failed tests: art" in result.stdout.str().splitlines()
    found = read_files(pytester.path / "art")
    places = [name.split("/", 1) for name in found if "/" in name]
    assert [rest for folder, rest in places if "test_setup" in folder] == [
        "evidence.json",
        "failure.txt",
        "t-setup-########/namespace.yaml",
        "t-setup-########/objects/configmaps.yaml",
        "t-setup-########/objects/serviceaccounts.yaml",
    ]
    # Looked into before the namespace went away.
    space = "t-teardown-########"
    assert [rest for folder, rest in places if "test_teardown" in folder] == [
        "evidence-teardown.json",
        "failure-teardown.txt",
        f"{space}/namespace.yaml",
        f"{space}/objects/configmaps.yaml",
        f"{space}/objects/serviceaccounts.yaml",
    ]
    folder = f"test_it-test_teardown-########/{space}"
    assert "name: mine" in found[f"{folder}/objects/configmaps.yaml"]
    evidence = json.loads(
        hide_random_parts(found["test_it-test_teardown-########/evidence-teardown.json"])
    )
    assert evidence["namespaces"] == [space]
    assert evidence["headline"] == "ValueError: no way out"
    # As it was when the test first failed, once.
    assert [rest for folder, rest in places if "test_both" in folder] == [
        "evidence-teardown.json",
        "evidence.json",
        "failure-teardown.txt",
        "failure.txt",
        "t-both-########/namespace.yaml",
        "t-both-########/objects/configmaps.yaml",
        "t-both-########/objects/serviceaccounts.yaml",
    ]
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 3


@pytest.mark.parametrize("scope", ["module", "session"])
def test_teardown_of_shared_fixtures(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, scope: str
) -> None:
    pytester.makepyfile(
        test_it=f"""
        import pytest

        @pytest.fixture(scope="{scope}")
        def shared(kwait_factory):
            with kwait_factory("shared") as shared:
                yield shared

        @pytest.fixture(scope="{scope}")
        def mine(shared):
            yield
            raise ValueError("no way out")

        def test_one(mine): pass
        def test_two(mine): pass
        """
    )
    run(pytester).assert_outcomes(passed=2, errors=1)
    assert [
        name for name in read_files(pytester.path / "art") if name.endswith("namespace.yaml")
    ] == ["test_it-test_two-########/t-shared-########/namespace.yaml"]


def test_a_namespace_that_is_given(pytester: pytest.Pytester, fake_cluster: FakeCluster) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        from pytest_kwait.client.session import ApiSession

        @pytest.fixture(autouse=True, scope="session")
        def place(kwait_client):
            kwait_client._pytest_kwait_session.transport.objects["/api/v1/namespaces/mine"] = {
                "metadata": {"name": "mine"}
            }

        def test_it(kwait): assert False
        """
    )
    run(pytester, "--kwait-namespace=mine").assert_outcomes(failed=1)
    # This run's own Leases are there as well.
    assert "test_it-test_it-########/mine/namespace.yaml" in read_files(pytester.path / "art")


def test_tests_that_have_nothing_to_do_with_us_have_folders_too(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        def test_plain(): assert 1 == 2

        def test_behind():
            from pytest_kwait.wait import poll_immediate
            try:
                poll_immediate("10ms", "20ms", lambda: False)
            except TimeoutError as error:
                raise ExceptionGroup("all", [ValueError("one"), error])

        @pytest.mark.xfail(strict=True)
        def test_expected(): assert False

        def test_skipped(): pytest.skip("not now")
        """
    )
    run(pytester).assert_outcomes(failed=2, xfailed=1, skipped=1)
    found = read_files(pytester.path / "art")
    assert list(found) == [
        "failures.md",
        "test_it-test_behind-########/evidence.json",
        "test_it-test_behind-########/failure.txt",
        "test_it-test_plain-########/evidence.json",
        "test_it-test_plain-########/failure.txt",
    ]
    behind = json.loads(found["test_it-test_behind-########/evidence.json"])
    assert behind["headline"] == "ExceptionGroup: all (2 sub-exceptions)"
    assert behind["waits"] == [{"error": "ErrWaitTimeout"}]
    plainly = json.loads(found["test_it-test_plain-########/evidence.json"])
    assert (plainly["headline"], plainly["waits"]) == ("AssertionError: assert 1 == 2", [])


def test_another_attempt_and_another_run_have_folders_of_their_own(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        conftest_twice="""
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for attempt in range(2):
                for report in runtestprotocol(item, nextitem=nextitem, log=False):
                    item.ihook.pytest_runtest_logreport(report=report)
                item._initrequest()
            return True
        """,
        test_it="def test_it(kwait): assert False",
    )
    pytester.syspathinsert()
    for _ in range(2):
        run(pytester, "-p", "conftest_twice").assert_outcomes(failed=2)
    folders = sorted(hide_random_parts(each.name) for each in (pytester.path / "art").iterdir())
    assert folders == [
        "failures.md",
        "test_it-test_it-########",
        "test_it-test_it-########-2",
        "test_it-test_it-########-attempt-2",
        "test_it-test_it-########-attempt-2-2",
    ]
    found = read_files(pytester.path / "art")
    again = json.loads(found["test_it-test_it-########-attempt-2/evidence.json"])
    assert again["attempt"] == 2
    assert sum(name.endswith("namespace.yaml") for name in found) == 4


def test_workers_write_their_own_and_the_controller_tells(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import os
        import pytest

        @pytest.mark.parametrize("number", range(3))
        def test_it(kwait, number): assert False

        def test_killed(): os._exit(1)
        """
    )
    result = run(pytester, "-n2", "--max-worker-restart=1", "--junitxml=junit.xml")
    result.assert_outcomes(failed=4)
    assert "kwait: artifacts of 4 failed tests: art" in result.stdout.str().splitlines()
    found = read_files(pytester.path / "art")
    assert sum(name.endswith("namespace.yaml") for name in found) == 3
    assert all(re.search(r"-gw\d/", name) for name in found if name != "failures.md")
    (killed,) = (found[name] for name in found if re.search("test_killed.*/failure.txt", name))
    assert re.fullmatch(
        r"\[gw\d\] .*\nworker 'gw\d' crashed while running 'test_it.py::test_killed'\n", killed
    )
    xml = (pytester.path / "junit.xml").read_text()
    assert xml.count("[[ATTACHMENT|art/test_it-test_") == 8


def test_the_tests_own_timeout_leaves_time_for_artifacts(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Most of it, so that a busy machine has enough.
    monkeypatch.setattr("pytest_kwait.plugin.timeout._RESERVED_PART", 0.9)
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.timeout(8)
        @pytest.mark.parametrize("method", ["signal", "thread"])
        def test_it(kwait, wait_for_job_complete, method, request):
            wait_for_job_complete("pi")
        """
    )
    for method in ("signal", "thread"):
        result = run(pytester, f"--timeout-method={method}", "-k", method)
        result.assert_outcomes(failed=1)
        assert "Timeout (>" not in result.stdout.str()
    found = read_files(pytester.path / "art")
    assert sum(name.endswith("namespace.yaml") for name in found) == 2
    assert not any(name.endswith("problems.txt") for name in found)
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 2


def test_the_tests_own_timeout_waits_while_artifacts_are_written(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its signal comes where no phase runs."""
    written: list[str] = []

    def dump(*_: object) -> None:
        signal.raise_signal(signal.SIGALRM)
        written.append("all")

    monkeypatch.setattr("pytest_kwait.plugin.artifacts.ArtifactCollector._dump", dump)
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.timeout(300, method="signal")
        def test_it(kwait): assert False
        """
    )
    run(pytester).assert_outcomes(failed=1)
    assert written == ["all"]


def test_exhausted_time_is_reported_instead_of_artifacts(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_kwait.plugin.artifacts._MIN_DUMP_SECONDS", 14.0)
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.timeout(20)
        def test_it(kwait): assert False
        """
    )
    run(pytester).assert_outcomes(failed=1)
    found = read_files(pytester.path / "art")
    assert hide_random_parts(found["test_it-test_it-########/problems.txt"]) == (
        "namespaces t-it-######## are left out: the test's own timeout leaves no time\n"
    )
    assert not any(name.endswith(".yaml") for name in found)


def test_a_test_that_ran_out_of_its_own_time(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.timeout(3, method="signal")
        def test_it(kwait):
            while True: pass
        """
    )
    run(pytester).assert_outcomes(failed=1)
    found = read_files(pytester.path / "art")
    # Versions of pytest-timeout word the rest in different ways.
    assert "Failed: Timeout " in found["test_it-test_it-########/failure.txt"]
    assert sum(name.endswith("namespace.yaml") for name in found) == 1


def test_a_run_gathers_for_so_long_only(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_kwait.plugin.artifacts.CRASH_DUMPS_TIMEOUT", 0.0)
    pytester.makepyfile(test_it="def test_it(kwait): assert False")
    run(pytester).assert_outcomes(failed=1)
    assert hide_random_parts(
        read_files(pytester.path / "art")["test_it-test_it-########/problems.txt"]
    ) == (
        "namespaces t-it-######## are left out: what was gathered for tests before it "
        "leaves no time\n"
    )


@pytest.mark.parametrize(
    ("place", "why"), [("file", "it is no folder"), ("file/below", "Not a directory")]
)
def test_a_folder_that_cannot_be_written_ends_the_run(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, place: str, why: str
) -> None:
    (pytester.path / "file").write_text("")
    pytester.makepyfile(test_it="def test_it(): pass")
    result = pytester.runpytest(f"--kwait-artifacts={place}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert result.stderr.str().strip() == (
        f"ERROR: artifacts='{pytester.path / place}' (from option --kwait-artifacts) is not valid: "
        f"use a folder that can be made and written to ({why})"
    )


def test_folders_are_found_from_ini_and_environment(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(test_it="def test_it(): assert False")
    monkeypatch.setenv("KWAIT_ARTIFACTS", str(pytester.path / "there"))
    result = pytester.runpytest()
    result.stdout.fnmatch_lines(["kwait: artifacts of 1 failed test: there"])
    assert (pytester.path / "there").is_dir()


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "worker"])
def test_a_folder_that_cannot_be_written_later_is_one_line(
    pytester: pytest.Pytester, fake_cluster: FakeCluster, workers: list[str]
) -> None:
    pytester.makepyfile(
        test_it="""
        import shutil
        from pathlib import Path

        def test_one(kwait):
            shutil.rmtree("art")
            Path("art").write_text("")
            assert False

        def test_two(kwait): assert False
        def test_good(kwait): pass
        """
    )
    result = run(pytester, *workers)
    result.assert_outcomes(passed=1, failed=2)
    told = [line for line in result.stdout.str().splitlines() if "kwait: artifacts" in line]
    assert told == [
        f"kwait: artifacts could not be written: [Errno 17] File exists: '{pytester.path / 'art'}'"
    ]


def test_a_folder_that_was_removed_is_made_again(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(
        test_it="""
        import shutil

        def test_it(kwait):
            shutil.rmtree("art")
            assert False
        """
    )
    run(pytester).assert_outcomes(failed=1)
    assert "test_it-test_it-########/failure.txt" in read_files(pytester.path / "art")


def test_foreign_client_is_no_error(pytester: pytest.Pytester, fake_cluster: FakeCluster) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.fixture
        def kwait_client(): return object()

        @pytest.fixture
        def kwait_namespace(): return "mine"

        def test_it(kwait_client, kwait_namespace): assert False
        """
    )
    run(pytester, "--kwait-namespace=mine").assert_outcomes(failed=1)
    found = read_files(pytester.path / "art")
    assert found["test_it-test_it-########/problems.txt"].startswith(
        "namespaces mine are left out: client=<object object at "
    )


def test_junit_has_properties_and_attachments(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=_WAITING + "\n\ndef test_good(kwait): pass")
    run(pytester, "--junitxml=junit.xml").assert_outcomes(passed=1, failed=1)
    xml = hide_random_parts((pytester.path / "junit.xml").read_text())
    folder = "art/test_it-test_it-########"
    assert (
        "<properties>"
        f'<property name="kwait_artifacts" value="{folder}" />'
        '<property name="kwait_namespace" value="t-it-########" />'
        '<property name="kwait_run_id" value="r1" />'
        "</properties>"
        f"<system-out>[[ATTACHMENT|{folder}/failure.txt]]\n"
        f"[[ATTACHMENT|{folder}/evidence.json]]</system-out>"
    ) in xml
    assert xml.count("kwait_run_id") == 1


def test_junit_without_artifacts_names_namespace_and_run(
    pytester: pytest.Pytester, fake_cluster: FakeCluster
) -> None:
    pytester.makepyfile(test_it=_WAITING + "\n\ndef test_plain(): assert False")
    pytester.runpytest("--kwait-run-id=r1", "--junitxml=junit.xml").assert_outcomes(failed=2)
    xml = hide_random_parts((pytester.path / "junit.xml").read_text())
    assert (
        '<properties><property name="kwait_namespace" value="t-it-########" />'
        '<property name="kwait_run_id" value="r1" /></properties>'
    ) in xml
    assert xml.count("<properties>") == 1
    assert "ATTACHMENT" not in xml


def test_chain_of_a_failure() -> None:
    """An error that is its own cause ends the search, too."""
    handled, other, own = ValueError("handled"), KeyError("other"), OSError("own cause")
    own.__cause__ = own
    wrapped = KwaitError("while it was handled")
    wrapped.__context__ = handled
    found = [
        failure
        for failure in (None, other, own, handled, wrapped, ExceptionGroup("", [other, handled]))
        if _is_in_chain(handled, failure)
    ]
    assert [type(failure) for failure in found] == [ValueError, KwaitError, ExceptionGroup]
