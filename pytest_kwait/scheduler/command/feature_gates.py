"""Feature gates: the known ones, their stages, and the flag `--feature-gates`.

Source: component-base, featuregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_kwait.apimachinery.go_values import parse_bool
from pytest_kwait.scheduler.command import CommandError, aggregate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_COMPONENT = "kube"


@dataclass(frozen=True, slots=True)
class FeatureGate:
    """A feature of Kubernetes' scheduler.

    Args:
        stage: ALPHA, BETA, or empty once it is stable.
        default: whether it is enabled by default.
        locked: whether it cannot be changed, as this scheduler always or never has the feature.
    """

    stage: str
    default: bool
    locked: bool = True


GATES: Mapping[str, FeatureGate] = {
    "ComponentFlagz": FeatureGate("BETA", True, locked=False),
    "ComponentStatusz": FeatureGate("BETA", False),
    "ContextualLogging": FeatureGate("BETA", False),
    "CoordinatedLeaderElection": FeatureGate("BETA", False),
    "DynamicResourceAllocation": FeatureGate("", False),
    "GangScheduling": FeatureGate("ALPHA", False),
    "GenericWorkload": FeatureGate("ALPHA", False),
    "LoggingAlphaOptions": FeatureGate("ALPHA", False),
    "LoggingBetaOptions": FeatureGate("BETA", False),
    "NodeDeclaredFeatures": FeatureGate("BETA", False),
    "NominatedNodeNameForExpectation": FeatureGate("BETA", False),
    "OpportunisticBatching": FeatureGate("BETA", False),
    "SchedulerAsyncAPICalls": FeatureGate("BETA", False),
    "SchedulerAsyncPreemption": FeatureGate("BETA", False),
    "SchedulerPopFromBackoffQ": FeatureGate("BETA", True, locked=False),
    "SchedulerQueueingHints": FeatureGate("", False),
    "StorageCapacityScoring": FeatureGate("ALPHA", False),
    "TopologyAwareWorkloadScheduling": FeatureGate("ALPHA", False),
}
"""The gates of Kubernetes 1.36's scheduler; those of missing features are locked off."""


class FeatureGates:
    """The enabled features.

    Args:
        turned: the requested states, by name.

    Raises:
        CommandError: unknown names and locked features, all of them at once.

    Source: component-base featuregate/feature_gate.go unsafeSetFromMap.
    """

    def __init__(self, turned: Mapping[str, bool] | None = None) -> None:
        errors: list[str] = []
        self._on = {name: gate.default for name, gate in GATES.items()}
        for name, on in (turned or {}).items():
            gate = GATES.get(name)
            if gate is None:
                errors.append(f"unrecognized feature gate: {name}")
            elif gate.locked and on is not gate.default:
                errors.append(
                    f"cannot set feature gate {name} to {_format_bool(on)}, "
                    f"feature is locked to {_format_bool(gate.default)}"
                )
            else:
                self._on[name] = on
        if errors:
            raise aggregate(errors)

    @classmethod
    def parse(cls, pairs: Iterable[str]) -> FeatureGates:
        """Return the gates set by pairs such as `ComponentFlagz=false`; the last one wins.

        Raises:
            CommandError: an invalid pair, or a gate that cannot be set.

        Source: component-base compatibility/registry.go Set.
        """
        turned: dict[str, bool] = {}
        prefixes: set[str] = set()
        for pair in pairs:
            component, colon, rest = pair.partition(":")
            prefixes.add(component if colon else "")
            if colon and component != _COMPONENT:
                raise CommandError(f"component not registered: {component}")
            name, equals, word = (part.strip() for part in (rest if colon else pair).partition("="))
            if not equals:
                raise CommandError(f"missing bool value for {name}")
            try:
                turned[name] = parse_bool(word)
            except ValueError as error:
                raise CommandError(f"invalid value of {name}={word}, err: {error}") from None
        if len(prefixes) > 1:
            raise CommandError(
                "set kube feature gates with default empty prefix or kube: prefix consistently, "
                "do not mix use"
            )
        return cls(turned)

    def enabled(self, name: str) -> bool:
        """Return whether a feature is on."""
        return self._on[name]

    def states(self) -> list[tuple[str, str, bool]]:
        """Return name, stage and state of each feature."""
        return [(name, GATES[name].stage, on) for name, on in sorted(self._on.items())]


def describe_gates() -> list[str]:
    """Return a line on each gate that can be set."""
    return [
        f"{_COMPONENT}:{name}=true|false ({gate.stage} - default={_format_bool(gate.default)})"
        for name, gate in sorted(GATES.items())
        if not gate.locked
    ]


def _format_bool(on: bool) -> str:
    return "true" if on else "false"
