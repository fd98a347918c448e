"""Scripted containers: run a script in place of the command.

Scripts come from rules, annotations of the pod, and KWOK's keys, in this order of precedence.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.times import to_seconds
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.event_recorder import WARNING
from pytest_kwait.simulator.protocol.container_scripts import (
    EMPTY,
    MAX_EXIT_CODE,
    Script,
    ScriptError,
    parse_script,
)
from pytest_kwait.simulator.runtimes.interpreted.container import InterpretedContainer
from pytest_kwait.simulator.runtimes.interpreted.service import InterpretedRuntime
from pytest_kwait.simulator.services import get_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pytest_kwait.simulator.busybox.os.files import FileSystem
    from pytest_kwait.simulator.clock import ScheduledCall
    from pytest_kwait.simulator.kubelet.cri import (
        ContainerConfig,
        Notice,
        PodHost,
        RunningContainer,
    )
    from pytest_kwait.simulator.objects import Obj

_KWAIT_PREFIX = "sim.kwait.dev/"
_KWOK_SUFFIX = ".stage.kwok.x-k8s.io"
_FAILED_LABEL = f"pod-container-running-failed{_KWOK_SUFFIX}"
# KWOK's stages, and the field of a script that their delay sets.
_STAGES = {"pod-create": "start", "pod-ready": "ready", "pod-complete": "run"}


def get_script_keys(pod: Obj) -> dict[str, str]:
    """Return the labels and annotations of a pod that script its containers."""
    metadata = pod["metadata"]
    return {
        key: value
        for field in ("labels", "annotations")
        for key, value in (metadata.get(field) or {}).items()
        if key.startswith(_KWAIT_PREFIX) or _KWOK_SUFFIX in key
    }


class ContainerScripts:
    """The scripts of a pod's containers, and the failures that KWOK's label requests.

    Args:
        list_running: returns the running containers of the pod.
    """

    def __init__(
        self, host: PodHost, list_running: Callable[[], Iterable[RunningContainer]]
    ) -> None:
        self._host = host
        self._list_running = list_running
        self._recorded: set[str] = set()
        self._failure: ScheduledCall | None = None

    def get_script(self, container: Obj) -> Script:
        """Return the script of a container."""
        pod, name = self._host.pod, container["name"]
        script = self._host.cluster.scripts.script(pod, name)
        keys = get_script_keys(pod)
        if keys:
            self._check_names(keys)
            script = script.over(self._parse_annotation(name, keys)).over(
                self._parse_kwok_stages(name, keys)
            )
        return script

    def _record_warning(self, key: str, why: str) -> None:
        if key not in self._recorded:
            self._recorded.add(key)
            self._host.record_event(WARNING, "InvalidScript", f"Ignored {key}: {why}")

    def _list_names(self) -> list[str]:
        spec = self._host.pod["spec"]
        every = [*(spec.get("initContainers") or ()), *spec["containers"]]
        return [
            container_spec["name"]
            for container_spec in [*every, *(spec.get("ephemeralContainers") or ())]
        ]

    def _check_names(self, keys: Mapping[str, str]) -> None:
        names = self._list_names()
        for key in keys:
            name = key.removeprefix(_KWAIT_PREFIX)
            if key.startswith(_KWAIT_PREFIX) and name not in names:
                why = f"the pod has no container {name!r}, only {', '.join(names)}"
                self._record_warning(f"annotation {key}", why)

    def _parse_annotation(self, name: str, keys: Mapping[str, str]) -> Script:
        text = keys.get(f"{_KWAIT_PREFIX}{name}")
        if text is None:
            return EMPTY
        try:
            return parse_script(text)
        except ScriptError as error:
            self._record_warning(f"annotation {_KWAIT_PREFIX}{name}", str(error))
            return EMPTY

    # -- KWOK's keys

    def _parse_kwok_stages(self, name: str, keys: Mapping[str, str]) -> Script:
        """Return the delays of KWOK's stages; `pod-complete` applies to pods of jobs only."""
        pod = self._host.pod
        delays: dict[str, float] = {}
        owners = pod["metadata"].get("ownerReferences") or ()
        for stage, field in _STAGES.items():
            if stage == "pod-complete" and not any(owner["kind"] == "Job" for owner in owners):
                continue
            delay = self._parse_delay(stage, keys)
            if delay is not None and name in [
                container["name"] for container in pod["spec"]["containers"]
            ]:
                delays[field] = delay
        return Script(start=delays.get("start"), ready=delays.get("ready"), run=delays.get("run"))

    def _parse_delay(self, stage: str, keys: Mapping[str, str]) -> float | None:
        """Return a stage's delay, random up to its `jitter-delay` if set."""
        delay = self._parse_duration(f"{stage}{_KWOK_SUFFIX}/delay", keys)
        most = self._parse_duration(f"{stage}{_KWOK_SUFFIX}/jitter-delay", keys)
        if delay is None or most is None or most <= delay:
            return delay
        return random.uniform(delay, most)  # noqa: S311

    def _parse_duration(self, key: str, keys: Mapping[str, str]) -> float | None:
        text = keys.get(key)
        if text is None:
            return None
        try:
            return to_seconds(text)
        except InvalidArgument:
            why = f"{text!r} is not a duration: use for example 500ms, 3s or 1m30s"
            self._record_warning(f"annotation {key}", why)
            return None

    def schedule_failure(self) -> None:
        """Schedule the failure of running containers if KWOK's label requests it.

        As KWOK's stage `pod-container-running-failed` does; the restart policy decides the rest.
        """
        if self._failure is not None:
            return
        keys = get_script_keys(self._host.pod)
        if keys.get(_FAILED_LABEL) != "true" or not any(True for _ in self._list_running()):
            return
        delay = self._parse_delay(_FAILED_LABEL.removesuffix(_KWOK_SUFFIX), keys)
        self._failure = self._host.cluster.clock.call_later(
            1.0 if delay is None else delay, self._fail, scaled=False
        )

    def _fail(self) -> None:
        self._failure = None
        host = self._host
        keys = get_script_keys(host.pod)
        if keys.get(_FAILED_LABEL) != "true" or host.deleted:
            return
        code = keys.get(f"{_FAILED_LABEL}/exit-code", "1")
        if not (code.isascii() and code.isdigit() and int(code) <= MAX_EXIT_CODE):
            why = f"{code!r} is not an integer from 0 to {MAX_EXIT_CODE}"
            self._record_warning(f"annotation {_FAILED_LABEL}/exit-code", why)
            code = "1"
        names = [container["name"] for container in host.pod["spec"]["containers"]]
        target = keys.get(f"{_FAILED_LABEL}/container-name", "")
        if target and target not in names:
            why = f"the pod has no container {target!r}, only {', '.join(names)}"
            self._record_warning(f"annotation {_FAILED_LABEL}/container-name", why)
            return
        for container in self._list_running():
            if container.name in names and target in ("", container.name):
                container.finish(
                    int(code),
                    keys.get(f"{_FAILED_LABEL}/reason", "containerFailed"),
                    keys.get(f"{_FAILED_LABEL}/message", "container failed"),
                )

    def stop(self) -> None:
        """Cancel a scheduled failure."""
        if self._failure is not None:
            self._failure.cancel()
            self._failure = None


class ScriptedContainer(InterpretedContainer):
    """A container that runs a script; SIGTERM ends it with 0."""

    def launch(self, argv: list[str], files: FileSystem, hostname: str) -> str:
        """Start the script; the command is ignored."""
        del argv
        self.is_assumed = True
        failure = super().launch(["sleep", "inf"], files, hostname)
        script = self.config.script
        for line in script.log or ():
            self.write(1, f"{line}\n".encode())
        code = script.exit or 0
        # A script with an exit code alone ends at once.
        seconds = script.run
        if seconds is None:
            seconds = 0.0 if script.exit is not None else math.inf
        if seconds != math.inf:
            reason = script.reason or ("Completed" if code == 0 else "Error")
            self.clock.call_later(
                seconds, self.inject_exit, code, reason, script.message or "", scaled=False
            )
        return failure


class ScriptedRuntime(InterpretedRuntime):
    """Plays the scripts of containers in place of their commands."""

    def make_container(self, config: ContainerConfig, host: PodHost) -> ScriptedContainer:
        """Return a new container."""
        machine = get_machine(self.cluster.services, self.cluster.clock)
        return ScriptedContainer(machine, config, host.on_container_stopped, host.network)

    def make_notice(self, container: InterpretedContainer) -> Notice | None:
        """Return None: what the script says is meant."""
        del container
        return None
