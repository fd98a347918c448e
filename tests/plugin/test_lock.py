"""Serial tests and the lock they hold, on a cluster that is a dictionary."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

# A run inside of a test forgets what it imported, but for what is imported here.
import pytest_kwait.plugin.cluster_source
import pytest_kwait.suite.lock.lock  # noqa: F401 - as above
from pytest_kwait.plugin import lock
from pytest_kwait.plugin.run import run_of

if TYPE_CHECKING:
    from pathlib import Path

_CONFTEST = """
import os
import sys
import threading
from pathlib import Path

import pytest

sys.path.append(os.environ["FAKE_PATH"])

from pytest_kwait.clusters import provider
from pytest_kwait.errors import ApiError
from pytest_kwait.plugin import cluster_source
from pytest_kwait.suite.lock import lock as lock_module
from pytest_kwait.suite.lock.leases import Ticket, build_lock_lease, build_member_lease
from pytest_kwait.suite.namespaces.permissions import MissingRights
from tests.suite.fakes import FakeCluster

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
CLUSTER = FakeCluster(Path("requests.log"), time_scale=0.1)
SEEN = CLUSTER.transport.objects


class Provider:
    name = "existing"
    context = None

    def __init__(self, request):
        pass

    def start(self):
        return CLUSTER


class NoInformer:
    permanent_error = None

    def __init__(self, *args, **options):
        pass

    def add_event_handler(self, **handlers):
        pass

    def start(self):
        pass

    stop = start


BEFORE = provider.PROVIDERS["existing"], lock_module.SharedInformer, cluster_source.missing_rights


def pytest_unconfigure():
    existing, lock_module.SharedInformer, cluster_source.missing_rights = BEFORE
    provider.PROVIDERS["existing"] = existing


provider.PROVIDERS["existing"] = Provider
lock_module.SharedInformer = NoInformer
cluster_source.missing_rights = lambda cluster, settings: MissingRights()


def put(lease, uid):
    metadata = lease["metadata"] | {"uid": uid, "resourceVersion": "1", "namespace": "default"}
    SEEN[f"{LEASES}/{metadata['name']}"] = lease | {"metadata": metadata}


def hold(*, held=True):
    put(build_member_lease("other", "run ci-1, worker gw0", "", 30, "", out=held, owner=None), "u")
    if held:
        ticket = Ticket("t", "u", "other", "run ci-1, worker gw0", "test_other", False)
        put(build_lock_lease(None, [ticket], "", held=True), "q")


def let_go():
    SEEN.pop(f"{LEASES}/kwait-serial")


def own():
    return [name for name in SEEN if name.startswith(f"{LEASES}/kwait-member-")]
"""
_INI = """
[pytest]
addopts = --strict-markers
kwait_mode = poll
kwait_poll = 10ms
kwait_cluster = existing
kwait_janitor = false
kwait_session_waits = false
kwait_run_id = r1
"""


@pytest.fixture(autouse=True)
def _cluster(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(_CONFTEST)
    pytester.makeini(_INI)


def _leases(path: Path) -> list[str]:
    lines = path.read_text().splitlines()
    return [line.split()[0] for line in lines if "/leases" in line]


def test_shared_tests_send_no_requests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest

        @pytest.mark.parametrize("n", range(5))
        def test_it(kwait_client, n):
            lines = [line for line in conftest.CLUSTER.transport.requests if "/leases" in line]
            # The run's sign of life, and this process' own Lease.
            assert [x.split()[0] for x in lines if x[:3] != "GET"] == ["POST", "POST"]
        """
    )
    pytester.runpytest().assert_outcomes(passed=5)
    assert _leases(pytester.path / "requests.log") == ["POST", "POST", "DELETE", "DELETE"]


def test_serial_test_holds_the_lock_alone(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, json, pytest

        @pytest.mark.parametrize("mark", ["serial", "disruptive"])
        def test_it(request, mark, kwait_client): pass

        @pytest.mark.kwait_serial
        def test_serial(kwait_client):
            lease = conftest.SEEN[f"{conftest.LEASES}/kwait-serial"]
            assert lease["spec"]["holderIdentity"] == "run r1: test_it.py::test_serial"
            (member,) = conftest.own()
            metadata = conftest.SEEN[member]["metadata"]
            assert metadata["annotations"]["pytest-kwait/out"] == "true"
            (owner,) = metadata["ownerReferences"]
            assert owner["name"].startswith("kwait-r1-")

        @pytest.mark.kwait_disruptive
        def test_disruptive(kwait_client):
            lease = conftest.SEEN[f"{conftest.LEASES}/kwait-serial"]
            assert lease["spec"]["holderIdentity"] == "run r1: test_it.py::test_disruptive"

        def test_after(kwait_client):
            assert f"{conftest.LEASES}/kwait-serial" not in conftest.SEEN
            (member,) = conftest.own()
            assert conftest.SEEN[member]["metadata"]["annotations"]["pytest-kwait/out"] == "false"
        """
    )
    pytester.runpytest().assert_outcomes(passed=5)
    left = json.dumps(_leases(pytester.path / "requests.log"))
    assert left.count("DELETE") == 4, left


def test_a_test_without_a_cluster_takes_no_lock(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest

        @pytest.mark.kwait_serial
        def test_serial(kwait_timeouts): assert not conftest.CLUSTER.transport.requests

        @pytest.mark.skip
        @pytest.mark.kwait_serial
        def test_skipped(kwait_client): pass

        def test_last(): assert not conftest.CLUSTER.transport.requests
        """
    )
    pytester.runpytest("-p", "no:xdist").assert_outcomes(passed=2, skipped=1)


def test_timeout_names_the_holders(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest
        conftest.hold()

        @pytest.mark.kwait_serial
        def test_serial(kwait_client): pass

        def test_shared(kwait_client): pass

        def test_other(): pass
        """
    )
    result = pytester.runpytest("--kwait-timeout=serial=500ms")
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(
        [
            "lock default/kwait-serial did not become free for this serial test within 500ms "
            "(timeout serial): held by run ci-1, worker gw0: test_other",
            "lock default/kwait-serial did not become free for this test within 500ms "
            "(timeout serial): held by run ci-1, worker gw0: test_other",
        ]
    )


def test_session_timeout_limits_the_lock(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest
        conftest.hold()

        @pytest.mark.kwait_serial
        def test_serial(kwait_client): pass
        """
    )
    result = pytester.runpytest("--session-timeout=3")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "lock default/kwait-serial did not become free for this serial test within the "
            "session's own timeout (pytest-timeout): held by run ci-1, worker gw0: test_other"
        ]
    )


@pytest.mark.parametrize("method", ["signal", "thread"])
def test_waiting_for_the_lock_does_not_count_for_the_test_timeout(
    pytester: pytest.Pytester, method: str
) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest, threading, time
        from pytest_kwait.engine.active_waits import ACTIVE_WAITS
        from pytest_kwait.plugin.timeout import time_left

        conftest.hold()
        said, freed = [], []

        def free():
            rest = threading.Event()
            while not ACTIVE_WAITS.waits():
                rest.wait(0.01)
            said.extend(map(str, ACTIVE_WAITS.waits()))
            rest.wait(0.3)
            freed.append(time.monotonic())
            conftest.let_go()

        threading.Thread(target=free, daemon=True).start()

        @pytest.mark.timeout(100)
        @pytest.mark.kwait_serial
        def test_serial(request, kwait_client):
            (line,) = said
            assert line.partition(" (after ")[0] == (
                "lock default/kwait-serial to be free for test_it.py::test_serial: held by "
                "run ci-1, worker gw0: test_other"
            )
            assert 100 - time_left(request.node) <= time.monotonic() - freed[0]
        """
    )
    result = pytester.runpytest_subprocess(f"--timeout-method={method}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["kwait: waited *s in 1 wait, 0 failed early, 0 retries"])


def test_holders_in_a_test_are_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest
        conftest.hold(held=False)

        @pytest.mark.kwait_serial
        def test_serial(kwait_client): pass
        """
    )
    result = pytester.runpytest("--kwait-timeout=serial=500ms")
    result.stdout.fnmatch_lines(["*(timeout serial): shared by run ci-1, worker gw0"])


_LOSE = """
import conftest, pytest

def lose(pytestconfig):
    from pytest_kwait.plugin.lock import LockHolder
    from pytest_kwait.plugin.run import run_of

    for name in conftest.own():
        del conftest.SEEN[name]
    run_of(pytestconfig).get(LockHolder)._renewer.lock._own._valid_until = 0.0
"""


def test_a_serial_test_that_was_not_alone_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=_LOSE
        + """
@pytest.mark.kwait_serial
def test_serial(kwait_client, pytestconfig):
    lose(pytestconfig)

@pytest.mark.kwait_serial
def test_next(kwait_client): pass
"""
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(
        [
            "lock default/kwait-serial was lost while this serial test ran: this process did not "
            "renew its Lease for 30s, and others may have used the cluster since"
        ]
    )


def test_shared_test_that_lost_the_lock_is_named(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it=_LOSE
        + """
def test_shared(kwait_client, pytestconfig):
    lose(pytestconfig)
"""
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "kwait: lock default/kwait-serial was lost while test_it.py::test_shared ran: this "
            "process did not renew its Lease for 30s, and a serial test may have begun beside it"
        ]
    )


def test_removed_lock_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest

        @pytest.mark.kwait_serial
        def test_serial(kwait_client): conftest.let_go()
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "kwait: lock default/kwait-serial was lost while test_it.py::test_serial ran: it was "
            "removed, and others may have used the cluster since"
        ]
    )


def test_forbidden_leases_fail_only_serial_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest

        error = conftest.ApiError("leases is forbidden", status=403, reason="Forbidden")
        conftest.CLUSTER.transport.refuse("GET", conftest.LEASES, *[error] * 9)

        def test_shared(kwait_client): pass

        @pytest.mark.kwait_serial
        def test_serial(kwait_client): pass
        """
    )
    result = pytester.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    why = "lock default/kwait-serial cannot be used: 403 Forbidden: leases is forbidden"
    result.stdout.fnmatch_lines(
        [
            f"this serial test cannot be kept apart from others: {why}",
            f"kwait: tests are not kept apart from serial ones of other runs: {why}",
        ]
    )


def test_workers_pass_messages_to_the_controller(pytester: pytest.Pytester) -> None:
    holder = lock.LockHolder(run_of(pytester.parseconfigure("--kwait-cluster=existing")))
    holder.pytest_testnodedown(SimpleNamespace(workeroutput={"kwait_lock": ["kwait: lost"]}))
    holder.pytest_testnodedown(SimpleNamespace(workeroutput=None))

    assert holder.lines == ["kwait: lost"]


_PLAIN = "def test_it(kwait): pass\n"
_SERIAL = "import pytest\n@pytest.mark.kwait_serial\ndef test_serial(kwait): pass\n"


@pytest.mark.parametrize(
    ("cluster", "worker", "tests", "needed"),
    [
        ("existing", False, _PLAIN, True),
        ("embedded", False, _SERIAL, False),
        ("embedded", True, _PLAIN, False),
        ("embedded", True, _SERIAL + _PLAIN, True),
    ],
)
def test_a_cluster_of_the_run_alone_needs_a_lock_only_among_workers(
    pytester: pytest.Pytester, cluster: str, worker: bool, tests: str, needed: bool
) -> None:
    session: Any = SimpleNamespace(items=pytester.getitems(tests))
    config = pytester.parseconfigure(f"--kwait-cluster={cluster}")
    run = run_of(config)
    run.handed = {} if worker else None

    assert lock.LockHolder(run)._is_needed(session) is needed


def test_a_given_namespace_has_a_lock_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_it="""
        import conftest, pytest

        conftest.SEEN["/api/v1/namespaces/mine"] = {"metadata": {"name": "mine"}}

        @pytest.mark.kwait_serial
        def test_serial(kwait):
            assert conftest.LEASES.replace("default", "mine") + "/kwait-serial" in conftest.SEEN
        """
    )
    pytester.runpytest("--kwait-namespace=mine").assert_outcomes(passed=1)
