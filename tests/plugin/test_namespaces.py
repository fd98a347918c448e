"""The namespaces of a run: their names, their number, their end."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from tests.plugin.given_cluster import given
from tests.plugin.outputs import hide_random_parts, list_lines

Log = Callable[[], str]

_WORKERS = pytest.mark.parametrize("workers", [[], ["-n2"]], ids=["alone", "workers"])

_AGAIN = """
from _pytest.runner import runtestprotocol


def pytest_runtest_protocol(item, nextitem):
    # As pytest-rerunfailures does it: until it passes, three times at most.
    for attempt in range(3):
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, nextitem=nextitem, log=False)
        last = attempt == 2 or not any(report.failed for report in reports)
        for report in reports:
            if report.failed and not last:
                report.outcome = "rerun"
            item.ihook.pytest_runtest_logreport(report=report)
        if last:
            return True
        item._initrequest()


def pytest_report_teststatus(report):
    if report.outcome == "rerun":
        return "rerun", "R", "RERUN"
"""


@_WORKERS
def test_a_rerun_has_a_namespace_of_its_own(
    pytester: pytest.Pytester, fake_cluster: Log, workers: list[str]
) -> None:
    pytester.makeconftest((pytester.path / "conftest.py").read_text() + _AGAIN)
    pytester.makepyfile(
        test_it="""
        from pathlib import Path

        def test_flaky(kwait):
            with Path("names").open("a") as file:
                print(kwait.namespace, file=file)
            names = Path("names").read_text().split()
            # Its predecessor may still be on its way out, in a real cluster.
            assert len(names) == len(set(names)) == 3
        """
    )
    result = pytester.runpytest("--kwait-run-id=r1", *workers)
    assert result.parseoutcomes()["passed"] == 1
    names = (pytester.path / "names").read_text().split()
    assert len(set(names)) == 3
    assert all(re.fullmatch("t-flaky-[b-z2-9]{5}", name) for name in names)
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 3


def test_further_namespaces_are_the_tests_own(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        NOTE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note"}}

        def test_it(kwait, wait_for):
            peer = kwait.create_namespace("peer", labels={"team": "a"}, pod_security="restricted")
            other = kwait.create_namespace("peer")
            assert len({kwait.namespace, peer.namespace, other.namespace}) == 3
            assert peer.namespace.startswith("t-peer-test-it-")
            labels = kwait.get(f"namespace/{peer.namespace}")["metadata"]["labels"]
            own = kwait.get(f"namespace/{kwait.namespace}")["metadata"]["labels"]
            assert labels == {
                **own,
                "team": "a",
                "pod-security.kubernetes.io/enforce": "restricted",
            }
            peer.create(NOTE)
            assert kwait.list("cm", field_selector="metadata.name=note") == []
            assert wait_for("cm/note", "create", namespace=peer.namespace)
            assert peer.settings.mode == "poll"
        """
    )
    pytester.runpytest("--kwait-run-id=r1").assert_outcomes(passed=1)
    log = fake_cluster()
    assert log.count("POST /api/v1/namespaces\n") == 3
    # Last made first, and none twice.
    gone = re.findall(r"DELETE /api/v1/namespaces/(\S+)\n", log)
    assert [name.split("-")[1] for name in gone] == ["peer", "peer", "it"]


def test_further_namespaces_are_kept_with_their_test(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        test_it="""
        def test_it(kwait):
            kwait.create_namespace("peer")
            assert False
        """
    )
    result = pytester.runpytest("--kwait-keep=failed", "--kwait-run-id=r1")
    result.stdout.fnmatch_lines(
        [
            "namespace t-it-* is kept; look: kubectl *",
            "namespace t-peer-test-it-* is kept; look: kubectl *",
        ]
    )
    assert "DELETE /api/v1/namespaces/" not in fake_cluster()


@pytest.mark.parametrize(
    ("option", "labels"),
    [
        ("baseline", {"enforce": "baseline"}),
        ("restricted:v1.30", {"enforce": "restricted", "enforce-version": "v1.30"}),
        ("", {}),
    ],
)
def test_pod_security_by_option(
    pytester: pytest.Pytester, fake_cluster: Log, option: str, labels: dict[str, str]
) -> None:
    pytester.makepyfile(
        test_it=f"""
        def test_it(kwait):
            labels = kwait.get(f"namespace/{{kwait.namespace}}")["metadata"]["labels"]
            prefix = "pod-security.kubernetes.io/"
            found = {{k.removeprefix(prefix): v for k, v in labels.items() if k.startswith(prefix)}}
            assert found == {labels}
        """
    )
    options = [f"--kwait-pod-security={option}"] if option else []
    pytester.runpytest(*options).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (
            "--kwait-pod-security=tight",
            "pod_security='tight' (from option --kwait-pod-security) is not valid: use privileged, "
            "baseline or restricted, and :VERSION behind it for the standard of one release, for "
            "example restricted:v1.30 or restricted:latest",
        ),
        (
            "--kwait-namespace-limit=0",
            "namespace_limit='0' (from option --kwait-namespace-limit) is not valid: use a whole "
            "number above zero",
        ),
        (
            "--kwait-namespace-rate=-1",
            "namespace_rate='-1' (from option --kwait-namespace-rate) is not valid: use a number "
            "above zero, for example 2 or 0.5",
        ),
    ],
)
def test_bad_options(pytester: pytest.Pytester, option: str, message: str) -> None:
    result = pytester.runpytest(option)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert f"ERROR: {message}" in result.stderr.str().splitlines()


def test_namespaces_are_labelled_with_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.kwait(pod_security="privileged")
        def test_it(kwait): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(errors=1)
    assert (
        "pod_security belongs to the run, not to a test; use --kwait-pod-security, "
        "KWAIT_POD_SECURITY or ini kwait_pod_security"
    ) in result.stdout.str().replace("\n", " ")


def test_the_number_of_namespaces_is_bounded(pytester: pytest.Pytester, fake_cluster: Log) -> None:
    pytester.makepyfile(
        test_it="""
        def test_three_at_once(kwait):
            kwait.create_namespace("peer")
            kwait.create_namespace("one-too-many")
        """
    )
    result = pytester.runpytest(
        "--kwait-namespace-limit=2", "--kwait-timeout=namespace_deletion=200ms", "--kwait-run-id=r1"
    )
    result.assert_outcomes(failed=1)
    shown = " ".join(hide_random_parts(result.stdout.str()).split())
    assert re.search(
        r"namespace t-one-too-many-test-three-at-once-######## could not be created "
        r"within \S+: the run (E )?has 2 namespaces, 0 of them being deleted, and (E )?may have 2 ",
        shown,
    ), shown


@pytest.mark.parametrize(
    ("method", "workers"), [("signal", []), ("thread", ["-n1"])], ids=["signal", "thread"]
)
def test_unready_namespace_is_reported_before_the_test_timeout(
    pytester: pytest.Pytester, fake_cluster: Log, method: str, workers: list[str]
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        from pytest_kwait.plugin import timeout

        @pytest.fixture(scope="session")
        def kwait_cluster(kwait_cluster, request):
            kwait_cluster.transport.bare_namespaces = True
            item = timeout.running_item(request.config)
            # Each wait may take a second of the long limit, however slow the machine is.
            timeout._reserve = lambda _: timeout.time_left(item) - 1.0
            return kwait_cluster

        @pytest.mark.timeout(300)
        def test_it(kwait): pass
        """
    )
    result = pytester.runpytest_subprocess(f"--timeout-method={method}", *workers)
    result.assert_outcomes(errors=1)
    said = result.stdout.str()
    assert re.search(r"^serviceaccount t-it-\S+/default did not get created", said, re.M), said
    assert re.search(
        r"its limit of 2m0s was cut to \S+ to end before the test's own timeout of 5m0s "
        r"\(pytest-timeout\)$",
        said,
        re.M,
    ), said
    assert "Timeout (>" not in said
    assert " Timeout " not in said
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 1


_SLOW = """
@pytest.fixture(scope="session")
def kwait_cluster(kwait_cluster):
    transport = kwait_cluster.transport
    delete = transport._delete

    def slowly(path, options):
        if not path.startswith("/api/v1/namespaces/") or path.count("/") != 4:
            return delete(path, options)
        found = transport.objects[path]
        found["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["example.com/hold"],
        }
        return transport._answer(found)

    transport._delete = slowly
    return kwait_cluster
"""


def test_end_of_the_run_awaits_deletions_and_names_finalizers(
    pytester: pytest.Pytester, fake_cluster: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_kwait.suite.namespaces.namespaces._REPORT_AFTER", 0.0)
    pytester.makepyfile(test_it=f"import pytest\n{_SLOW}\ndef test_it(kwait): pass")
    result = pytester.runpytest("--kwait-deletion-wait=1600ms", "--kwait-run-id=r1")
    # Remaining objects are no failure of a test.
    assert result.ret == pytest.ExitCode.OK
    lines = list_lines(result)
    assert "kwait: waiting up to 1.6s until 1 namespace is gone" in lines
    start = lines.index("kwait: 1 namespace is not gone after 1.6s; the server is still deleting:")
    assert lines[start + 1] == (
        "  t-it-######## (test_it.py::test_it): being deleted: held by its own finalizers "
        "example.com/hold"
    )


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "workers"])
def test_deletions_are_not_awaited_where_no_controller_finishes_them(
    pytester: pytest.Pytester, fake_cluster: Log, workers: list[str]
) -> None:
    bare = "kwait_cluster.has_controllers = False\n    transport.bare_namespaces = True"
    slow = _SLOW.replace("    delete =", f"    {bare}\n    delete =", 1)
    pytester.makepyfile(test_it=f"import pytest\n{slow}\ndef test_it(kwait): pass")
    result = pytester.runpytest("--kwait-deletion-wait=5m", *workers)
    assert result.parseoutcomes()["passed"] == 1
    assert "gone" not in result.stdout.str()
    requests = fake_cluster()
    assert requests.count("DELETE /api/v1/namespaces/") == 1
    assert "/serviceaccounts/" not in requests


def test_by_default_the_end_of_the_run_looks_once_for_deletions(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    recent = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    slow = _SLOW.replace("2026-01-01T00:00:00Z", recent)
    pytester.makepyfile(test_it=f"import pytest\n{slow}\ndef test_it(kwait): pass")
    result = pytester.runpytest("--kwait-no-janitor")
    assert result.parseoutcomes()["passed"] == 1
    assert (
        "kwait: 1 namespace is still being deleted; later runs and `kwait janitor` report what "
        "stays (--kwait-deletion-wait waits)"
    ) in result.stdout.lines
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 1


@pytest.mark.parametrize("workers", [[], ["-n1"]], ids=["alone", "workers"])
def test_zero_timeout_skips_the_wait_for_deletions(
    pytester: pytest.Pytester, fake_cluster: Log, workers: list[str]
) -> None:
    pytester.makepyfile(test_it=f"import pytest\n{_SLOW}\ndef test_it(kwait): pass")
    result = pytester.runpytest("--kwait-deletion-wait=0", *workers)
    assert result.parseoutcomes()["passed"] == 1
    assert "gone" not in result.stdout.str()


_HELD = """
import pytest


@pytest.fixture(scope="session")
def kwait_cluster(kwait_cluster):
    transport = kwait_cluster.transport
    transport.objects["/api/v1/namespaces/team"] = {"metadata": {"name": "team", "uid": "t"}}
    delete = transport._delete

    def hold(path, options):
        found = transport.objects[path]
        if not found["metadata"].get("finalizers"):
            return delete(path, options)
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return transport._answer(found)

    transport._delete = hold
    return kwait_cluster


def note(name, **metadata):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}


def test_it(kwait):
    kwait.create(note("free"), note("held", finalizers=["example.com/hold"]))


def test_other(kwait):
    kwait.create(note("other"))
"""


@_WORKERS
def test_remaining_objects_in_a_given_namespace_are_reported(
    pytester: pytest.Pytester, fake_cluster: Log, workers: list[str]
) -> None:
    pytester.makepyfile(test_it=_HELD)
    result = pytester.runpytest("--kwait-namespace=team", "--kwait-deletion-wait=1s", *workers)
    # Remaining objects are no failure of a test.
    assert result.ret == pytest.ExitCode.OK
    lines = result.stdout.str().splitlines()
    start = lines.index(
        "kwait: what test_it.py::test_it has made is not gone; the server is still deleting:"
    )
    # All objects share the limit; what is left of it for this one is not known.
    assert re.fullmatch(
        r"  configmap team/held did not go away within (1s|\d00ms): being deleted, held by "
        r"example\.com/hold",
        lines[start + 1],
    )
    assert sum("the server is still deleting" in line for line in lines) == 1
    gone = re.findall("DELETE .*/configmaps/(.*)\n", fake_cluster())
    assert sorted(gone) == ["free", "held", "other"]


_SHARED = given("""
FILE = Path(os.environ["FAKE_LOG"])


class Cluster(GivenCluster):
    # The namespaces of all processes are in one file, and take their time to go.
    has_log = False

    def send(self, method, path, **options):
        if "/selfsubject" in path:
            return Response(201, {}, b'{"status": {"allowed": true}}')
        if method == "GET" and path == "/api/v1/namespaces":
            items = [json.loads(line) for line in FILE.read_text().splitlines()]
            answer = {"kind": "List", "metadata": {"resourceVersion": "1"}, "items": items}
            return Response(200, {}, json.dumps(answer).encode())
        answer = super().send(method, path, **options)
        if method == "POST" and path == "/api/v1/namespaces":
            with FILE.open("a") as file:
                file.write(json.dumps(json.loads(answer.data)) + "\\n")
        return answer
""")


@pytest.fixture
def shared_cluster(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster with one list of namespaces for all processes, without deletions."""
    path = pytester.path / "namespaces"
    path.touch()
    monkeypatch.setenv("FAKE_LOG", str(path))
    pytester.makeconftest(_SHARED)
    pytester.makeini(
        "[pytest]\nkwait_mode = poll\nkwait_poll = 10ms\nkwait_cluster = existing\n"
        "kwait_janitor = false\n"
    )


@_WORKERS
def test_controller_awaits_deletions_of_workers(
    pytester: pytest.Pytester,
    shared_cluster: None,
    workers: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pytest_kwait.suite.namespaces.namespaces._REPORT_AFTER", 0.0)
    pytester.makepyfile(
        "import pytest\n@pytest.mark.parametrize('n', range(4))\ndef test_it(kwait, n): pass"
    )
    result = pytester.runpytest("--kwait-deletion-wait=1600ms", *workers)
    assert result.parseoutcomes()["passed"] == 4
    lines = result.stdout.str().splitlines()
    assert lines.count("kwait: waiting up to 1.6s until 4 namespaces are gone") == 1
    assert "kwait: 4 namespaces are not gone after 1.6s; the server is still deleting:" in lines


@_WORKERS
def test_the_bound_is_that_of_the_run_not_of_each_worker(
    pytester: pytest.Pytester, shared_cluster: None, workers: list[str]
) -> None:
    pytester.makepyfile(
        "import pytest\n@pytest.mark.parametrize('n', range(5))\ndef test_it(kwait, n): pass"
    )
    result = pytester.runpytest(
        "--kwait-namespace-limit=3",
        "--kwait-deletion-wait=0",
        "--kwait-timeout=namespace_deletion=600ms",
        *workers,
    )
    outcomes = result.parseoutcomes()
    assert (outcomes["passed"], outcomes["errors"]) == (3, 2)
    assert "could not be created within" in result.stdout.str()
    assert "INTERNALERROR" not in result.stdout.str()


_RIVAL = """
sending = Cluster.__init__


def init(self):
    sending(self)
    send = self.transport.send
    from pytest_kwait.suite.cleanup.owned_objects import run_lease_name as lease_name

    def lively(method, path, **options):
        answer = send(method, path, **options)
        if method == "GET" and path.endswith("/namespaces/default/leases"):
            told = json.loads(answer.data)
            for own in list(told["items"]):
                other = json.loads(json.dumps(own))
                other["metadata"]["name"] = lease_name("ci-7", "zz")
                other["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
                other["metadata"]["uid"] = "other"
                other["metadata"]["annotations"]["pytest-kwait/nonce"] = "zz"
                other["metadata"]["resourceVersion"] = str(time.monotonic())
                other["spec"]["holderIdentity"] = "runner-2_17"
                own["metadata"]["creationTimestamp"] = "2026-01-01T00:01:00Z"
                told["items"].append(other)
            answer = Response(200, {}, json.dumps(told).encode())
        return answer

    self.transport.send = lively


Cluster.__init__ = init
"""


@_WORKERS
def test_two_runs_with_one_id_are_one_error(
    pytester: pytest.Pytester, shared_cluster: None, workers: list[str]
) -> None:
    pytester.makeconftest(_SHARED + _RIVAL)
    pytester.makepyfile("def test_it(kwait): pass\ndef test_other(kwait): pass")
    result = pytester.runpytest("--kwait-run-id=ci-7", *workers)
    said = result.stdout.str() + result.stderr.str()
    message = (
        "two runs go by the id 'ci-7' (from option --kwait-run-id): this one, and one that "
        "runner-2_17 began at 2026-01-01T00:00:00Z and that is still going on (Lease default/"
    )
    assert message in said
    assert "Give each its own --kwait-run-id; parts of one run tell themselves apart by" in said
    assert "kwait: a run ci-7 was here a moment ago: looking whether it lives" in said
    assert "INTERNALERROR" not in said
    assert result.ret not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)
    assert (pytester.path / "namespaces").read_text() == ""


def test_a_marker_chooses_the_scope_of_namespaces(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest
        seen = []

        @pytest.mark.kwait(namespace_scope="class")
        class TestShared:
            def test_one(self, kwait):
                seen.append(kwait.namespace)

            def test_two(self, kwait_namespace, kwait):
                assert [kwait_namespace] == seen
                assert kwait.namespace == kwait_namespace

        def test_own(kwait):
            assert kwait.namespace not in seen

        @pytest.mark.kwait(namespace_scope="module")
        @pytest.mark.parametrize("number", range(2))
        def test_module(kwait, number):
            seen.append(kwait.namespace)
            assert len(set(seen)) == 2
        """
    )
    pytester.runpytest("--kwait-no-janitor").assert_outcomes(passed=5)
    assert fake_cluster().count("DELETE /api/v1/namespaces/") == 3


def test_a_marker_cannot_change_the_scope_of_the_run(
    pytester: pytest.Pytester, fake_cluster: Log
) -> None:
    pytester.makepyfile(
        test_it="""
        import pytest

        @pytest.mark.kwait(namespace_scope="class")
        def test_one(kwait): pass
        """
    )
    result = pytester.runpytest("--kwait-namespace-scope=module")
    result.assert_outcomes(errors=1)
    assert (
        "marker kwait(namespace_scope='class') of test_it.py::test_one: the run has "
        "namespace_scope='module' (from option --kwait-namespace-scope), which a marker cannot "
        "change"
    ) in result.stdout.str()
