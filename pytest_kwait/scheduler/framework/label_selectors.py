"""Label selectors of the API, parsed once and matched often."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pytest_kwait.scheduler.framework.invalid_objects import (
    InvalidObject,
    get_mapping,
    get_mappings,
    get_string,
    get_strings,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["LabelSelector", "Requirement"]

# (key, operator, values)
Requirement = tuple[str, str, frozenset[str]]

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


class LabelSelector:
    """Requirements on labels that must all hold; none selects everything.

    Args:
        requirements: what must hold.
        nothing: whether it selects nothing whatever the requirements; what no selector at all is.

    Source: apimachinery, meta/v1/helpers.go, `LabelSelectorAsSelector`; labels/selector.go.
    """

    __slots__ = ("_exact", "_key", "nothing", "requirements")

    def __init__(self, requirements: Sequence[Requirement] = (), *, nothing: bool = False) -> None:
        self.requirements = tuple(requirements)
        self.nothing = nothing
        self._key = ""
        # By far the most selectors ask for labels with one value each.
        self._exact: tuple[tuple[str, str], ...] | None = None
        if all(operator == "In" and len(values) == 1 for _, operator, values in requirements):
            self._exact = tuple((key, next(iter(values))) for key, _, values in requirements)

    @classmethod
    def of(cls, selector: Mapping[str, Any] | None, path: str = "labelSelector") -> LabelSelector:
        """Return what the API's `selector` means; None selects nothing.

        Raises:
            InvalidObject: it cannot be read.
        """
        if selector is None:
            return cls(nothing=True)
        labels = get_mapping(selector, "matchLabels", path)
        requirements: list[Requirement] = []
        for key in labels:
            wanted = get_string(labels, key, f"{path}.matchLabels")
            requirements.append((key, "In", frozenset((wanted,))))
        for index, one in enumerate(get_mappings(selector, "matchExpressions", path)):
            where = f"{path}.matchExpressions[{index}]"
            operator = one.get("operator")
            if operator not in _OPERATORS:
                valid = f"known are {', '.join(_OPERATORS)}"
                raise InvalidObject(f"{where}.operator", operator, valid)
            key = get_string(one, "key", where, required=True)
            requirements.append((key, operator, frozenset(get_strings(one, "values", where))))
        return cls(requirements)

    @property
    def everything(self) -> bool:
        """Whether it selects everything."""
        return not self.nothing and not self.requirements

    @property
    def key(self) -> str:
        """A text that selectors with the same requirements share."""
        if not self._key:
            told = sorted((key, how, sorted(values)) for key, how, values in self.requirements)
            self._key = "nothing" if self.nothing else repr(told)
        return self._key

    def narrowed(self, requirements: Sequence[Requirement]) -> LabelSelector:
        """Return a selector that asks for `requirements` too; nothing stays nothing."""
        if self.nothing or not requirements:
            return self
        return LabelSelector((*self.requirements, *requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected."""
        if self.nothing:
            return False
        if self._exact is not None:
            return _holds(labels, self._exact)
        for key, operator, values in self.requirements:
            actual = labels.get(key)
            if operator == "In":
                if actual not in values:
                    return False
            elif operator == "NotIn":
                if actual in values:
                    return False
            elif (actual is None) is (operator == "Exists"):
                return False
        return True


def _holds(labels: Mapping[str, str], wanted: tuple[tuple[str, str], ...]) -> bool:
    if len(wanted) == 1:
        key, value = wanted[0]
        return labels.get(key) == value
    return all(labels.get(key) == value for key, value in wanted)
