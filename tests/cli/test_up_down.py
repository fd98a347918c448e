from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import Field, fields
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.cli import main, state_file, up
from pytest_kwait.cli.state_file import ProcessIdentity, StateFile, default_kubeconfig
from pytest_kwait.clusters.kind_config import load_yaml, read_kind_config
from pytest_kwait.clusters.simulator_process import SimulatorProcess
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from pytest_kwait.simulator.protocol.options_json import read_options
from pytest_kwait.simulator.runtimes.processes import runtime
from pytest_kwait.simulator.runtimes.processes.runtime import Isolation
from pytest_kwait.wait import ErrWaitTimeout
from tests.clusters.fake_simulator import read_given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_kwait.clock import Clock

_FILES_WITHOUT_FLAG = ("tls_cert_file", "tls_private_key_file", "client_ca_file")
FAKE = Path(__file__).parents[1] / "clusters" / "fake_simulator.py"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "new" / "kubeconfig"


def behave(monkeypatch: pytest.MonkeyPatch, behaviour: str) -> None:
    command = (sys.executable, "-I", "-S", str(FAKE), behaviour)
    monkeypatch.setattr(up, "SimulatorProcess", partial(SimulatorProcess, command=command))


@pytest.fixture
def ready(monkeypatch: pytest.MonkeyPatch, file: Path) -> Iterator[None]:
    behave(monkeypatch, "ready")
    yield
    left = StateFile(file).process()
    if left is not None and left.alive and left.pid != os.getpid():
        os.kill(left.pid, signal.SIGKILL)


def noted(file: Path) -> ProcessIdentity:
    process = StateFile(file).process()
    assert process is not None
    return process


def reap(process: ProcessIdentity) -> int:
    """Wait for a child that `kwait up --detach` has left: without a shell it is still ours."""
    return os.waitpid(process.pid, 0)[1]


@pytest.mark.usefixtures("ready")
def test_detached_cluster_runs_until_down(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--detach", "--kubeconfig", str(file)]) == 0
    said = capsys.readouterr()
    assert said.out == f"export KUBECONFIG={quote(str(file))}\n"
    assert said.err == (
        "cluster at https://127.0.0.1:6443 with 2 nodes on fast timing; to end it: "
        f"kwait down --kubeconfig {quote(str(file))}\n"
    )
    process = noted(file)
    assert (process.alive, file.exists()) == (True, True)

    assert main(["down", "--kubeconfig", str(file)]) == 0
    assert (process.alive, reap(process)) == (False, signal.SIGTERM)
    assert list(file.parent.iterdir()) == []
    assert capsys.readouterr() == ("", "")


def test_help_is_that_of_the_declared_options(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    with pytest.raises(SystemExit):
        main(["up", "--help"])
    shown = capsys.readouterr().out.partition("exit\n")[2]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    assert " ".join(lines) == (
        "--nodes {N,FILE,TABLE} nodes of the cluster: their number, a kind configuration, or a "
        "table of nodes; an entry a line, for example 'name=gpu count=2 labels=pool=gpu "
        "taints=gpu=true:NoSchedule capacity=cpu=4,nvidia.com/gpu=2' (default: 2) "
        "--api-only whether it is an API server alone, as in envtest; no controllers but those of "
        "kube-apiserver, no scheduler, no nodes "
        "--port P port (default: any free port) "
        "--address IP listen address, 0.0.0.0 for all interfaces (default: loopback only) "
        "--timing {fast,real} back-offs, leases and timers of controllers: a twentieth of "
        "Kubernetes' own, or the same; batches too; durations in manifests and commands are never "
        "changed (default: fast) "
        "--token-auth-file FILE further users, one per line: token,user,uid or "
        'token,user,uid,"group1,group2" '
        "--user NAME[=GROUP,...] a further user, with a client certificate; repeatable "
        "--image PATTERN=COMMAND run COMMAND of this machine in containers of the images that "
        "match; repeatable; for example 'shop/web:*=python -m shop.web' "
        "--egress HOST:PORT let programs in pods connect to HOST; repeatable; for example "
        "pypi.org:443; localhost is this machine, host.kwait.internal in pods "
        "--isolation {auto,namespaces,intercepted,none} isolation of programs in pods; auto: the "
        "first of the others that the machine permits; intercepted needs no namespaces; with none "
        "they share the machine's ports and files (default: auto) "
        "--load-balancers whether services of type LoadBalancer get an address of this machine, as "
        "in a cloud; in 127.0.0.0/8, so on Linux; without it they stay pending "
        "--images FILE YAML with all that the fixture kwait_images takes, by pattern; repeatable; "
        "--image replaces its mapping of the same pattern "
        "--kubeconfig FILE kubeconfig to write (default: /state/kwait/kubeconfig) "
        "--detach return once it is ready; the cluster keeps running"
    )


@pytest.mark.parametrize("option", fields(EmbeddedOptions), ids=lambda each: each.name)
def test_each_option_has_one_declaration_of_its_flag(option: Field[object]) -> None:
    declared = ["flag" in option.metadata, option.name in up._SETTINGS]
    assert sum(declared) == (0 if option.name in _FILES_WITHOUT_FLAG else 1)


@pytest.mark.usefixtures("ready")
def test_options_are_passed_to_the_process(file: Path) -> None:
    arguments = ["--nodes", "1", "--timing", "real", "--port", "6443", "--kubeconfig", str(file)]
    assert main(["up", "--detach", *arguments]) == 0
    log = StateFile(file).log.read_text()
    assert read_given(log) == {"nodes": 1, "timing": "real", "port": 6443}
    assert f" --kubeconfig {file} --options-fd" in log
    assert "--owner-fd" not in log
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_nodes_of_a_kind_configuration(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "kind.yaml"
    config.write_text(
        "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n"
        "  image: kindest/node:v1.36.0\n- role: worker\n  labels: {tier: front}\n"
    )
    assert main(["up", "--detach", f"--nodes={config}", "--kubeconfig", str(file)]) == 0
    assert capsys.readouterr().err == (
        "cluster at https://127.0.0.1:6443 with 2 nodes (kind-control-plane, kind-worker) on fast "
        f"timing; to end it: kwait down --kubeconfig {quote(str(file))}\n"
        "kind.yaml: the embedded cluster does not use image of nodes\n"
    )
    given = read_options(json.dumps(read_given(StateFile(file).log.read_text())).encode())
    assert given.nodes == read_kind_config(load_yaml(config.read_text())[0], None).nodes
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_one_node_of_a_table(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--nodes", "name=big capacity=cpu=64", "--kubeconfig", str(file)]
    assert main(["up", "--detach", *arguments]) == 0
    assert capsys.readouterr().err.startswith(
        "cluster at https://127.0.0.1:6443 with 1 node (big) on fast timing; to end it: "
    )
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_isolation_is_passed_to_the_process(file: Path) -> None:
    assert main(["up", "--detach", "--isolation=none", "--kubeconfig", str(file)]) == 0
    assert read_given(StateFile(file).log.read_text()) == {"isolation": "none"}
    main(["down", "--kubeconfig", str(file)])


def test_an_isolation_that_the_machine_refuses(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def detect(requested: str) -> Isolation:
        if requested == "auto":
            return Isolation(False, False, "none", "none", True, addresses="/run/addresses")
        assert requested == "namespaces"
        raise runtime.IsolationRefusedError("no user namespaces")

    monkeypatch.setattr(runtime, "detect_isolation", detect)
    assert main(["up", "--isolation=namespaces", "--kubeconfig", str(file)]) == 2
    assert capsys.readouterr() == (
        "",
        "kwait up: --isolation='namespaces' is not valid: this machine refuses it (no user "
        "namespaces); use auto, intercepted or none\n",
    )
    assert not file.exists()


@pytest.mark.usefixtures("ready")
def test_an_api_server_alone_has_no_nodes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--detach", "--api-only", "--kubeconfig", str(file)]) == 0
    assert capsys.readouterr().err == (
        "cluster at https://127.0.0.1:6443 with an API server alone on fast timing; to end it: "
        f"kwait down --kubeconfig {quote(str(file))}\n"
    )
    assert read_given(StateFile(file).log.read_text()) == {"api_only": True}
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_load_balancers_are_requested_from_the_process(file: Path) -> None:
    assert main(["up", "--detach", "--load-balancers", "--kubeconfig", str(file)]) == 0
    assert read_given(StateFile(file).log.read_text()) == {"load_balancers": True}
    main(["down", "--kubeconfig", str(file)])


def test_an_api_server_alone_has_no_load_balancers(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--api-only", "--load-balancers", "--kubeconfig", str(file)]) == 2
    assert capsys.readouterr() == (
        "",
        "kwait up: --load-balancers=True is not valid: with --api-only there are none; leave one "
        "of both out\n",
    )
    assert not file.exists()


@pytest.mark.usefixtures("ready")
def test_further_users_get_contexts(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokens = tmp_path / "tokens.csv"
    tokens.write_text('t1,jane,u1,"team,other"\nt2,robot,u2\n')
    users = ["--user", "ops=system:masters", "--user", "jane"]
    start = ["up", "--detach", "--kubeconfig", str(file)]
    assert main([*start, "--token-auth-file", str(tokens), *users]) == 0
    assert "\nfurther contexts: jane, robot, ops\n" in capsys.readouterr().err
    log = StateFile(file).log.read_text()
    given = {"token_auth_file": str(tokens), "users": ["ops=system:masters", "jane"]}
    assert read_given(log) == given
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        (
            "--token-auth-file",
            "bad.csv",
            'line 2: 1 column, expected token,user,uid or token,user,uid,"group1,group2"',
        ),
        ("--token-auth-file", "none.csv", "No such file or directory"),
        ("--user", "=team", "'=team' is neither NAME nor NAME=GROUP,..."),
    ],
)
def test_invalid_users_are_refused(
    option: str,
    value: str,
    error: str,
    file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.csv").write_text("t,jane,u\njoe\n")
    assert main(["up", "--kubeconfig", str(file), option, value]) == 2
    said = capsys.readouterr().err
    assert said == f"kwait up: {option}='{value}' is not valid: {error}\n"
    assert not file.exists()


@pytest.mark.usefixtures("ready")
def test_images_are_mapped_from_the_start(file: Path) -> None:
    images = ["--image", "shop/web:*=python -m shop", "--image", "db=./db"]
    assert main(["up", "--detach", "--kubeconfig", str(file), *images]) == 0
    log = StateFile(file).log.read_text()
    assert [(each["pattern"], each["command"]) for each in read_given(log)["images"]] == [
        ("shop/web:*", ["python", "-m", "shop"]),
        ("db", ["./db"]),
    ]
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_images_of_a_file_are_replaced_by_options(file: Path, tmp_path: Path) -> None:
    images = tmp_path / "images.yaml"
    images.write_text("web: {command: web, env: {A: 1}}\ndb: {}\n")
    arguments = ["--images", str(images), "--image", "db=./db"]
    assert main(["up", "--detach", "--kubeconfig", str(file), *arguments]) == 0
    log = StateFile(file).log.read_text()
    found = read_given(log)["images"]
    assert [(each["pattern"], each["command"]) for each in found] == [
        ("web", ["web"]),
        ("db", ["./db"]),
    ]
    assert found[0]["env"]["A"] == "1"
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_python_of_images_is_that_of_the_activated_environment(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").touch()
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "venv"))
    monkeypatch.setenv("PATH", "/usr/bin")
    images = ["--image", "web=python -m shop", "--image", "own=/opt/bin/python3 -m shop"]
    assert main(["up", "--detach", "--kubeconfig", str(file), *images]) == 0
    found = read_given(StateFile(file).log.read_text())["images"]
    paths = f"{tmp_path}/venv/bin:{Path(sys.executable).parent}:/usr/bin"
    assert [each["env"]["PATH"] for each in found] == [paths, f"/opt/bin:{paths}"]
    main(["down", "--kubeconfig", str(file)])


def test_an_invalid_image_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--kubeconfig", str(file), "--image", "shop/web"]) == 2
    assert capsys.readouterr().err == (
        "kwait up: image='shop/web' (from --image) is not valid: use PATTERN=COMMAND, for example "
        "shop/web:*=python -m shop.web\n"
    )
    assert not file.exists()


@pytest.mark.usefixtures("ready")
def test_egress_is_allowed_from_the_start(file: Path) -> None:
    egress = ["--egress", "PyPI.org:443", "--egress", "localhost:80"]
    assert main(["up", "--detach", "--kubeconfig", str(file), *egress]) == 0
    log = StateFile(file).log.read_text()
    assert read_given(log) == {"egress": [["pypi.org", 443], ["host.kwait.internal", 80]]}
    main(["down", "--kubeconfig", str(file)])


def test_invalid_egress_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--kubeconfig", str(file), "--egress", "https://pypi.org"]) == 2
    assert capsys.readouterr().err == (
        "kwait up: egress='https://pypi.org' (from --egress) is not valid: use HOST:PORT with a "
        "DNS name, an IPv4 address or localhost, and a port from 1 to 65535, for example "
        "pypi.org:443\n"
    )
    assert not file.exists()


@pytest.mark.usefixtures("ready")
def test_a_path_for_a_shell_is_quoted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my config"
    main(["up", "--detach", "--kubeconfig", str(file)])
    said = capsys.readouterr()
    assert said.out == f"export KUBECONFIG='{file}'\n"
    assert said.err.endswith(f"to end it: kwait down --kubeconfig '{file}'\n")
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_a_second_cluster_needs_a_second_kubeconfig(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["up", "--detach", "--kubeconfig", str(file)])
    process = noted(file)
    capsys.readouterr()
    assert main(["up", "--detach", "--kubeconfig", str(file)]) == 1
    assert capsys.readouterr().err == (
        f"kwait up: a cluster is running with kubeconfig {file} (process {process.pid}); "
        f"end it with: kwait down --kubeconfig {quote(str(file))}\n"
    )
    assert process.alive
    assert noted(file) == process
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.usefixtures("ready")
def test_remains_of_a_dead_cluster_are_replaced(file: Path) -> None:
    main(["up", "--detach", "--kubeconfig", str(file)])
    first = noted(file)
    os.kill(first.pid, signal.SIGKILL)
    reap(first)
    assert main(["up", "--detach", "--kubeconfig", str(file)]) == 0
    assert noted(file) != first
    main(["down", "--kubeconfig", str(file)])


def test_foreign_kubeconfig_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    file.write_text("precious")
    assert main(["up", "--kubeconfig", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"kwait up: --kubeconfig='{file}' is not valid: "
        "it exists and is not of `kwait up`; name another file\n"
    )
    assert file.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [file]


def test_a_folder_is_no_kubeconfig(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--kubeconfig", str(tmp_path)]) == 2
    assert capsys.readouterr().err == (
        f"kwait up: --kubeconfig='{tmp_path}' is not valid: a file, and this is a folder\n"
    )


def test_a_folder_that_cannot_be_made_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    file = tmp_path / "file" / "kubeconfig"
    assert main(["up", "--kubeconfig", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"kwait up: --kubeconfig='{file}' is not valid: its folder cannot be made: File exists\n"
    )


def test_a_folder_that_cannot_be_written_to_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda _path, _mode: False)
    file = tmp_path / "kubeconfig"
    assert main(["up", "--kubeconfig", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"kwait up: --kubeconfig='{file}' is not valid: its folder cannot be written to\n"
    )


def test_failed_start_is_status_1_and_leaves_no_files(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, "fails")
    assert main(["up", "--detach", "--kubeconfig", str(file)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0] == "kwait up: the embedded cluster did not start (exit status 3):"
    assert said[-1] == "OSError: [Errno 98] Address already in use"
    assert list(file.parent.iterdir()) == []


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("ready")
def test_foreground_cluster_ends_with_ctrl_c(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, way: int
) -> None:
    ended: list[ProcessIdentity] = []
    before = signal.getsignal(way)

    def ctrl_c(_self: SimulatorProcess) -> int:
        ended.append(noted(file))
        signal.raise_signal(way)
        raise AssertionError("the signal was not heeded")

    with monkeypatch.context() as patch:
        patch.setattr(SimulatorProcess, "wait", ctrl_c)
        assert main(["up", "--kubeconfig", str(file)]) == 0
    assert capsys.readouterr().err == (
        "cluster at https://127.0.0.1:6443 with 2 nodes on fast timing; to end it: Ctrl-C\n"
    )
    assert not ended[0].alive
    assert list(file.parent.iterdir()) == []
    assert signal.getsignal(way) is before


@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("options", [[], ["--detach"]], ids=["foreground", "detached"])
def test_interrupted_start_is_no_success_and_leaves_no_files(
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    way: signal.Signals,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        signal.raise_signal(way)

    monkeypatch.setattr(SimulatorProcess, "__init__", interrupt)
    assert main(["up", *options, "--kubeconfig", str(file)]) == 128 + way
    assert capsys.readouterr().err == "kwait up: interrupted before the cluster was ready\n"
    assert list(file.parent.iterdir()) == []


@pytest.mark.usefixtures("ready")
def test_foreground_cluster_ends_with_down(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wait = SimulatorProcess.wait

    def down(self: SimulatorProcess) -> int:
        assert main(["down", "--kubeconfig", str(file)]) == 0
        return wait(self)

    monkeypatch.setattr(SimulatorProcess, "wait", down)
    assert main(["up", "--kubeconfig", str(file)]) == 0
    assert list(file.parent.iterdir()) == []


def test_crash_in_the_foreground_is_status_1(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(monkeypatch, "crashes")
    assert main(["up", "--kubeconfig", str(file)]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[1] == "kwait up: the cluster has ended (exit status 4):"
    assert said[-1] == "Traceback: it crashed"
    assert list(file.parent.iterdir()) == []


def test_down_without_a_cluster_is_status_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kubeconfig"
    assert main(["down", "--kubeconfig", str(file)]) == 2
    assert capsys.readouterr().err == (
        f"kwait down: --kubeconfig='{file}' is not valid: no cluster of `kwait up` runs with it\n"
    )


def test_down_does_not_end_a_process_with_a_reused_id(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        record = StateFile(tmp_path / "kubeconfig")
        record.kubeconfig.touch()
        record.state.write_text(json.dumps({"pid": bystander.pid, "started": "long ago"}))
        assert main(["down", "--kubeconfig", str(record.kubeconfig)]) == 0
        assert capsys.readouterr().err == ("the cluster had ended already; its files are removed\n")
        assert bystander.poll() is None
        assert list(tmp_path.iterdir()) == []
    finally:
        bystander.kill()
        bystander.wait()


@pytest.fixture(params=["proc", "ps"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The ways in which systems tell of processes."""
    if request.param == "ps":
        monkeypatch.setattr(state_file, "_PROC", tmp_path)


@pytest.mark.usefixtures("system")
def test_down_ends_no_other_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        record = StateFile(tmp_path / "kubeconfig")
        record.note(bystander.pid)
        assert main(["down", "--kubeconfig", str(record.kubeconfig)]) == 1
        assert capsys.readouterr().err == (
            f"kwait down: process {bystander.pid}, which {record.state} names, is no cluster of "
            "this user with this kubeconfig: remove the file if no cluster runs with it\n"
        )
        assert bystander.poll() is None
        assert record.state.exists()
    finally:
        bystander.kill()
        bystander.wait()


@pytest.mark.usefixtures("ready", "system")
def test_down_finds_its_cluster_in_the_ways_of_each_system(file: Path) -> None:
    assert main(["up", "--detach", "--kubeconfig", str(file)]) == 0
    process = noted(file)
    assert StateFile(file).is_cluster(process)
    assert not StateFile(file.with_name("other")).is_cluster(process)
    assert main(["down", "--kubeconfig", str(file)]) == 0
    assert reap(process) == signal.SIGTERM


def test_a_state_file_of_another_user_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = StateFile(tmp_path / "kubeconfig")
    record.note(os.getpid())
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    for command in ("up", "down"):
        assert main([command, "--kubeconfig", str(record.kubeconfig)]) == 1
        text = f"kwait {command}: {record.state} belongs to another user\n"
        assert capsys.readouterr().err == text


@pytest.mark.usefixtures("ready")
def test_the_files_of_a_cluster_are_its_users_alone(file: Path) -> None:
    before = os.umask(0)
    try:
        assert main(["up", "--detach", "--kubeconfig", str(file)]) == 0
    finally:
        os.umask(before)
    running = StateFile(file)
    modes = [path.stat().st_mode & 0o777 for path in (running.state, running.log)]
    assert modes == [0o600, 0o600]
    main(["down", "--kubeconfig", str(file)])


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"pid": "x", "started": ""}'])
@pytest.mark.parametrize("command", ["up", "down"])
def test_unreadable_state_file_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, command: str
) -> None:
    record = StateFile(tmp_path / "kubeconfig")
    record.state.write_text(text)
    assert main([command, "--kubeconfig", str(record.kubeconfig)]) == 1
    assert capsys.readouterr().err == (
        f"kwait {command}: {record.state} is no note of `kwait up`: "
        "remove it if no cluster runs with it\n"
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (PermissionError(), "kwait down: process 7 belongs to another user\n"),
        (ErrWaitTimeout(), "kwait down: process 7 does not end\n"),
    ],
)
def test_a_process_that_cannot_be_ended_keeps_its_files(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    message: str,
) -> None:
    def refuse(_self: ProcessIdentity, _clock: Clock) -> bool:
        raise error

    monkeypatch.setattr(ProcessIdentity, "end", refuse)
    record = StateFile(tmp_path / "kubeconfig")
    record.state.write_text(json.dumps({"pid": 7, "started": "now"}))
    assert main(["down", "--kubeconfig", str(record.kubeconfig)]) == 1
    assert capsys.readouterr().err == message
    assert record.state.exists()


def test_the_default_kubeconfig_is_among_the_users_state_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_kubeconfig({}) == tmp_path / ".local/state/kwait/kubeconfig"
    assert default_kubeconfig({"XDG_STATE_HOME": "/state"}) == Path("/state/kwait/kubeconfig")


def test_simultaneous_starts_do_not_share_a_kubeconfig(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = StateFile(tmp_path / "kubeconfig")
    record.state.write_text(json.dumps({"pid": 1, "started": "?"}))
    monkeypatch.setattr(state_file.StateFile, "process", lambda _self: None)
    assert main(["up", "--kubeconfig", str(record.kubeconfig)]) == 1
    assert capsys.readouterr().err == (
        f"kwait up: another `kwait up` is taking kubeconfig {record.kubeconfig} at this moment\n"
    )


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(
    ("address", "where"), [("0.0.0.0", "every address of this machine"), ("192.0.2.1", "192.0.2.1")]
)
def test_listening_on_other_addresses_warns(
    file: Path, capsys: pytest.CaptureFixture[str], address: str, where: str
) -> None:
    assert main(["up", "--detach", "--kubeconfig", str(file), "--address", address]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"open to others: whoever reaches {where} can connect, read /version and /healthz, and do "
        "everything with the token in the kubeconfig"
    )
    assert main(["down", "--kubeconfig", str(file)]) == 0


@pytest.mark.usefixtures("ready")
def test_listening_on_loopback_does_not_warn(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--detach", "--kubeconfig", str(file), "--address", "127.0.0.2"]) == 0
    assert "open to others" not in capsys.readouterr().err
    assert main(["down", "--kubeconfig", str(file)]) == 0


def test_an_address_is_an_ip_address(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["up", "--kubeconfig", str(file), "--address", "example.com"]) == 2
    assert capsys.readouterr().err == (
        "kwait up: --address='example.com' is not valid: an IP address of this machine, 0.0.0.0 "
        "or :: for all of them\n"
    )
