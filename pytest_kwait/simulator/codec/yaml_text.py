"""YAML as the server reads and writes it: no dates, and `y` and `n` are truths.

Source: sigs.k8s.io/yaml, goyaml.v2/resolve.go.
"""

from __future__ import annotations

import json
import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pytest_kwait.simulator.codec.json_text import check_depth, read_json

if TYPE_CHECKING:
    import yaml

__all__ = ["read_yaml", "write_yaml"]

_MAX_NODES = 400_000
_BOOLEAN = re.compile(r"^[yYnN]$")
_QUOTED_SCALAR = re.compile(r"^([yYnN]|[-+]?0o[0-7]+)$")
"""Texts that the library takes for texts and the server for something else."""
_TEXT = "tag:yaml.org,2002:str"


@cache
def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """A loader with tables of its own, which notes the keys that a map has twice."""

        def __init__(self, stream: bytes) -> None:
            super().__init__(stream)
            self.repeated: list[tuple[int, str]] = []

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            seen = set()
            for key, _ in node.value:
                if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                    self.repeated.append((key.start_mark.line + 1, key.value))
                seen.add(key.value)
            found: dict[Any, Any] = super().construct_mapping(node, deep)
            return found

    Loader.bool_values = {**yaml.SafeLoader.bool_values, "y": True, "n": False}
    Loader.yaml_implicit_resolvers = {
        sign: [rule for rule in rules if not rule[0].endswith((":timestamp", ":value"))]
        for sign, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    for sign in "yYnN":
        rules = Loader.yaml_implicit_resolvers.setdefault(sign, [])
        rules.append(("tag:yaml.org,2002:bool", _BOOLEAN))
    return Loader


def read_yaml(data: bytes) -> tuple[Any, list[str]]:
    """The value that `data` spells, as JSON has it, and which keys it gives more than once.

    Raises:
        ValueError: it is no YAML.
    """
    import yaml

    value = _try_json(data)
    if value is not None:
        return value, []
    try:
        loader: Any = _loader()(data)
        value = loader.get_single_data()
        _check_expansion(value)
        value = _json_values(value)
        check_depth(value)
    except RecursionError:
        raise ValueError("yaml: exceeded max depth") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"error converting YAML to JSON: {error}") from None
    repeated = sorted(loader.repeated)
    return value, [f'line {line}: key "{key}" already set in map' for line, key in repeated]


def _try_json(data: bytes) -> Any:
    """What JSON reads in `data` at once; None for what only YAML can read, or names as repeated."""
    if not data.lstrip().startswith(b"{"):
        return None
    repeated = False

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeated
        result = dict(items)
        repeated = repeated or len(result) != len(items)
        return result

    try:
        value = read_json(data)
        json.loads(data, object_pairs_hook=pairs)
    except ValueError:
        return None
    return None if repeated else value


def _check_expansion(value: Any) -> None:
    """Hold what aliases stand for to what a body could have spelled out.

    Raises:
        ValueError: it is more, or contains itself; the text is the server's.

    Source: goyaml.v2/decode.go, `allowedAliasRatio`.
    """
    sizes: dict[int, int] = {}
    todo: list[tuple[Any, bool]] = [(value, False)]
    while todo:
        one, again = todo.pop()
        items = list(one.values()) if isinstance(one, dict) else one
        if not isinstance(items, list):
            continue
        if again:
            size = 1 + sum(sizes.get(id(item), 1) for item in items)
            if size > _MAX_NODES:
                raise ValueError("yaml: document contains excessive aliasing")
            sizes[id(one)] = size
        elif id(one) not in sizes:
            sizes[id(one)] = _MAX_NODES + 1  # unless it turns out to be less: it is inside itself
            todo.append((one, True))
            todo += [(item, False) for item in items]


def _json_values(value: Any) -> Any:
    if isinstance(value, dict):
        return {_json_key(key): _json_values(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_json_values(item) for item in value]
    return value


def _json_key(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


def write_yaml(value: Any) -> bytes:
    """`value`, which is decoded JSON, as the server spells it."""
    import yaml

    return yaml.dump(value, Dumper=_dumper(), allow_unicode=True, sort_keys=True).encode()


@cache
def _dumper() -> type[yaml.SafeDumper]:
    import yaml

    class Dumper(yaml.SafeDumper):
        """A dumper that quotes texts as the server does."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    def _resolved(dumper: Any, value: str) -> Any:
        return dumper.resolve(yaml.ScalarNode, value, (True, False))

    def text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
        style = None
        if "\n" in value:
            style = "|"
        elif _QUOTED_SCALAR.match(value) or _resolved(dumper, value) != _TEXT:
            style = '"'
        return dumper.represent_scalar(_TEXT, value, style)

    Dumper.add_representer(str, text)
    Dumper.yaml_implicit_resolvers = {
        sign: rules
        for sign, rules in Dumper.yaml_implicit_resolvers.items()
        if sign not in ("=", "<")
    }
    return Dumper
