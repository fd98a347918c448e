"""Sections of the reference in docs/ for waits and verbs, from their signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_kwait import ExecResult, Kwait, PortForward, RunResult
from pytest_kwait.framework.registry import WAITS
from pytest_kwait.suite.helm.records import HelmHook, HelmRelease
from pytest_kwait.suite.kubectl import KubectlResult
from tools.wait_methods import method_parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_kwait.framework.registry import Wait

WIDTH = 120
WAIT_PAGES = {
    "pods": ("framework.pod", "framework.log"),
    "jobs": ("framework.job",),
    "workloads": (
        "framework.deployment",
        "framework.statefulset",
        "framework.daemonset",
        "framework.replicaset",
        "framework.rc",
        "framework.operations",
    ),
    "nodes": ("framework.node",),
    "services": ("framework.service", "framework.endpoints"),
    "storage": ("framework.storage",),
    "cluster": ("framework.cluster", "framework.events", "cache.sync"),
    "any-object": ("framework.objects",),
}
"""Modules of the waits of each page."""

VERBS = {
    "Create and delete": (
        "apply",
        "create",
        "create_and_wait",
        "create_namespace",
        "delete",
        "delete_and_wait",
    ),
    "Read": ("get", "list", "normalized", "events", "logs"),
    "Change": (
        "patch",
        "update",
        "label",
        "annotate",
        "scale",
        "restart",
        "rolling_update",
        "rollout_undo",
        "resize",
    ),
    "Nodes and evictions": ("cordon", "uncordon", "taint", "drain", "evict"),
    "Run and reach": (
        "run",
        "exec",
        "copy_to",
        "copy_from",
        "debug",
        "port_forward",
        "url",
        "kubectl",
    ),
    "Other users": ("as_user", "as_service_account", "kubeconfig_for"),
    "Charts": (
        "helm_install",
        "helm_upgrade",
        "helm_rollback",
        "helm_uninstall",
        "helm_template",
    ),
    "Parts of a test": ("step",),
}
"""Methods of `Kwait` that are no waits, by the sections of their page."""

RESULTS = (ExecResult, RunResult, KubectlResult, PortForward, HelmRelease, HelmHook)
"""Types of what verbs return, beside dicts."""

_ALIASES = {
    "builtins.list": "list",
    "Objects": "list[dict[str, Any]]",
    "Values": "str | Path | Mapping[str, Any] | list",
    "AbstractContextManager[str]": "context manager",
    "type[_Model]": "type[Model]",
    "Models[_Model]": "list[dict[str, Any]] | list[Model]",
    "_Model": "dict[str, Any] | Model",
}
"""Types as a reader knows them; those of models are dicts by default."""


@dataclass
class _Docstring:
    """A docstring in parts: paragraphs, and the described names of its sections."""

    paragraphs: list[str] = field(default_factory=list)
    sections: dict[str, list[str]] = field(default_factory=dict)
    source: str = ""

    @property
    def arguments(self) -> list[tuple[str, str]]:
        """The described arguments."""
        return _described(self.sections.get("Args", ()))


def waits_of(page: str) -> list[Wait]:
    """Return the waits of a page, in the order of their modules."""
    modules = WAIT_PAGES[page]
    found = []
    for module in modules:
        start = f"pytest_kwait.{module}"
        found += [
            w for w in WAITS.values() if w.module == start or w.module.startswith(f"{start}.")
        ]
    return found


def wait_section(wait: Wait) -> str:
    """Return the section of a wait."""
    text = _read_docstring(wait.function)
    parameters, result = method_parameters(wait)
    names = {each.name for each in parameters}
    first = f"Waits for {wait.summary}. Its default limit is `{wait.timeout}`."
    return _section(
        f"kwait.{wait.name}",
        f"### `{wait.name}`",
        parameters,
        result,
        [first, *text.paragraphs],
        [each for each in text.arguments if each[0].lstrip("*") in names - {"options"}],
        text,
    )


def verb_section(name: str) -> str:
    """Return the section of a verb."""
    function = inspect.unwrap(getattr(Kwait, name))
    signature = inspect.signature(function)
    text = _read_docstring(function)
    return _section(
        f"kwait.{name}",
        f"### `{name}`",
        list(signature.parameters.values())[1:],
        str(signature.return_annotation),
        text.paragraphs,
        text.arguments,
        text,
    )


def result_section(kind: type) -> str:
    """Return the section of a type of results: its attributes."""
    text = _read_docstring(kind)
    described = (
        dict(_described(text.sections.get("Args", ())))
        if hasattr(kind, "__dataclass_fields__")
        else {}
    )
    for name, value in vars(kind).items():
        if isinstance(value, property) and not name.startswith("_"):
            described[name] = _first_line(value.fget)
        elif inspect.isfunction(value) and not name.startswith("_"):
            described[f"{name}()"] = _first_line(value)
    parts = [f"### `{kind.__name__}`", *map(_fill, text.paragraphs), _bullets(described.items())]
    return "\n\n".join(parts)


def _first_line(function: Any) -> str:
    return " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())


def _section(
    call: str,
    heading: str,
    parameters: Sequence[inspect.Parameter],
    result: str,
    paragraphs: Iterable[str],
    arguments: Sequence[tuple[str, str]],
    text: _Docstring,
) -> str:
    returns = text.sections.get("Returns")
    raised = _described(text.sections.get("Raises", ()))
    parts = [
        heading,
        f"```\n{_signature(call, parameters, result)}\n```",
        *(each if "\n" in each else _fill(each) for each in paragraphs),
        _bullets(arguments),
        _fill(f"Returns: {' '.join(returns)}") if returns else "",
        f"Raises:\n\n{_bullets(raised)}" if raised else "",
        _fill(f"Source: {text.source}") if text.source else "",
    ]
    return "\n\n".join(filter(None, parts))


def _signature(call: str, parameters: Sequence[inspect.Parameter], result: str) -> str:
    shown = []
    keyword = False
    for each in parameters:
        if each.kind is each.KEYWORD_ONLY and not keyword:
            keyword = True
            if not any(other.kind is other.VAR_POSITIONAL for other in parameters):
                shown.append("*")
        shown.append(_parameter(each))
    line = f"{call}({', '.join(shown)}) -> {_type(result)}"
    if len(line) <= 88:
        return line
    inner = "".join(f"    {each},\n" for each in shown)
    return f"{call}(\n{inner}) -> {_type(result)}"


def _parameter(parameter: inspect.Parameter) -> str:
    if parameter.kind is parameter.VAR_KEYWORD and "Unpack" in str(parameter.annotation):
        return f"**{parameter.name}"
    shown = parameter.replace(annotation=inspect.Parameter.empty)
    if parameter.default is inspect.Parameter.empty:
        return f"{shown}: {_type(str(parameter.annotation))}"
    value = repr(parameter.default).replace("'", '"')
    return f"{parameter.name}: {_type(str(parameter.annotation))} = {value}"


def _type(annotation: str) -> str:
    for name, shown in _ALIASES.items():
        annotation = re.sub(rf"(?<![\w.]){re.escape(name)}(?!\w)", shown, annotation)
    return annotation.replace("'", '"')


def _read_docstring(documented: Any) -> _Docstring:
    """Return the parts of a docstring in Google's style."""
    found = _Docstring()
    for block in (inspect.getdoc(documented) or "").split("\n\n"):
        head, _, rest = block.partition("\n")
        if head in ("Args:", "Returns:", "Raises:", "Yields:"):
            found.sections[head[:-1]] = textwrap.dedent(rest).splitlines()
        elif block.startswith("Source: "):
            found.source = " ".join(block.removeprefix("Source: ").split())
        elif re.search(r"^[-*] ", block, re.M):
            found.paragraphs.append(f"{block}\n")
        else:
            found.paragraphs.append(" ".join(block.split()))
    return found


def _described(lines: Iterable[str]) -> list[tuple[str, str]]:
    """Return names with their descriptions."""
    entries: list[str] = []
    for line in lines:
        if line.startswith(" ") and entries:
            entries[-1] += f" {line.strip()}"
        else:
            entries.append(line)
    return [(name, text) for name, _, text in (each.partition(": ") for each in entries)]


def _bullets(described: Iterable[tuple[str, str]]) -> str:
    return "\n".join(_fill(f"- `{name}`: {text}", "  ") for name, text in described)


def _fill(text: str, indent: str = "") -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
