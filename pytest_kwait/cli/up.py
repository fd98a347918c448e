"""`kwait up`: start an embedded cluster."""

from __future__ import annotations

import ipaddress
import os
import shlex
import signal
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kwait.cli.state_file import StateFile, add_kubeconfig_argument, parse_path
from pytest_kwait.clusters.images import read_image_file
from pytest_kwait.clusters.kubeconfig import read_kubeconfig
from pytest_kwait.clusters.node_table import NodeTable, nodes_of, read_requested_nodes
from pytest_kwait.clusters.simulator_process import SimulatorProcess
from pytest_kwait.errors import ClusterError, InvalidArgument
from pytest_kwait.simulator import find_isolation_refusal
from pytest_kwait.simulator.protocol.egress import read_egress_list
from pytest_kwait.simulator.protocol.image_mapping import parse_image_mapping
from pytest_kwait.simulator.protocol.nodes import count_nodes
from pytest_kwait.simulator.protocol.options import EmbeddedOptions
from pytest_kwait.simulator.protocol.static_users import (
    TokenFileError,
    parse_users,
    read_token_file,
)
from pytest_kwait.suite.config.options import EmbeddedSettings

if TYPE_CHECKING:
    import argparse
    from types import FrameType
    from typing import NoReturn

    from pytest_kwait.clusters.node_table import RequestedNodes
    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
    from pytest_kwait.simulator.protocol.options import CommandFlag
    from pytest_kwait.suite.config.options import SettingDefinition

_DEFAULTS = EmbeddedOptions()
_SIZE_OPTIONS = ("nodes", "api_only")
_SETTINGS: dict[str, SettingDefinition[Any]] = {
    "nodes": EmbeddedSettings.nodes,
    "timing": EmbeddedSettings.timing,
    "api_only": EmbeddedSettings.api_only,
    "images": EmbeddedSettings.image,
    "egress": EmbeddedSettings.egress,
    "isolation": EmbeddedSettings.isolation,
    "load_balancers": EmbeddedSettings.load_balancers,
}
"""Settings of a run that are options of an embedded cluster as well."""
_END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments: the options of an embedded cluster, and its own."""
    size = parser.add_mutually_exclusive_group()
    for option in fields(EmbeddedOptions):
        flag = option.metadata.get("flag")
        setting = _SETTINGS.get(option.name)
        target = size if option.name in _SIZE_OPTIONS else parser
        if flag is not None:
            _add_flag(target, option.name, option.default, flag)
        elif setting is not None:
            _add_setting(target, option.name, setting)
    parser.add_argument(
        "--images",
        dest="image_files",
        metavar="FILE",
        action="append",
        default=[],
        help="YAML with all that the fixture kwait_images takes, by pattern; repeatable; --image "
        "replaces its mapping of the same pattern",
    )
    add_kubeconfig_argument(parser, "kubeconfig to write")
    parser.add_argument(
        "--detach", action="store_true", help="return once it is ready; the cluster keeps running"
    )


def _add_flag(
    target: argparse._ActionsContainer, name: str, default: Any, flag: CommandFlag
) -> None:
    default_value = flag.default or default
    help_text = f"{flag.help} (default: {default_value})" if default_value else flag.help
    values: dict[str, Any] = {"metavar": flag.metavar, "help": help_text, "default": default}
    if isinstance(default, tuple):
        values |= {"action": "append", "default": []}
    elif isinstance(default, int):
        values["type"] = int
    elif flag.metavar == "FILE":
        values |= {"type": parse_path, "default": None}
    target.add_argument(flag.name, dest=name, **values)


def _add_setting(
    target: argparse._ActionsContainer, name: str, setting: SettingDefinition[Any]
) -> None:
    values: dict[str, Any] = {"action": "store_true"}
    help_text = setting.command_help
    if setting.repeatable:
        values = {"metavar": setting.metavar, "action": "append", "default": []}
    elif isinstance(setting.kind, tuple):
        values = {"choices": setting.kind, "default": setting.default}
        help_text += " (default: %(default)s)"
    elif setting.metavar:
        values = {"metavar": setting.metavar, "default": setting.default}
        help_text += " (default: %(default)s)"
    flag = "--" + setting.name.replace("_", "-")
    target.add_argument(flag, dest=name, help=help_text, **values)


def run(arguments: argparse.Namespace) -> int:
    """Start the cluster; end it with Ctrl-C, or leave it running with `--detach`."""
    arguments.nodes = read_requested_nodes(arguments.nodes, "nodes", "--nodes")
    _check_range("--port", arguments.port, 0, 65535)
    outside = _exposure_warning(arguments.address)
    contexts = _context_users(arguments)
    if arguments.api_only and arguments.load_balancers:
        why = "with --api-only there are none; leave one of both out"
        raise InvalidArgument("--load-balancers", value=True, valid=why)
    options = _read_options(arguments)
    refusal = find_isolation_refusal(options.isolation)
    if refusal:
        raise InvalidArgument("--isolation", options.isolation, refusal)
    running = StateFile(_check_writable(arguments.kubeconfig))
    running.claim()
    # Every signal must end the cluster too, as Ctrl-C does. A background shell ignores SIGINT
    # unless a handler is set.
    before = {number: signal.signal(number, _interrupt) for number in _END_SIGNALS}
    is_ready = False
    try:
        process = SimulatorProcess(
            running.kubeconfig,
            running.log,
            options,
            owned=not arguments.detach,
        )
        try:
            running.note(process.pid)
            is_ready = True
            _print_cluster(running, arguments, contexts)
            if outside:
                print(outside, file=sys.stderr, flush=True)
            if arguments.detach:
                process.detach()
                return 0
            _wait_for_end(process)
            running.remove_of(process.pid)
            return 0
        except BaseException:  # on any error, leave no unrecorded cluster behind
            process.stop()
            raise
    except KeyboardInterrupt as interrupt:
        running.remove()
        if is_ready and not arguments.detach:
            return 0
        # A script must not go on without a cluster.
        print("kwait up: interrupted before the cluster was ready", file=sys.stderr, flush=True)
        return 128 + int(next(iter(interrupt.args), signal.SIGINT))
    except BaseException:
        running.remove()
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _read_options(arguments: argparse.Namespace) -> EmbeddedOptions:
    return EmbeddedOptions(
        nodes=nodes_of(arguments.nodes),
        api_only=arguments.api_only,
        timing=arguments.timing,
        port=arguments.port,
        address=arguments.address or _DEFAULTS.address,
        token_auth_file=str(arguments.token_auth_file or ""),
        users=tuple(arguments.users),
        images=_read_images(arguments),
        egress=tuple(read_egress_list(arguments.egress, "--egress")),
        isolation=arguments.isolation,
        load_balancers=arguments.load_balancers,
    )


def _read_images(arguments: argparse.Namespace) -> tuple[ImageMapping, ...]:
    """Return the mappings of `--images`, and those of `--image` in place of theirs."""
    found = {
        mapping.pattern: mapping
        for name in arguments.image_files
        for mapping in read_image_file(name, "--images")
    }
    own = [parse_image_mapping(text, "--image") for text in arguments.images]
    for mapping in own:
        found.pop(mapping.pattern, None)
    return tuple(_prefer_activated_python(mapping) for mapping in (*found.values(), *own))


def _prefer_activated_python(mapping: ImageMapping) -> ImageMapping:
    """Return a mapping with the activated virtual environment before the Python of `kwait`.

    A tool of its own, as pipx and uv install it, has a Python without the user's packages.
    """
    activated = os.environ.get("VIRTUAL_ENV")
    if not activated or not Path(activated, "bin", "python").exists():
        return mapping
    own, folders = str(Path(sys.executable).parent), mapping.env["PATH"].split(os.pathsep)
    position = folders.index(own)
    folders.insert(position, str(Path(activated, "bin")))
    path = os.pathsep.join(dict.fromkeys(folders))
    return replace(mapping, env={**mapping.env, "PATH": path})


def _wait_for_end(process: SimulatorProcess) -> None:
    """Wait until the cluster is ended gracefully, as by `kwait down`."""
    status = process.wait()
    if status not in {0, -signal.SIGTERM, 128 + signal.SIGTERM}:
        raise ClusterError(f"the cluster has ended (exit status {status}):\n{process.tail()}")


def _context_users(arguments: argparse.Namespace) -> list[str]:
    """Return the names of the requested users, each of which gets a context."""
    file, users = arguments.token_auth_file, []
    if file is not None:
        arguments.token_auth_file = file.absolute()
        try:
            users = [user.name for user in read_token_file(arguments.token_auth_file).values()]
        except TokenFileError as error:
            why = str(error).removeprefix(str(arguments.token_auth_file)).lstrip(",: ")
            raise InvalidArgument("--token-auth-file", str(file), why) from error
    try:
        users += [user.name for user in parse_users(arguments.users)]
    except ValueError as error:
        raise InvalidArgument("--user", ", ".join(arguments.users), str(error)) from error
    return list(dict.fromkeys(users))


def _print_cluster(running: StateFile, arguments: argparse.Namespace, contexts: list[str]) -> None:
    target = read_kubeconfig(running.kubeconfig).target()
    end = shlex.join(("kwait", "down", "--kubeconfig", str(running.kubeconfig)))
    size = _describe_nodes(arguments.nodes)
    if arguments.api_only:
        size = "an API server alone"
    how = end if arguments.detach else "Ctrl-C"
    print(
        f"cluster at {target.server} with {size} on {arguments.timing} timing; to end it: {how}",
        file=sys.stderr,
        flush=True,
    )
    if isinstance(arguments.nodes, NodeTable) and arguments.nodes.note:
        print(arguments.nodes.note, file=sys.stderr, flush=True)
    if contexts:
        print(f"further contexts: {', '.join(contexts)}", file=sys.stderr, flush=True)
    print(f"export KUBECONFIG={shlex.quote(str(running.kubeconfig))}", flush=True)


def _describe_nodes(nodes: RequestedNodes) -> str:
    count = count_nodes(nodes_of(nodes))
    names = f" ({nodes})" if isinstance(nodes, NodeTable) else ""
    return f"1 node{names}" if count == 1 else f"{count} nodes{names}"


def _exposure_warning(address: str) -> str:
    """Return a warning about listening on `address`; empty for loopback."""
    if not address:
        return ""
    try:
        parsed_address = ipaddress.ip_address(address)
    except ValueError:
        why = "an IP address of this machine, 0.0.0.0 or :: for all of them"
        raise InvalidArgument("--address", address, why) from None
    if parsed_address.is_loopback:
        return ""
    where = "every address of this machine" if parsed_address.is_unspecified else address
    return (
        f"open to others: whoever reaches {where} can connect, read /version and /healthz, and do "
        "everything with the token in the kubeconfig"
    )


def _check_range(what: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidArgument(what, value, f"a number from {least} to {most}")


def _check_writable(kubeconfig: Path) -> Path:
    path = kubeconfig.absolute()
    if path.is_dir():
        raise InvalidArgument("--kubeconfig", str(kubeconfig), "a file, and this is a folder")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        why = f"its folder cannot be made: {error.strerror}"
        raise InvalidArgument("--kubeconfig", str(kubeconfig), why) from error
    if not os.access(path.parent, os.W_OK):
        raise InvalidArgument("--kubeconfig", str(kubeconfig), "its folder cannot be written to")
    return path


def _interrupt(number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt(number)
