from __future__ import annotations

import pytest

_HOOK = "pytest_kwait_cluster_providers"
_CLUSTERS = """
__name__ = "pytest_kwait.pretended"  # its frames count as ours

import os
import sys
from pathlib import Path

sys.path.append(os.environ["FAKE_PATH"])

from pytest_kwait.clusters import Cluster
from pytest_kwait.clusters.kubeconfig import RestConfig
from tests.suite.fakes import FakeCluster


class Lab(Cluster):
    def __init__(self, request):
        target = RestConfig(Path("kubeconfig"), "lab", "https://lab", "", None, False)
        super().__init__(target, provider="lab", ends_with_run=True)
        self.fake = FakeCluster()
        print("node image", request.node_image, request.source("node_image"))
        print("run", request.run)

    def client(self):
        return self.fake.client()

    def stop(self):
        print("stopped")


class Provider:
    name = "lab"
    context = None

    def __init__(self, request):
        self.request = request

    def start(self):
        return Lab(self.request)
"""
_TEST = """
def test_it(kwait):
    assert kwait.cluster.provider == "lab"
    assert kwait.cluster.title == "lab cluster"
"""
_ALONE = ("--kwait-no-session-waits",)


@pytest.fixture
def lab(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite with a plugin that has a provider `lab`, as an installed one has it."""
    pytester.makepyfile(lab_plugin=f"{_CLUSTERS}\ndef {_HOOK}():\n    return {{'lab': Provider}}\n")
    pytester.makepyfile(test_it=_TEST)
    pytester.syspathinsert()
    return pytester


def plugin(pytester: pytest.Pytester, code: str) -> None:
    pytester.makepyfile(given_plugin=code)
    pytester.makepyfile(test_it=_TEST)
    pytester.syspathinsert()


def refused(pytester: pytest.Pytester, *options: str) -> str:
    """Return the error of a run, which is one of its use, before any test."""
    result = pytester.runpytest("-p", "given_plugin", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = result.stderr.str() + result.stdout.str()
    assert "Traceback" not in shown
    assert "INTERNALERROR" not in shown
    (line,) = (each for each in shown.splitlines() if each.startswith("ERROR: "))
    return line.removeprefix("ERROR: ")


def test_a_plugin_offers_a_provider(lab: pytest.Pytester) -> None:
    result = lab.runpytest(
        "-s", "-p", "lab_plugin", "--kwait-cluster=lab", "--kwait-run-id=r1", *_ALONE,
        "--kwait-node-image=lab:1",
    )  # fmt: skip
    result.assert_outcomes(passed=1)
    shown = result.stdout.str()
    assert "node image lab:1 option --kwait-node-image" in shown
    assert "run r1" in shown
    assert "stopped" in shown


def test_failures_name_the_artifacts_of_a_cluster_that_ends_with_the_run(
    lab: pytest.Pytester,
) -> None:
    lab.makepyfile(
        test_it="""
        def test_it(kwait):
            print(kwait.cluster.outlook)
        """
    )
    options = ("-s", "-p", "lab_plugin", "--kwait-cluster=lab", *_ALONE)
    shown = lab.runpytest(*options).stdout.str()
    assert (
        "the lab cluster ends with the run; --kwait-artifacts=DIR keeps objects, events and logs "
        "of failed tests"
    ) in shown
    shown = lab.runpytest(*options, "--kwait-artifacts=art").stdout.str()
    assert (
        "the lab cluster ends with the run; art has objects, events and logs of failed tests"
    ) in shown


def test_an_unknown_provider_is_refused_with_those_of_plugins(lab: pytest.Pytester) -> None:
    lab.makepyfile(given_plugin="from lab_plugin import *")
    assert refused(lab, "--kwait-cluster=labb") == (
        "cluster='labb' (from option --kwait-cluster) is not valid: did you mean lab? use auto, "
        "existing, embedded, binaries, kind, k3d, minikube, lab"
    )


def test_an_unknown_provider_is_refused_with_its_source(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KWAIT_CLUSTER", "rancher")
    lab.makepyfile(given_plugin="from lab_plugin import *")
    assert refused(lab) == (
        "cluster='rancher' (from env KWAIT_CLUSTER) is not valid: use auto, existing, embedded, "
        "binaries, kind, k3d, minikube, lab"
    )


_PLACE = f"plugin given_plugin: hook {_HOOK}"
_RETURNED = (
    "it returns a mapping of names to functions of a ClusterRequest, which return a Provider"
)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise OSError('no lab today')", f"{_PLACE} raised OSError: no lab today"),
        ("return ['lab']", f"{_PLACE} returned ['lab']; {_RETURNED}"),
        ("return {'lab': 1}", f"{_PLACE} returned {{'lab': 1}}; {_RETURNED}"),
        (
            "return {'kind': dict}",
            f"{_PLACE} has a provider 'kind', which is pytest-kwait's; choose another name",
        ),
        (
            "return {'lab': lambda request: 1 / 0}",
            "cluster provider 'lab' of plugin given_plugin raised ZeroDivisionError: division by "
            "zero",
        ),
        (
            "return {'lab': lambda request: 'a cluster'}",
            "cluster provider 'lab' of plugin given_plugin is 'a cluster'; it must have name, "
            "context and start()",
        ),
    ],
)
def test_a_broken_hook_is_an_error_that_names_its_plugin(
    pytester: pytest.Pytester, body: str, message: str
) -> None:
    plugin(pytester, f"def {_HOOK}(config):\n    {body}\n")
    assert refused(pytester, "--kwait-cluster=lab") == message


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (
            "raise RuntimeError('the lab is closed')",
            "cluster provider 'lab' of plugin given_plugin: start() raised RuntimeError: the lab "
            "is closed",
        ),
        (
            "return '/etc/kubeconfig'",
            "cluster provider 'lab' of plugin given_plugin: start() returned '/etc/kubeconfig'; "
            "it returns a Cluster, for example that of pytest_kwait.clusters.connect(kubeconfig)",
        ),
    ],
)
def test_a_provider_that_gives_no_cluster_is_an_error_that_names_its_plugin(
    pytester: pytest.Pytester, start: str, message: str
) -> None:
    plugin(
        pytester,
        "class Provider:\n    name = 'lab'\n    context = None\n"
        f"    def start(self):\n        {start}\n\n"
        f"def {_HOOK}():\n    return {{'lab': lambda request: Provider()}}\n",
    )
    assert refused(pytester, "--kwait-cluster=lab") == message


def test_two_plugins_cannot_have_the_same_name(lab: pytest.Pytester) -> None:
    lab.makepyfile(given_plugin=f"def {_HOOK}():\n    return {{'lab': dict}}\n")
    message = refused(lab, "-p", "lab_plugin", "--kwait-cluster=lab")
    assert message.endswith("; choose another name")
    assert "plugin lab_plugin" in message
    assert "plugin given_plugin" in message


def test_a_conftest_may_have_the_hook(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"{_CLUSTERS}\ndef {_HOOK}():\n    return {{'lab': Provider}}\n")
    pytester.makepyfile(test_it=_TEST)
    pytester.runpytest("--kwait-cluster=lab", *_ALONE).assert_outcomes(passed=1)


_KEPT = """
import os
from pathlib import Path
from lab_plugin import Lab


class Kept(Lab):
    is_kept = False

    def keep(self):
        self.is_kept = True

    def notes(self):
        return ["lab is kept"] if self.is_kept else []

    def export_logs(self, folder):
        print("logs to", folder.relative_to(Path.cwd()))
        return os.environ.get("LAB_PROBLEM", "")

    def stop(self):
        if "LAB_FAILS" in os.environ:
            raise TypeError("no such flag")
        if "LAB_STAYS" in os.environ:
            from pytest_kwait.errors import ClusterError

            raise ClusterError("lab was not deleted: it is busy")


class Provider:
    name = "kept"
    context = None

    def __init__(self, request):
        self.request = request

    def start(self):
        return Kept(self.request)


def pytest_kwait_cluster_providers():
    return {"kept": Provider}
"""
_FAILING = """
import pytest

@pytest.mark.parametrize("result", {results})
def test_it(kwait, result):
    assert result
"""
_RUN = ("-s", "-p", "given_plugin", "--kwait-cluster=kept", *_ALONE)


@pytest.mark.parametrize(
    ("keep", "results", "is_kept"),
    [
        ("never", [False], False),
        ("failed", [True], False),
        ("failed", [True, False], True),
        ("always", [True], True),
    ],
)
def test_a_cluster_is_kept_as_the_setting_says(
    lab: pytest.Pytester, keep: str, results: list[bool], is_kept: bool
) -> None:
    lab.makepyfile(given_plugin=_KEPT, test_it=_FAILING.format(results=results))
    shown = lab.runpytest(*_RUN, f"--kwait-keep-cluster={keep}").stdout.str()
    assert ("kwait: lab is kept" in shown.splitlines()) is is_kept
    assert "logs to" not in shown, "there is no folder for artifacts"


def test_logs_of_the_cluster_are_exported_if_a_test_fails(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.makepyfile(given_plugin=_KEPT, test_it=_FAILING.format(results=[True]))
    assert "logs to" not in lab.runpytest(*_RUN, "--kwait-artifacts=art").stdout.str()
    monkeypatch.setenv("LAB_PROBLEM", "it says nothing")
    lab.makepyfile(test_it=_FAILING.format(results=[False]))
    shown = lab.runpytest(*_RUN, "--kwait-artifacts=art").stdout.str()
    assert "logs to art/cluster" in shown
    assert "kwait: logs of the lab cluster were not exported: it says nothing" in shown.splitlines()


def test_a_cluster_that_cannot_be_deleted_is_reported(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_STAYS", "1")
    lab.makepyfile(given_plugin=_KEPT, test_it=_FAILING.format(results=[True]))
    result = lab.runpytest(*_RUN)
    assert result.ret == pytest.ExitCode.OK
    assert "kwait: lab was not deleted: it is busy" in result.stderr.str().splitlines()
    assert "Traceback" not in result.stderr.str()


def test_an_error_of_a_plugin_at_the_end_of_a_cluster_is_reported(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAB_FAILS", "1")
    lab.makepyfile(given_plugin=_KEPT, test_it=_FAILING.format(results=[True]))
    result = lab.runpytest(*_RUN)
    assert result.ret == pytest.ExitCode.OK
    line = "kwait: the cluster could not be stopped: TypeError: no such flag"
    assert line in result.stderr.str().splitlines()
    assert "Traceback" not in result.stderr.str()
