"""Render the typed forms of the declared waits: methods of `Kwait`, and types of fixtures.

Signatures and docstrings are those of the wait functions, without client; the namespace is a
keyword, and so is `as_model` where objects are returned. Async methods and types of fixtures take
their signatures from the methods.

`**options` stays an unpacked `WaitOptions`: type checkers complete and check its keys by name,
with their docstrings, and a signature stays short enough to read in an editor.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import json
import re
import textwrap
import typing
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kwait.framework.registry import WAITS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pytest_kwait.framework.registry import Wait

WIDTH = 100
EMPTY = inspect.Parameter.empty
_OBJECTS_MODULE = "pytest_kwait.framework.named_objects"
_METHODS_HEAD = '''"""The waits as methods of `Kwait`, written by `python -m tools.waits`."""

from __future__ import annotations

from typing import {typing}

from pytest_kwait.suite.aio import AsyncMethods, awaitable
from pytest_kwait.suite.bound_wait import call_waits

if TYPE_CHECKING:
{imports}

@call_waits
class WaitMethods:
    """The waits on a test's cluster, in its namespace and with its settings.

    All take `namespace`, for another one than the test's own, and the options in `WaitOptions`.
    Those that return objects take `as_model`, a model of the official client such as `V1Pod`.
    All raise `WaitTimeout`, `WaitFailed`, `ApiError` and `InvalidArgument`.
    """
'''
_ASYNC_HEAD = '''

class AsyncWaitMethods(AsyncMethods):
    """The waits of `WaitMethods`, to be awaited."""

'''
_TYPES_HEAD = '''"""The types of wait fixtures, written by `python -m tools.waits`.

The method of `Kwait` has the signature of the fixture, and satisfies its type too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol

from pytest_kwait.suite.wait_methods import WaitMethods

if TYPE_CHECKING:
    from collections.abc import Callable

    import typing_extensions

    # The default is that of `_Model`: mypy gives a generic result the default of this variable.
    _Result = typing_extensions.TypeVar("_Result", default=dict[str, Any])

_Arguments = ParamSpec("_Arguments")


def _like(
    method: Callable[Concatenate[Any, _Arguments], _Result],
) -> Callable[Concatenate[Any, _Arguments], _Result]:
    """Return a method, typed for another class than its own."""
    return method
'''
_TYPING_EXTENSIONS = "    import typing_extensions\n"
_MODEL = """\
    # Without `as_model`, objects are dicts.
    _Model = typing_extensions.TypeVar("_Model", default=dict[str, Any])
"""


def render_methods() -> str:
    """Return the text of `wait_methods`."""
    imports = _Imports()
    methods = "".join(f"\n{_render_wait(wait, imports)}" for wait in WAITS.values())
    head = _METHODS_HEAD.format(typing=imports.render_typing(), imports=imports.render())
    awaited = "".join(
        _wrap(f"    {wait} = awaitable(", [f"WaitMethods.{wait}"], ")") for wait in WAITS
    )
    return head + methods + _ASYNC_HEAD + awaited


def render_types() -> str:
    """Return the text of `pytest_kwait.typing`."""
    return _TYPES_HEAD + "".join(
        f"\n\nclass {protocol_name(wait)}(Protocol):\n"
        + _wrap("    __call__ = _like(", [f"WaitMethods.{wait}"], ")")
        for wait in WAITS
    )


def protocol_name(name: str) -> str:
    """Return the name of the protocol of a wait: `WaitForJobReady` of `wait_for_job_ready`."""
    return name.title().replace("_", "")


def method_parameters(wait: Wait) -> tuple[list[inspect.Parameter], str]:
    """Return the parameters of a wait's method without `self`, and the type of its result."""
    method = _method_of(wait)
    options = [each for each in method.keywords if each.kind is each.VAR_KEYWORD]
    keywords = [each for each in method.keywords if each.kind is not each.VAR_KEYWORD]
    return [*method.positional, *keywords, *options], method.result


@dataclass(frozen=True)
class _Method:
    """A signature without `self`.

    Args:
        positional: parameters that may be given by position.
        keywords: parameters that must be given by name.
        result: the annotation of the result.
        module: the module that the annotations are from.
        remark: a comment that the first line keeps.
    """

    positional: list[inspect.Parameter]
    keywords: list[inspect.Parameter]
    result: str
    module: str
    remark: str = ""

    def parameters(self) -> list[str]:
        """Return the parameters as text."""
        variadic = [each for each in self.positional if each.kind is each.VAR_POSITIONAL]
        named = [each for each in self.keywords if each.kind is each.KEYWORD_ONLY]
        star = ["*"] if named and not variadic else []
        return [
            "self",
            *map(_render_parameter, self.positional),
            *star,
            *map(_render_parameter, self.keywords),
        ]

    def annotations(self) -> list[str]:
        """Return all annotations."""
        return [
            *(str(each.annotation) for each in (*self.positional, *self.keywords)),
            self.result,
        ]


_OBJECT = "dict[str, Any]"
_MODELS = {
    _OBJECT: "_Model",
    f"{_OBJECT} | None": "_Model | None",
    f"list[{_OBJECT}]": "list[_Model]",
    "list[Any]": "list[_Model]",
}
"""What a wait returns with `as_model`, by what it returns without."""


def _with_model(
    method: _Method, result: str, annotation: str = "type[_Model] | None", default: Any = None
) -> _Method:
    """Return a method that takes `as_model`, the last argument before the options."""
    parameter = inspect.Parameter(
        "as_model", inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default
    )
    keywords = [*method.keywords[:-1], parameter, *method.keywords[-1:]]
    return replace(method, keywords=keywords, result=result)


def _method_of(wait: Wait, overload: Callable[..., Any] | None = None) -> _Method:
    signature = inspect.signature(overload or wait.function)
    given = [
        each for each in signature.parameters.values() if each.name not in ("client", "namespace")
    ]
    *others, options = given if wait.bound else (*given, None)
    typed = [
        _accept_objects(each, wait, widen=overload is None) for each in others if each is not None
    ]
    keywords = [each for each in typed if each.kind is each.KEYWORD_ONLY]
    if wait.namespaced:
        keywords.append(
            inspect.Parameter(
                "namespace", inspect.Parameter.KEYWORD_ONLY, default=None, annotation="str | None"
            )
        )
    return _Method(
        [each for each in typed if each.kind is not each.KEYWORD_ONLY],
        keywords if options is None else [*keywords, options],
        str(signature.return_annotation),
        wait.module,
    )


def _accept_objects(parameter: inspect.Parameter, wait: Wait, *, widen: bool) -> inspect.Parameter:
    """Return the parameter with the types that are taken instead of a name.

    Args:
        parameter: the parameter.
        wait: its wait.
        widen: whether `kind/name` is widened too; overloads name their types.
    """
    text = str(parameter.annotation).replace("'", '"')
    if parameter.kind is parameter.VAR_POSITIONAL:
        # Names of resources stand for the test's informers.
        text = f"{text} | str"
    elif text in ("str", "str | None") and (
        wait.kinds.get(parameter.name) or (widen and parameter.name in wait.kinds)
    ):
        text = text.replace("str", "str | KubernetesObject", 1)
    return parameter.replace(annotation=text)


def _render_wait(wait: Wait, imports: _Imports) -> str:
    method, overloads = _forms_of(wait)
    start = f"    def {wait.name}("
    written = "".join(
        _render_signature(start, overload, imports, "@overload", " ...") + "\n"
        for overload in overloads
    )
    return (
        written
        + _render_signature(start, method, imports)
        + _render_docstring(_wait_docstring(wait, method))
    )


def _forms_of(wait: Wait) -> tuple[_Method, list[_Method]]:
    """Return the signature of a wait, and its own overloads, all with `as_model`."""
    method = _method_of(wait)
    own = _overloads_of(wait)
    if not wait.has_model or not any(each.result in _MODELS for each in own or [method]):
        return method, own
    if not own:
        return _with_model(method, _MODELS[method.result]), []
    overloads = []
    for each in own:
        if each.result in _MODELS:
            # Two, because pyright loses the default of `_Model` in the async form of overloads.
            overloads.append(_with_model(each, each.result, "None"))
            # Remarks are about the dicts.
            plain = replace(each, remark="")
            overloads.append(_with_model(plain, _MODELS[each.result], "type[_Model]", EMPTY))
        else:
            overloads.append(each)
    models = dict.fromkeys(part for each in overloads for part in each.result.split(" | "))
    result = "Any" if method.result == "Any" else " | ".join(sorted(models, key=_result_order))
    return _with_model(method, result), overloads


def _result_order(part: str) -> tuple[bool, bool]:
    return part == "None", "_Model" in part


def _overloads_of(wait: Wait) -> list[_Method]:
    function = wait.function
    source = inspect.getsource(import_module(wait.module))
    remarks = re.findall(rf"@overload\ndef {wait.name}\((.*)\n", source)
    overloads = typing.get_overloads(function)
    assert len(remarks) == len(overloads)
    return [
        replace(_method_of(wait, overload), remark=remark)
        for overload, remark in zip(overloads, remarks, strict=True)
    ]


def _render_signature(
    start: str, method: _Method, imports: _Imports, decorator: str = "", body: str = ""
) -> str:
    imports.add(method)
    if decorator:
        imports.typing.add(decorator.removeprefix("@"))
    first = f"    {decorator}\n" if decorator else ""
    ending = f") -> {method.result}:{body}"
    return first + _wrap(start, method.parameters(), ending, method.remark)


def _render_parameter(parameter: inspect.Parameter) -> str:
    stars: dict[object, str] = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    star = stars.get(parameter.kind, "")
    default = "" if parameter.default is EMPTY else f" = {_render_value(parameter.default)}"
    return f"{star}{parameter.name}: {parameter.annotation}{default}"


def _render_value(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, tuple):
        inner = ", ".join(map(_render_value, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)


def _wrap(start: str, parts: list[str], end: str, remark: str = "") -> str:
    """Return a call or signature as ruff formats it; a remark stands on its first line."""
    indent = " " * (len(start) - len(start.lstrip()))
    line = f"{start}{', '.join(parts)}{end}"
    if len(line) <= WIDTH and not remark:
        return f"{line}\n"
    line = f"{indent}    {', '.join(parts)}"
    first = f"{start}{remark}\n"
    if len(line) <= WIDTH:
        return f"{first}{line}\n{indent}{end}\n"
    lines = "".join(f"{indent}    {part},\n" for part in parts)
    return f"{first}{lines}{indent}{end}\n"


def _wait_docstring(wait: Wait, method: _Method) -> str:
    text = inspect.getdoc(wait.function) or ""
    paragraph = " ".join(text.partition("\n\n")[0].split())
    lines = [f"Wait for {wait.summary}.", "", *_fill(paragraph)]
    names = {each.name for each in (*method.positional, *method.keywords)} - {"options"}
    described = [
        (name, words) for name, words in _read_arguments(text) if name.lstrip("*") in names
    ]
    if described:
        lines += ["", "Args:"]
        for name, words in described:
            lines += textwrap.indent("\n".join(_fill(f"{name}: {words}", 4)), "    ").splitlines()
    return "\n".join(lines)


def _render_docstring(text: str) -> str:
    body = textwrap.indent(text, "        ").lstrip()
    closing = '\n        """' if "\n" in text else '"""'
    return f'        """{body}{closing}\n'


def _fill(text: str, indent: int = 0) -> list[str]:
    return textwrap.wrap(
        text,
        WIDTH - 8 - indent,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _read_arguments(docstring: str) -> Iterator[tuple[str, str]]:
    """Yield the described arguments of a docstring."""
    section = re.search(r"^Args:\n((?:    .*\n?)+)", docstring, re.MULTILINE)
    for each in re.findall(r"^    (\S.*(?:\n     +.*)*)", section[1] if section else "", re.M):
        name, _, words = " ".join(each.split()).partition(": ")
        yield name, words


class _Imports:
    """The imports for the annotations of the waits."""

    def __init__(self) -> None:
        self.typing = {"TYPE_CHECKING", "Any"}
        self._homes: dict[str, set[str]] = {}

    def add(self, method: _Method) -> None:
        """Add the imports that the annotations of a method need."""
        for text in method.annotations():
            for node in ast.walk(ast.parse(text, mode="eval")):
                if isinstance(node, ast.Name) and node.id not in {*vars(builtins), "_Model"}:
                    self._add(node.id, method.module)

    def _add(self, name: str, module: str) -> None:
        home = _OBJECTS_MODULE if name == "KubernetesObject" else _homes_of(module)[name]
        # One name of two modules would need another name here.
        assert all(name not in names for each, names in self._homes.items() if each != home)
        if home == "typing":
            self.typing.add(name)
        else:
            self._homes.setdefault(home, set()).add(name)

    def render_typing(self) -> str:
        """Return the names from `typing`, as ruff sorts them."""
        names = sorted(self.typing, key=lambda name: (name[0].islower(), not name.isupper(), name))
        return ", ".join(names)

    def render(self) -> str:
        """Return the imports for type checkers."""
        groups: dict[bool, list[str]] = {}
        for home in sorted(self._homes):
            names = sorted(self._homes[home])
            line = f"    from {home} import {', '.join(names)}\n"
            if len(line) > WIDTH + 1:
                listed = "".join(f"        {name},\n" for name in names)
                line = f"    from {home} import (\n{listed}    )\n"
            groups.setdefault(home.startswith("pytest_kwait"), []).append(line)
        ours, others = "".join(groups[True]), "".join(groups[False])
        return f"{others}\n{_TYPING_EXTENSIONS}\n{ours}\n{_MODEL}"


@cache
def _homes_of(module: str) -> dict[str, str]:
    """Return the modules of the names in the annotations of a module."""
    homes: dict[str, str] = {}
    for node in ast.walk(ast.parse(Path(str(import_module(module).__file__)).read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                homes.setdefault(alias.asname or alias.name, node.module)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            homes.setdefault(node.target.id, module)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            homes.setdefault(node.targets[0].id, module)
        elif isinstance(node, ast.ClassDef):
            homes.setdefault(node.name, module)
    return homes
