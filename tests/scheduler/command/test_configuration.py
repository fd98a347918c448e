"""The configuration that file and flags make, and every way in which it can be unsound."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_kwait.scheduler.algorithm import DEFAULT_PREDICATES, DEFAULT_PRIORITIES
from pytest_kwait.scheduler.command import CommandError
from pytest_kwait.scheduler.command.configuration import Configuration
from pytest_kwait.scheduler.command.configuration_file import (
    load_configuration,
    write_configuration,
)
from pytest_kwait.scheduler.command.flags import parse_flags
from pytest_kwait.scheduler.command.profiles import list_profile_predicates, list_profile_priorities

KIND = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
DEFAULT = Path(__file__).parent / "default.yaml"
FILTERS = (
    '"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts",'
    ' "NodeResourcesFit", "PodTopologySpread", "InterPodAffinity"'
)


def configure(folder: Path, text: str, *flags: str) -> Configuration:
    file = folder / "config.yaml"
    file.write_text(text)
    return load_configuration(parse_flags([f"--config={file}", *flags]))


def test_absent_fields_have_defaults(tmp_path: Path) -> None:
    written = tmp_path / "written.yaml"
    without_file = load_configuration(parse_flags([]))
    write_configuration(without_file, written)

    assert written.read_text() == DEFAULT.read_text()
    assert configure(tmp_path, KIND) == without_file
    assert configure(tmp_path, f"{KIND}leaderElection: null\nprofiles: []\n") == without_file


@pytest.mark.parametrize(
    "text",
    [
        "",
        "leaderElection: {leaderElect: false, leaseDuration: 1m30s, resourceName: mine}\n",
        "clientConnection: {kubeconfig: /a b, qps: 12.5, burst: 7}\n",
        "percentageOfNodesToScore: 100\nparallelism: 1\ndelayCacheUntilActive: true\n",
        "podInitialBackoffSeconds: 2\npodMaxBackoffSeconds: 2\n",
        "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 50}]\n",
        "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeName}, {name: VolumeZone}]}}}]\n",
        "profiles: [{plugins: {score: {disabled: [{name: '*'}],"
        " enabled: [{name: NodeAffinity, weight: 7}]}}}]\n",
        "profiles: [{pluginConfig: [{name: InterPodAffinity,"
        " args: {hardPodAffinityWeight: 1}}]}]\n",
        "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: NodeName},"
        " {name: SchedulingGates}, {name: PrioritySort}, {name: DefaultBinder}]}}}]\n",
    ],
)
def test_written_configuration_reads_back_the_same(tmp_path: Path, text: str) -> None:
    configuration = configure(tmp_path, KIND + text)
    written = tmp_path / "written.yaml"
    write_configuration(configuration, written)
    again = tmp_path / "again.yaml"
    write_configuration(load_configuration(parse_flags([f"--config={written}"])), again)

    assert load_configuration(parse_flags([f"--config={written}"])) == configuration
    assert again.read_text() == written.read_text()


def test_flags_override_the_file(tmp_path: Path) -> None:
    text = (
        f"{KIND}leaderElection: {{leaseDuration: 20s, retryPeriod: 3s, resourceName: file}}\n"
        "clientConnection: {kubeconfig: file, qps: 1, burst: 1}\n"
    )
    configuration = configure(
        tmp_path,
        text,
        "--leader-elect-lease-duration=30s",
        "--leader_elect_resource_name=flag",
        "--kubeconfig=flag",
        "--kube-api-qps=9",
    )
    election, connection = configuration.leader_election, configuration.client_connection

    assert (election.lease_duration, election.retry_period, election.resource_name) == (
        30,
        3,
        "flag",
    )
    assert (connection.kubeconfig, connection.qps, connection.burst) == ("flag", 9, 1)


@pytest.mark.parametrize(
    ("plugins", "predicates", "priorities"),
    [
        (
            "{}",
            [
                "NodeUnschedulable",
                "NodeName",
                "TaintToleration",
                "NodeAffinity",
                "NodePorts",
                "NodeResourcesFit",
                "PodTopologySpread",
                "InterPodAffinity",
            ],
            {
                "TaintToleration": 3,
                "NodeAffinity": 2,
                "NodeResourcesFit": 1,
                "PodTopologySpread": 2,
                "InterPodAffinity": 2,
                "NodeResourcesBalancedAllocation": 1,
                "ImageLocality": 1,
            },
        ),
        (
            "{filter: {disabled: [{name: '*'}], enabled: [{name: NodePorts}, {name: NodeName}]},"
            " score: {disabled: [{name: '*'}], enabled: [{name: NodeAffinity}]}}",
            ["NodePorts", "NodeName"],
            {"NodeAffinity": 1},
        ),
        (
            "{multiPoint: {disabled: [{name: NodeAffinity}, {name: PodTopologySpread}]},"
            " score: {disabled: [{name: InterPodAffinity}],"
            " enabled: [{name: NodeResourcesFit, weight: 9}]}}",
            [
                "NodeUnschedulable",
                "NodeName",
                "TaintToleration",
                "NodePorts",
                "NodeResourcesFit",
                "InterPodAffinity",
            ],
            {
                "NodeResourcesFit": 9,
                "TaintToleration": 3,
                "NodeResourcesBalancedAllocation": 1,
                "ImageLocality": 1,
            },
        ),
        (
            "{multiPoint: {enabled: [{name: TaintToleration, weight: 8}]},"
            " filter: {disabled: [{name: '*'}]}}",
            [],
            {
                "TaintToleration": 8,
                "NodeAffinity": 2,
                "NodeResourcesFit": 1,
                "PodTopologySpread": 2,
                "InterPodAffinity": 2,
                "NodeResourcesBalancedAllocation": 1,
                "ImageLocality": 1,
            },
        ),
    ],
)
def test_plugins_choose_predicates_and_priorities(
    tmp_path: Path, plugins: str, predicates: list[str], priorities: dict[str, int]
) -> None:
    (profile,) = configure(tmp_path, f"{KIND}profiles: [{{plugins: {plugins}}}]\n").profiles

    assert list_profile_predicates(profile) == predicates
    assert list_profile_priorities(profile) == priorities


def test_default_profile_is_the_default_algorithm() -> None:
    (profile,) = load_configuration(parse_flags([])).profiles
    assert tuple(list_profile_predicates(profile)) == DEFAULT_PREDICATES
    assert list_profile_priorities(profile) == DEFAULT_PRIORITIES


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Object 'Kind' is missing: use kind KubeSchedulerConfiguration of %API%"),
        ("foo: 1", "Object 'Kind' is missing: use kind KubeSchedulerConfiguration of %API%"),
        (
            "apiVersion: v1\nkind: Pod",
            'no kind "Pod" is registered for version "v1":'
            " use kind KubeSchedulerConfiguration of %API%",
        ),
        (
            "kind: KubeSchedulerConfiguration",
            'no kind "KubeSchedulerConfiguration" is registered for version "":'
            " use kind KubeSchedulerConfiguration of %API%",
        ),
        ("a: b: c", "yaml: line 1: mapping values are not allowed here"),
        ("a: \x01", "yaml: it has characters that YAML forbids"),
        ("[" * 1000, "yaml: nested too deeply"),
        (
            "a: !!int x",
            "yaml: a tag does not fit its value: invalid literal for int() with base 10: 'x'",
        ),
        ("- 1", "couldn't get version/kind; json: cannot unmarshal array into an object"),
        ("3", "couldn't get version/kind; json: cannot unmarshal number into an object"),
        (
            f"{KIND}parallelism: 1\nparallelism: 2",
            "strict decoding error: yaml: unmarshal errors: line 4:"
            ' key "parallelism" already set in map',
        ),
        (f"{KIND}bogus: 1", 'strict decoding error: unknown field "bogus"'),
        (
            f"{KIND}bogus: 1\nleaderElection: {{x: 1}}\nprofiles: [{{y: 1}}]",
            'strict decoding error: unknown field "bogus", unknown field "leaderElection.x",'
            ' unknown field "profiles[0].y"',
        ),
        (
            f"{KIND}parallelism: many\nleaderElection: {{leaderElect: 1, leaseDuration: 5}}\n"
            "clientConnection: {kubeconfig: [], qps: true}\nprofiles: {}\nextenders: [1]\n"
            "enableProfiling: 2001-01-01\npodMaxBackoffSeconds: 1.5",
            "[json: cannot unmarshal string into field parallelism of type int32,"
            " json: cannot unmarshal number into field leaderElection.leaderElect of type bool,"
            " json: cannot unmarshal number into field leaderElection.leaseDuration of type string,"
            " json: cannot unmarshal array into field clientConnection.kubeconfig of type string,"
            " json: cannot unmarshal bool into field clientConnection.qps of type float32,"
            " json: cannot unmarshal object into field profiles of type list,"
            " json: cannot unmarshal number into field extenders[0] of type object,"
            " json: cannot unmarshal string into field enableProfiling of type bool,"
            " json: cannot unmarshal number 1.5 into field podMaxBackoffSeconds of type int64]",
        ),
        (
            f"{KIND}parallelism: 2147483648",
            "json: cannot unmarshal number 2147483648 into field parallelism of type int32",
        ),
        (
            f"{KIND}leaderElection: {{leaseDuration: soon}}",
            'leaderElection.leaseDuration: Invalid value: "soon": time: invalid duration "soon"',
        ),
        (  # the default of an invalid field causes no further errors
            f"{KIND}leaderElection: {{leaseDuration: soon, renewDeadline: 20s}}\n"
            "podInitialBackoffSeconds: x\npodMaxBackoffSeconds: -1",
            '[leaderElection.leaseDuration: Invalid value: "soon": time: invalid duration "soon",'
            " json: cannot unmarshal string into field podInitialBackoffSeconds of type int64]",
        ),
        (
            f"{KIND}leaderElection: {{leaseDuration: soon}}\nparallelism: 0\nbogus: 1",
            '[strict decoding error: unknown field "bogus",'
            ' leaderElection.leaseDuration: Invalid value: "soon": time: invalid duration "soon",'
            " parallelism: Invalid value: 0: should be an integer value greater than zero]",
        ),
        (
            f"{KIND}leaderElection: {{leaseDuration: 5s, renewDeadline: 10s, retryPeriod: -1s,"
            " resourceLock: endpoints}\nparallelism: -1\npercentageOfNodesToScore: 101\n"
            "podInitialBackoffSeconds: -1\npodMaxBackoffSeconds: -2\nclientConnection: {burst: -1}",
            "[clientConnection.burst: Invalid value: -1: must be non-negative,"
            ' leaderElection.retryPeriod: Invalid value: "-1s": must be greater than zero,'
            ' leaderElection.leaseDuration: Invalid value: "5s": must be greater than'
            " `RenewDeadline`,"
            ' leaderElection.resourceLock: Invalid value: "endpoints": resourceLock value must be'
            ' "leases",'
            " parallelism: Invalid value: -1: should be an integer value greater than zero,"
            " percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100],"
            " podInitialBackoffSeconds: Invalid value: -1: must be greater than 0,"
            " podMaxBackoffSeconds: Invalid value: -2: must be greater than or equal to"
            " PodInitialBackoffSeconds]",
        ),
        (
            f"{KIND}leaderElection: {{renewDeadline: 2s}}",
            'leaderElection.renewDeadline: Invalid value: "2s":'
            " must be greater than retryPeriod*JitterFactor",
        ),
        (
            f"{KIND}clientConnection:"
            " {contentType: application/vnd.kubernetes.protobuf, qps: -1}",
            "[clientConnection.qps: Invalid value: -1: this scheduler always keeps to a rate:"
            " use more than 0, clientConnection.contentType: Invalid value:"
            ' "application/vnd.kubernetes.protobuf": this scheduler speaks application/json]',
        ),
        (
            f"{KIND}extenders: [{{urlPrefix: x}}]\nenableProfiling: true\n"
            "enableContentionProfiling: true",
            "[extenders: Invalid value: 1: this scheduler calls no extenders: leave them out,"
            " enableProfiling: Invalid value: true: this scheduler serves no profiles of itself:"
            " use false,"
            " enableContentionProfiling: Invalid value: true: this scheduler serves no profiles of"
            " itself: use false]",
        ),
        (
            f"{KIND}profiles: [{{schedulerName: a}}, {{schedulerName: a,"
            " percentageOfNodesToScore: -1}, {}]",
            '[profiles[1].schedulerName: Duplicate value: "profiles[0].schedulerName",'
            " profiles[2].schedulerName: Required value,"
            " profiles[1].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]]",
        ),
        (
            f"{KIND}profiles: [{{plugins: {{filter: {{enabled: [{{name: Bogus}}]}}}}}}]",
            'profiles[0].plugins.filter.enabled[0].name: Unsupported value: "Bogus":'
            f" supported values: {FILTERS}",
        ),
        (
            f"{KIND}profiles: [{{plugins: {{filter: {{enabled: [{{name: DefaultBinder}}]}}}}}}]",
            'profiles[0].plugins.filter.enabled[0].name: Unsupported value: "DefaultBinder":'
            f" supported values: {FILTERS}",
        ),
        (
            f"{KIND}profiles: [{{plugins: {{score: {{enabled: [{{name: NodeAffinity, weight: -3}},"
            " {name: NodeAffinity}]}}}]",
            "[profiles[0].plugins.score.enabled[0].weight: Invalid value: -3: must not be negative,"
            ' profiles[0].plugins.score.enabled[1].name: Duplicate value: "NodeAffinity"]',
        ),
        (
            f"{KIND}profiles: [{{plugins: {{preFilter: {{enabled: [{{name: NodeAffinity}}]}}}}}}]",
            'profiles[0].plugins.preFilter: Invalid value: ["NodeAffinity"]: plugins can be enabled'
            " and disabled at multiPoint, preEnqueue, queueSort, filter, score, bind",
        ),
        (
            f"{KIND}profiles: [{{plugins: {{bind: {{disabled: [{{name: '*'}}]}}}}}}]",
            'profiles[0].plugins: Invalid value: "DefaultBinder": must be enabled:'
            " this scheduler does it in any case",
        ),
        (
            f"{KIND}profiles: [{{pluginConfig: [{{name: InterPodAffinity,"
            " args: {hardPodAffinityWeight: 5, x: 1}}, {name: InterPodAffinity,"
            " args: {kind: NodeAffinityArgs}}]}]",
            "[profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid value: 5:"
            " this scheduler has nothing but 1 here,"
            " profiles[0].pluginConfig[0].args.x: Invalid value: 1: this scheduler does not have"
            " it: leave it out,"
            ' profiles[0].pluginConfig[1]: Duplicate value: "InterPodAffinity",'
            ' profiles[0].pluginConfig[1].args: Invalid value: "NodeAffinityArgs": has to match'
            " plugin args]",
        ),
    ],
)
def test_all_errors_of_a_configuration_are_reported(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(CommandError) as caught:
        configure(tmp_path, text)
    assert str(caught.value) == error.replace("%API%", "kubescheduler.config.k8s.io/v1")


@pytest.mark.parametrize(
    ("part", "starts"),
    [
        (
            "plugins: {score: {disabled: [{name: Typo}]}}",
            'profiles[0].plugins.score.disabled[0].name: Unsupported value: "Typo":'
            ' supported values: "*", "DefaultBinder", "DefaultPreemption", ',
        ),
        (
            "pluginConfig: [{name: Typo}]",
            'profiles[0].pluginConfig[0].name: Unsupported value: "Typo":'
            ' supported values: "SchedulingGates", "PrioritySort", ',
        ),
        (
            "plugins: {multiPoint: {enabled: [{name: VolumeBinding}]}}",
            "profiles[0].plugins.multiPoint.enabled[13].name: Unsupported value:"
            ' "VolumeBinding": supported values: "SchedulingGates", ',
        ),
    ],
)
def test_unknown_plugin_is_refused_with_the_known_ones(
    tmp_path: Path, part: str, starts: str
) -> None:
    with pytest.raises(CommandError) as caught:
        configure(tmp_path, f"{KIND}profiles: [{{{part}}}]")
    assert str(caught.value).startswith(starts)


def test_flags_and_fields_are_refused_together(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        configure(tmp_path, f"{KIND}parallelism: 0", "--secure-port=-1", "--kube-api-burst=0")
    assert str(caught.value) == (
        "[clientConnection.burst: Invalid value: 0: no request could be sent: use 1 or more,"
        " parallelism: Invalid value: 0: should be an integer value greater than zero,"
        " --secure-port -1 must be between 0 and 65535, inclusive. 0 for turning off secure port]"
    )


def test_empty_names_of_the_lock_are_refused() -> None:
    flags = parse_flags(
        [f"--leader-elect-resource-{part}=" for part in ("lock", "name", "namespace")]
    )
    with pytest.raises(CommandError) as caught:
        load_configuration(flags)
    assert str(caught.value) == (
        "[leaderElection.resourceLock: Required value,"
        " leaderElection.resourceNamespace: Required value,"
        " leaderElection.resourceName: Required value,"
        ' leaderElection.resourceLock: Invalid value: "": resourceLock value must be "leases"]'
    )


def test_disabled_election_is_not_validated(tmp_path: Path) -> None:
    text = f"{KIND}leaderElection: {{leaderElect: false, leaseDuration: 1s, renewDeadline: 9s}}"
    assert configure(tmp_path, text).leader_election.renew_deadline == 9


def test_unreadable_or_unwritable_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "file"
    with pytest.raises(CommandError) as caught:
        load_configuration(parse_flags([f"--config={missing}"]))
    assert str(caught.value) == f"open {missing}: no such file or directory"
    with pytest.raises(CommandError) as caught:
        write_configuration(Configuration(), missing)
    assert str(caught.value) == f"open {missing}: no such file or directory"
    binary = tmp_path / "binary"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(CommandError) as caught:
        load_configuration(parse_flags([f"--config={binary}"]))
    assert str(caught.value) == f"open {binary}: it is not text"


if __name__ == "__main__":
    write_configuration(load_configuration(parse_flags([])), DEFAULT)
