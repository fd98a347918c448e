"""Parsers of the values of settings.

Each parser takes the value, the name of the setting and its source; every error names all
three and what is valid. Text comes from options, the environment and ini files, values of TOML
and Python from `pyproject.toml` and markers. `PodSecurityLevel` is the level that PodSecurity
admission enforces in the namespaces of a run.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_kwait.errors import InvalidArgument

if TYPE_CHECKING:
    from pytest_kwait.clusters.node_table import RequestedNodes
    from pytest_kwait.simulator.protocol.egress import EgressTarget
    from pytest_kwait.simulator.protocol.image_mapping import ImageMapping
    from pytest_kwait.suite.config.clusters import FurtherCluster

Reader = Callable[[Any, str, str | None], Any]

_LONGEST_HEARTBEAT = 24 * 3600.0
"""Seconds; the janitor removes the objects of a dead run after four intervals."""

LEVELS = ("privileged", "baseline", "restricted")

_ENFORCE = "pod-security.kubernetes.io/enforce"
_KUBERNETES_VERSION = re.compile(r"latest|v1\.(0|[1-9][0-9]{0,3})")
# Compiled on use: most runs parse no label.
_DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_QUALIFIED = r"([a-z0-9][-a-z0-9.]*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"


class PodSecurityLevel(NamedTuple):
    """A level of the Pod Security Standards, as PodSecurity admission enforces it.

    Args:
        level: one of `LEVELS`.
        version: a Kubernetes release, `latest` or `v1.30`; empty for the server's default.
    """

    level: str
    version: str = ""

    @property
    def labels(self) -> dict[str, str]:
        """The labels of a namespace that enforces it.

        Source: pod-security-admission/api/constants.go.
        """
        labels = {_ENFORCE: self.level}
        if self.version:
            labels[f"{_ENFORCE}-version"] = self.version
        return labels


def parse_pod_security(value: Any, what: str, source: str | None = None) -> PodSecurityLevel:
    """Parse `LEVEL` or `LEVEL:VERSION`."""
    if isinstance(value, PodSecurityLevel):
        return value
    level, colon, version = value.partition(":") if isinstance(value, str) else ("", "", "")
    if level not in LEVELS or (colon and not _KUBERNETES_VERSION.fullmatch(version)):
        valid = (
            f"use {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, and :VERSION behind it for the "
            "standard of one release, for example restricted:v1.30 or restricted:latest"
        )
        raise InvalidArgument(what, value, valid, source)
    return PodSecurityLevel(level, version)


def suggest_name(name: str, known: Sequence[str], *, prefix: str = "") -> str:
    """Return `did you mean poll? ` if a known name is similar, else an empty text.

    The common `prefix` of all names does not count as similarity.
    """
    from difflib import get_close_matches

    endings = [known_name.removeprefix(prefix) for known_name in known]
    near = get_close_matches(name.removeprefix(prefix), endings, n=3, cutoff=0.6)
    return f"did you mean {' or '.join(prefix + ending for ending in near)}? " if near else ""


def read_duration(value: Any, what: str, source: str | None) -> float:
    """Parse a duration of zero or more; return seconds."""
    # Imported on use: most runs set no duration, and loading the plugin must be cheap.
    from pytest_kwait.apimachinery.times import to_seconds

    return to_seconds(value, what=what, source=source)


def read_positive_duration(value: Any, what: str, source: str | None) -> float:
    """Parse a duration above zero; return seconds."""
    from pytest_kwait.apimachinery.times import to_seconds

    return to_seconds(value, what=what, source=source, allow_zero=False)


def read_heartbeat(value: Any, what: str, source: str | None) -> float:
    """Parse a duration above zero, at most a day; return seconds."""
    from pytest_kwait.apimachinery.times import to_seconds

    return to_seconds(value, what=what, source=source, allow_zero=False, at_most=_LONGEST_HEARTBEAT)


def read_choice(*valid: str) -> Reader:
    """Return a parser of one of `valid`."""

    def read(value: Any, what: str, source: str | None) -> str:
        if value not in valid:
            near = suggest_name(value, valid) if isinstance(value, str) else ""
            raise InvalidArgument(what, value, f"{near}use {_join_alternatives(valid)}", source)
        return str(value)

    return read


def read_bool(value: Any, what: str, source: str | None) -> bool:
    """Parse a bool, or `true` and `false` in any case."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in {"true", "false"}:
        return value.lower() == "true"
    raise InvalidArgument(what, value, "use true or false", source)


def read_patterns(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse names with `*` for any part: a list, or a text with commas between them."""
    names = _split_texts(value)
    if not names or not all(names):
        valid = "use names with commas between them and * for any part, for example kind-*,staging"
        raise InvalidArgument(what, value, valid, source)
    return tuple(names)


def read_taints(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse keys of taints: a list, or a text with commas between them; an empty one has none."""
    keys = [] if _is_blank(value) else _split_texts(value)
    if keys is not None and all(re.fullmatch(_QUALIFIED, key) for key in keys):
        return tuple(keys)
    raise InvalidArgument(
        what,
        value,
        "use keys of taints with commas between them, for example "
        "node-role.kubernetes.io/control-plane,dedicated",
        source,
    )


def read_limit(value: Any, what: str, source: str | None) -> int:
    """Parse a whole number, 0 or more, or -1 for no limit."""
    if re.fullmatch(r"-1|\d{1,9}", str(value).strip(), re.ASCII):
        return int(value)
    raise InvalidArgument(what, value, "use a whole number, 0 or more, or -1", source)


def read_scale(value: Any, what: str, source: str | None) -> float:
    """Parse a finite number above zero."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and number > 0):
        raise InvalidArgument(what, value, "use a number above zero, for example 2 or 0.5", source)
    return number


def read_positive_int(value: Any, what: str, source: str | None) -> int:
    """Parse a whole number above zero."""
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch("[1-9][0-9]{0,8}", text):
        raise InvalidArgument(what, value, "use a whole number above zero", source)
    return int(text)


def read_dns_label(value: Any, what: str, source: str | None) -> str:
    """Parse an RFC 1123 label."""
    if not isinstance(value, str) or not re.fullmatch(_DNS_LABEL, value):
        raise InvalidArgument(
            what,
            value,
            "use up to 63 lower-case letters, digits and '-', with a letter or digit at both ends",
            source,
        )
    return value


def read_path(value: Any, what: str, source: str | None) -> Path:
    """Parse a path; its existence is checked where it is used."""
    if not isinstance(value, (str, Path)) or not str(value):
        raise InvalidArgument(what, value, "use the path of a file", source)
    return expand_home(value, what, source)


def expand_home(path: str | Path, what: str, source: str | None) -> Path:
    """Return a path with `~` and `~user` at its start expanded.

    Raises:
        InvalidArgument: there is no such user.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError:
        raise InvalidArgument(what, str(path), "there is no such user", source) from None


def read_reports(value: Any, what: str, source: str | None) -> tuple[Path, ...]:
    """Parse paths of reports with a supported ending."""
    paths = []
    for name in value if isinstance(value, (list, tuple)) else [value]:
        if not isinstance(name, str) or Path(name).suffix.lower() not in (".html", ".json", ".md"):
            valid = "use the path of a file that ends with .html, .json or .md"
            raise InvalidArgument(what, name, valid, source)
        paths.append(Path(name))
    return tuple(dict.fromkeys(paths))


def read_images(value: Any, what: str, source: str | None) -> tuple[ImageMapping, ...]:
    """Parse image mappings.

    Args:
        value: a list of `PATTERN=COMMAND`, a text with one per line, or a mapping of patterns to
            commands.
        what: the name of the setting.
        source: where the value comes from.
    """
    from pytest_kwait.simulator.protocol.image_mapping import parse_image_mapping

    if isinstance(value, Mapping):
        # A command that is no text is refused with its pattern.
        texts: Sequence[Any] = [
            f"{pattern}={command}" if isinstance(command, str) else {pattern: command}
            for pattern, command in value.items()
        ]
    elif isinstance(value, str):
        texts = value.splitlines()
    else:
        texts = value if isinstance(value, (list, tuple)) else [value]
    mappings = [parse_image_mapping(text, source) for text in texts if not _is_blank(text)]
    if not mappings and isinstance(value, str):
        parse_image_mapping(value, source)  # a blank text is refused
    return tuple(mappings)


def read_clusters(value: Any, what: str, source: str | None) -> tuple[FurtherCluster, ...]:
    """Parse further clusters: `NAME = PROVIDER [OPTIONS]` each, or a mapping by their names."""
    from pytest_kwait.suite.config.clusters import parse_clusters

    clusters = parse_clusters(value, source)
    for cluster in clusters:
        read_dns_label(cluster.name, what, source)
    return clusters


def read_nodes(value: Any, what: str, source: str | None) -> RequestedNodes:
    """Parse nodes: a number, the path of a file, or entries of a table."""
    from pytest_kwait.clusters.node_table import read_requested_nodes

    return read_requested_nodes(value, what, source)


def read_egress(value: Any, what: str, source: str | None) -> tuple[EgressTarget, ...]:
    """Parse targets of egress, `HOST:PORT` each: a list, or a text with one per line."""
    from pytest_kwait.simulator.protocol.egress import read_egress_list

    if not isinstance(value, str):
        texts = value if isinstance(value, (list, tuple)) else [value]
        return tuple(read_egress_list(texts, source))
    # A blank text is refused.
    lines = [line for line in value.splitlines() if not _is_blank(line)]
    return tuple(read_egress_list(lines or [value], source))


def _split_texts(value: object) -> list[str] | None:
    """Return the parts between commas, of a text or of each text in a list; else None."""
    texts: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(text, str) for text in texts):
        return None
    return [part.strip() for text in texts for part in text.split(",")]


def _is_blank(value: object) -> bool:
    return isinstance(value, str) and not value.strip()


def read_words(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse arguments of a command: a list, or a text that is split as a shell does."""
    if isinstance(value, (list, tuple)) and all(isinstance(word, str) for word in value):
        return tuple(value)
    import shlex

    try:
        words = tuple(shlex.split(value)) if isinstance(value, str) else ()
    except ValueError:
        words = ()  # a quote is not closed
    if not words:
        raise InvalidArgument(what, value, "use arguments as in a shell, quotes closed", source)
    return words


def read_names(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse names: a list, or a text with commas between them."""
    names = []
    for text in value if isinstance(value, (list, tuple)) else [value]:
        for name in text.split(",") if isinstance(text, str) else [""]:
            if len(name.split()) != 1:
                raise InvalidArgument(what, text, "use names with commas between them", source)
            names.append(name.strip())
    return tuple(dict.fromkeys(names))


def read_text(value: Any, what: str, source: str | None) -> str:
    """Parse a text that is not empty."""
    if not isinstance(value, str) or not value.strip():
        raise InvalidArgument(what, value, "use a text that is not empty", source)
    return value.strip()


def read_shard(value: Any, what: str, source: str | None) -> Any:
    """Parse a shard."""
    from pytest_kwait.suite.shards.split import parse_shard

    return parse_shard(value, what, source)


def read_effort(value: Any, what: str, source: str | None) -> Any:
    """Parse how much is explored."""
    from pytest_kwait.suite.explore.plan import parse_effort

    return parse_effort(value, what, source)


def read_seed(value: Any, what: str, source: str | None) -> int:
    """Parse the seed of an exploration."""
    from pytest_kwait.suite.explore.plan import parse_seed

    return parse_seed(value, what, source)


def read_perturbations(value: Any, what: str, source: str | None) -> tuple[str, ...]:
    """Parse the perturbations of an exploration."""
    from pytest_kwait.suite.explore.plan import parse_perturbations

    return parse_perturbations(value, what, source)


def read_pod_security(value: Any, what: str, source: str | None) -> Any:
    """Parse the level enforced in the run's namespaces."""
    return parse_pod_security(value, what, source)


def read_timeouts(value: Any, what: str, source: str | None) -> dict[str, float]:
    """Parse limits of the timeout table from a mapping or `NAME=DURATION,…` text."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(value, Mapping):
        pairs.extend(value.items())
    elif isinstance(value, str):
        for part in filter(None, (part.strip() for part in value.split(","))):
            name, equals, duration = part.partition("=")
            if not equals:
                raise InvalidArgument(what, part, "use NAME=DURATION, for example job=5m", source)
            pairs.append((name.strip(), duration.strip()))
    else:
        raise InvalidArgument(what, value, 'use a mapping, for example {"job": "5m"}', source)
    from pytest_kwait.engine.options import Timeouts

    table = Timeouts()
    return {
        table.entry(name, source=source).name: read_positive_duration(
            duration, f"{what} {name}", source
        )
        for name, duration in pairs
    }


def _join_alternatives(valid: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(valid[:-1]), valid[-1])))
