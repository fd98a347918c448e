"""Clusters in containers of this machine: kind, k3d and minikube, by their command lines.

A cluster is named after the run and deleted with it, unless a name is given or it is kept. The
user's own kubeconfig is never read or written.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Protocol

from pytest_kwait.clock import SYSTEM_CLOCK, Clock
from pytest_kwait.clusters.cluster import Cluster, ClusterRequest, refuse_kubeconfig
from pytest_kwait.clusters.kubeconfig import home_folder, read_kubeconfig
from pytest_kwait.errors import ClusterError
from pytest_kwait.temp_dir import TempDir

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_CREATE_TIMEOUT = 900.0
"""Seconds: a first start pulls images of a gigabyte."""
_COMMAND_TIMEOUT = 300.0
_WAIT = "5m0s"
"""How long the programs themselves wait for a new cluster."""
_ERROR_LINES = 12
_MAX_LINE = 400
_MAX_RUN_LENGTH = 20
"""Characters of the run in a cluster's name: k3d allows 32 in all."""
_NAME_PREFIX = "kwait"
"""The first part of the name of a cluster that was given none."""
_NEW_NAME = re.compile(rf"{_NAME_PREFIX}-(?:.+-)?[0-9a-f]{{4}}")
"""The names that runs give to such clusters."""


class Commands:
    """Runs the command lines of one program, with a kubeconfig of the run.

    Args:
        program: its name on the PATH.
        install: how to install it, for messages.
        environ: the environment.
    """

    def __init__(
        self, program: str, install: str, environ: Mapping[str, str], folder: Path
    ) -> None:
        self.kubeconfig = folder / "kubeconfig"
        self._program = program
        self._install = install
        # All three write to this file where they would write to the user's own.
        self._environ = {**environ, "KUBECONFIG": str(self.kubeconfig)}

    def run_json(self, *arguments: str) -> Any:
        """Run a command and return its standard output, decoded.

        Raises:
            ClusterError: as `run`, or the output is no JSON.
        """
        output = self.run(*arguments)
        try:
            return json.loads(output)
        except ValueError:
            command_text = shlex.join((self._program, *arguments))
            raise ClusterError(f"`{command_text}` printed no JSON{_tail(output)}") from None

    def run(self, *arguments: str, timeout: float = _COMMAND_TIMEOUT, program: str = "") -> str:
        """Run a command and return its standard output.

        Args:
            program: another program than this object's.

        Raises:
            ClusterError: the program is not there, failed, or did not end within `timeout`.
        """
        command = [program or self._program, *arguments]
        command_text = shlex.join(command)
        try:
            done = subprocess.run(  # noqa: S603 - a fixed program with checked values
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=timeout,
                env=self._environ,
                check=False,
            )
        except FileNotFoundError:
            raise ClusterError(
                f"{command[0]} is not on the PATH, so `{command_text}` cannot be run; "
                f"{self._install}"
            ) from None
        except OSError as error:
            raise ClusterError(
                f"`{command_text}` cannot be run: {error}; {self._install}"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise ClusterError(
                f"`{command_text}` did not end within {timeout:g}s{_tail(_text(error.stderr))}"
            ) from None
        if done.returncode != 0:
            how = (
                f"exit status {done.returncode}"
                if done.returncode > 0
                else f"signal {-done.returncode}"
            )
            raise ClusterError(
                f"`{command_text}` failed ({how}){_tail(done.stderr or done.stdout)}"
            )
        return done.stdout


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def _tail(output: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    lines = [_cut(line.rstrip()) for line in plain.splitlines() if line.strip()][-_ERROR_LINES:]
    return ":\n" + "\n".join(lines) if lines else "; it said nothing"


def _cut(line: str) -> str:
    """Return a line with its middle left out if it is long: kind prints all that Docker says."""
    half = _MAX_LINE // 2
    return line if len(line) <= _MAX_LINE else f"{line[:half]} … {line[-half:]}"


class LocalTool(Protocol):
    """A program that creates clusters in containers."""

    @property
    def name(self) -> str:
        """Its name, which is that of its provider."""
        ...

    @property
    def install(self) -> str:
        """How to install it, for messages."""
        ...

    @property
    def needs(self) -> str:
        """What it needs of the machine, for messages."""
        ...

    def list_names(self, commands: Commands) -> list[str]:
        """Return the names of its clusters."""
        ...

    def create(self, commands: Commands, name: str, request: ClusterRequest) -> None:
        """Create a cluster and write its kubeconfig."""
        ...

    def connect(self, commands: Commands, name: str) -> None:
        """Write the kubeconfig of a cluster that is there, started if it is stopped."""
        ...

    def load(self, commands: Commands, name: str, images: Sequence[str]) -> None:
        """Load images of this machine into the nodes."""
        ...

    def export_logs(self, commands: Commands, name: str, folder: Path) -> None:
        """Write the logs of the nodes into a folder."""
        ...

    def delete(self, commands: Commands, name: str) -> None:
        """Delete a cluster."""
        ...

    def kubeconfig_command(self, name: str) -> str:
        """Return the command by which a user gets the kubeconfig of a kept cluster."""
        ...

    def delete_command(self, name: str) -> str:
        """Return the command by which a user deletes a kept cluster."""
        ...


class _Kind:
    """Source: kind, pkg/cmd/kind."""

    name = "kind"
    install = "install it (https://kind.sigs.k8s.io/docs/user/quick-start/#installation)"
    needs = "kind needs Docker, Podman or nerdctl, installed and running"

    def list_names(self, commands: Commands) -> list[str]:
        # That there are none is said on standard error.
        return commands.run("get", "clusters").split()

    def create(self, commands: Commands, name: str, request: ClusterRequest) -> None:
        arguments = ["--name", name, "--kubeconfig", str(commands.kubeconfig), "--wait", _WAIT]
        if request.node_image is not None:
            arguments += ["--image", request.node_image]
        if request.cluster_config is not None:
            arguments += ["--config", str(request.cluster_config)]
        arguments += request.cluster_args
        commands.run("create", "cluster", *arguments, timeout=_CREATE_TIMEOUT)

    def connect(self, commands: Commands, name: str) -> None:
        file = str(commands.kubeconfig)
        commands.run("export", "kubeconfig", "--name", name, "--kubeconfig", file)

    def load(self, commands: Commands, name: str, images: Sequence[str]) -> None:
        commands.run("load", "docker-image", *images, "--name", name, timeout=_CREATE_TIMEOUT)

    def export_logs(self, commands: Commands, name: str, folder: Path) -> None:
        commands.run("export", "logs", str(folder), "--name", name)

    def delete(self, commands: Commands, name: str) -> None:
        file = str(commands.kubeconfig)
        commands.run("delete", "cluster", "--name", name, "--kubeconfig", file)

    def kubeconfig_command(self, name: str) -> str:
        return f"kind export kubeconfig --name {name}"

    def delete_command(self, name: str) -> str:
        return f"kind delete cluster --name {name}"


class _K3d:
    """Source: k3d, cmd/cluster, cmd/image and cmd/kubeconfig."""

    name = "k3d"
    install = "install it (https://k3d.io/stable/#installation)"
    needs = "k3d needs Docker, installed and running"

    def list_names(self, commands: Commands) -> list[str]:
        return [cluster["name"] for cluster in commands.run_json("cluster", "list", "-o", "json")]

    def create(self, commands: Commands, name: str, request: ClusterRequest) -> None:
        arguments = ["--wait", "--timeout", _WAIT]
        arguments += ["--kubeconfig-update-default=false", "--kubeconfig-switch-context=false"]
        if request.node_image is not None:
            arguments += ["--image", request.node_image]
        if request.cluster_config is not None:
            arguments += ["--config", str(request.cluster_config)]
        arguments += request.cluster_args
        commands.run("cluster", "create", name, *arguments, timeout=_CREATE_TIMEOUT)
        self._write_kubeconfig(commands, name)

    def connect(self, commands: Commands, name: str) -> None:
        commands.run("cluster", "start", name, "--wait", "--timeout", _WAIT)
        self._write_kubeconfig(commands, name)

    def load(self, commands: Commands, name: str, images: Sequence[str]) -> None:
        commands.run("image", "import", *images, "--cluster", name, timeout=_CREATE_TIMEOUT)

    def export_logs(self, commands: Commands, name: str, folder: Path) -> None:
        listed = commands.run_json("cluster", "list", name, "-o", "json")
        for node in (node["name"] for cluster in listed for node in cluster["nodes"]):
            log = folder / f"{node}.log"
            # k3d has no command for logs.
            log.write_text(commands.run("logs", node, program="docker"), encoding="utf-8")

    def delete(self, commands: Commands, name: str) -> None:
        commands.run("cluster", "delete", name)

    def kubeconfig_command(self, name: str) -> str:
        return f"k3d kubeconfig merge {name}"

    def delete_command(self, name: str) -> str:
        return f"k3d cluster delete {name}"

    def _write_kubeconfig(self, commands: Commands, name: str) -> None:
        _write_private(commands.kubeconfig, commands.run("kubeconfig", "get", name))


class _Minikube:
    """Source: minikube, cmd/minikube/cmd."""

    name = "minikube"
    install = "install it (https://minikube.sigs.k8s.io/docs/start/)"
    needs = "minikube needs a driver, for example Docker, installed and running"

    def list_names(self, commands: Commands) -> list[str]:
        listed = commands.run_json("profile", "list", "--light", "-o", "json")
        return [profile["Name"] for profile in listed.get("valid") or ()]

    def create(self, commands: Commands, name: str, request: ClusterRequest) -> None:
        arguments = list(request.cluster_args)
        if request.node_image is not None:
            arguments = ["--base-image", request.node_image, *arguments]
        self._start(commands, name, *arguments)

    def connect(self, commands: Commands, name: str) -> None:
        # A running one is left as it is.
        self._start(commands, name)

    def load(self, commands: Commands, name: str, images: Sequence[str]) -> None:
        commands.run("-p", name, "image", "load", *images, timeout=_CREATE_TIMEOUT)

    def export_logs(self, commands: Commands, name: str, folder: Path) -> None:
        commands.run("-p", name, "logs", f"--file={folder / 'minikube.log'}")

    def delete(self, commands: Commands, name: str) -> None:
        commands.run("delete", "-p", name)

    def kubeconfig_command(self, name: str) -> str:
        return f"minikube update-context -p {name}"

    def delete_command(self, name: str) -> str:
        return f"minikube delete -p {name}"

    def _start(self, commands: Commands, name: str, *arguments: str) -> None:
        flags = ("--wait=all", f"--wait-timeout={_WAIT}", "--interactive=false", "--embed-certs")
        commands.run("start", "-p", name, *flags, *arguments, timeout=_CREATE_TIMEOUT)


KIND: LocalTool = _Kind()
K3D: LocalTool = _K3d()
MINIKUBE: LocalTool = _Minikube()


class LocalCluster(Cluster):
    """A cluster in containers of this machine.

    Args:
        name: its name for the tool.
        record: the record of a created cluster; None for one that was there before.
        ends_with_run: whether it is deleted with the run, whatever its tests do.
    """

    def __init__(
        self,
        tool: LocalTool,
        commands: Commands,
        name: str,
        folder: TempDir,
        record: _Record | None,
        clock: Clock,
        *,
        ends_with_run: bool,
    ) -> None:
        target = read_kubeconfig(commands.kubeconfig).target()
        super().__init__(target, provider=tool.name, ends_with_run=ends_with_run, clock=clock)
        self.name = name
        self._tool = tool
        self._commands = commands
        self._folder = folder
        self._record = record
        self._is_kept = False

    def keep(self) -> None:
        """Keep the cluster beyond `stop`."""
        self._is_kept = self._record is not None

    def notes(self) -> list[str]:
        """Return how to use and to delete a cluster that is kept."""
        if not self._is_kept:
            return []
        return [
            f"{self.title} {self.name} is kept: `{self._tool.kubeconfig_command(self.name)}` "
            f"gives its kubeconfig, `{self._tool.delete_command(self.name)}` deletes it"
        ]

    def export_logs(self, folder: Path) -> str:
        """Write the logs of the nodes into a new folder; return the problem, if any."""
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._tool.export_logs(self._commands, self.name, folder.absolute())
        except ClusterError as error:
            return str(error)
        return ""

    def stop(self) -> None:
        """Delete a cluster that the run has created, unless it is kept; may be called again.

        Raises:
            ClusterError: it could not be deleted; names the command that deletes it.
        """
        record, self._record = self._record, None
        try:
            if record is not None:
                if not self._is_kept:
                    self._tool.delete(self._commands, self.name)
                record.remove()
        except ClusterError as error:
            raise ClusterError(
                f"{self.title} {self.name} was not deleted: {error}\n"
                f"delete it: {self._tool.delete_command(self.name)}"
            ) from error
        finally:
            if record is not None:
                # One that could not be deleted stays recorded: a later run deletes it.
                record.release()
            self._folder.remove()


class LocalProvider:
    """Creates a cluster by a tool, or uses one of a given name.

    Args:
        request: name, node image, configuration and images.
        environ: the environment of the commands; the process's own by default.
        state: the folder of the records of created clusters; the user's own by default.

    Raises:
        InvalidArgument: a kubeconfig or context is given.
        ClusterError: the configuration file is not there.
    """

    context = None
    """None: it is a cluster of this machine."""

    def __init__(
        self,
        tool: LocalTool,
        request: ClusterRequest,
        *,
        environ: Mapping[str, str] | None = None,
        state: Path | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        refuse_kubeconfig(request, f"the {tool.name} cluster")
        config = request.cluster_config
        if config is not None and tool.name != MINIKUBE.name and not config.is_file():
            source = request.source("cluster_config")
            source_text = f" (from {source})" if source else ""
            raise ClusterError(f"cluster configuration {config}{source_text} does not exist")
        self._tool = tool
        self._request = request
        self._environ = os.environ if environ is None else environ
        self._state = state or _state_folder(self._environ)
        self._clock = clock

    @property
    def name(self) -> str:
        """The tool's name."""
        return self._tool.name

    def start(self) -> LocalCluster:
        """Return the cluster of the given name, else a new one, with the images loaded.

        Raises:
            ClusterError: the tool is not installed, or a command failed.
        """
        folder = TempDir()
        commands = Commands(self._tool.name, self._tool.install, self._environ, folder.path)
        record: _Record | None = None
        name = ""
        try:
            names = self._list_names(commands)
            for dead_record in _dead_records(
                self._state, self._tool.name, self._request.cluster_name
            ):
                # One that cannot be deleted now stays recorded.
                with suppress(ClusterError):
                    if dead_record.name in names:
                        self._tool.delete(commands, dead_record.name)
                        names.remove(dead_record.name)
                    dead_record.remove()
                dead_record.release()
            name = self._request.cluster_name or self._new_name()
            if name not in names:
                record = self._record_new(commands, name)
            if record is None:
                self._tool.connect(commands, name)
            else:
                self._tool.create(commands, name, self._request)
            if self._request.load_image:
                self._tool.load(commands, name, self._request.load_image)
            is_alone = record is not None and self._request.keep_cluster == "never"
            return LocalCluster(
                self._tool, commands, name, folder, record, self._clock, ends_with_run=is_alone
            )
        except (ClusterError, OSError, KeyboardInterrupt, SystemExit):  # leave nothing behind
            if record is not None:
                # The first error is the one to report.
                with suppress(ClusterError):
                    self._tool.delete(commands, name)
                record.remove()
            folder.remove()
            raise

    def _record_new(self, commands: Commands, name: str) -> _Record | None:
        """Return the record of a cluster to create; None if another run has created and kept it.

        That run has the record until its end, so the names are listed again.
        """
        record = _Record.create(self._state, self._tool.name, name)
        is_left = record.is_left
        with ExitStack() as on_error:
            # That of a killed run stays for a later one.
            on_error.callback(record.release if is_left else record.remove)
            exists = name == self._request.cluster_name and name in self._tool.list_names(commands)
            if exists and is_left:
                self._tool.delete(commands, name)
            on_error.pop_all()
        if exists and not is_left:
            record.remove()
            return None
        return record

    def _list_names(self, commands: Commands) -> list[str]:
        """Return the names of the tool's clusters; the first command, so it finds what is missing.

        Raises:
            ClusterError: with what the tool needs.
        """
        try:
            return self._tool.list_names(commands)
        except ClusterError as error:
            needs = self._tool.needs
            raise ClusterError(str(error) if needs in str(error) else f"{error}\n{needs}") from None

    def _new_name(self) -> str:
        """Return a name of the run that no other process of it has taken."""
        run = self._request.run[:_MAX_RUN_LENGTH].strip("-")
        return "-".join(filter(None, (_NAME_PREFIX, run, os.urandom(2).hex())))


class _Record:
    """A file that says which cluster a run has created; locked as long as the run lives.

    Args:
        file: the file, which has text once a run has taken it.
    """

    def __init__(self, path: Path, file: IO[str]) -> None:
        self._path = path
        self._file = file
        self.is_left = os.fstat(file.fileno()).st_size > 0
        """True if it is that of a killed run."""

    @property
    def name(self) -> str:
        return self._path.name.partition(".")[2]

    @classmethod
    def create(cls, folder: Path, tool: str, name: str) -> _Record:
        """Record a cluster before it is created."""
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / f"{tool}.{name}"
        while True:
            # Another run that creates a cluster of this name has it until its end.
            record = cls._locked(path, "a", fcntl.LOCK_EX)
            if record is not None:
                record._file.write(f"{os.getpid()}\n")
                record._file.flush()
                return record

    @classmethod
    def _locked(cls, path: Path, mode: str, operation: int) -> _Record | None:
        """Return the record once it is locked; None if its run has removed it meanwhile."""
        with ExitStack() as files:
            file: IO[str] = files.enter_context(path.open(mode))
            fcntl.flock(file, operation)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                    files.pop_all()
                    return cls(path, file)
        return None

    @classmethod
    def adopt(cls, path: Path) -> _Record | None:
        """Return the record of a run that is dead; None while it lives."""
        try:
            return cls._locked(path, "r+", fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return None

    def remove(self) -> None:
        """Remove the file: the cluster is gone, or is kept on purpose."""
        self._path.unlink(missing_ok=True)
        self.release()

    def release(self) -> None:
        self._file.close()


def _dead_records(folder: Path, tool: str, name: str | None) -> Iterator[_Record]:
    """Yield the records of a tool's clusters whose runs were killed.

    Args:
        name: the name that was given to the run's cluster. A cluster of another given name may be
            its user's own by now.
    """
    for path in sorted(folder.glob(f"{tool}.*")):
        recorded = path.name.partition(".")[2]
        if recorded != name and not _NEW_NAME.fullmatch(recorded):
            continue
        if (record := _Record.adopt(path)) is not None:
            yield record


def _state_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of records.

    Raises:
        ClusterError: the user has no home folder.

    Source: XDG Base Directory Specification, $XDG_STATE_HOME.
    """
    state_home = environ.get("XDG_STATE_HOME")
    home = Path(state_home) if state_home else home_folder() / ".local" / "state"
    return home / "pytest-kwait" / "clusters"


def _write_private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
