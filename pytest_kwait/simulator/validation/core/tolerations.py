"""Tolerations of taints, and what may become of them.

Source: pkg/apis/core/validation/validation.go, ValidateTolerations, validateOnlyAddedTolerations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.validation.core.recently_valid import RecentlyValid
from pytest_kwait.simulator.validation.formats import label_key_texts, label_value_texts

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["validate_only_added_tolerations", "validate_tolerations"]

_TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_RECENTLY_VALID = RecentlyValid()
_TOLERATION_OPERATORS = ("Equal", "Exists", "Lt", "Gt")


def validate_tolerations(tolerations: list[Obj], at: str, found: ErrorList) -> None:
    """Each toleration by itself."""
    if tolerations in _RECENTLY_VALID:
        return
    before = len(found)
    for index, toleration in enumerate(tolerations):
        here = f"{at}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            found.texts(f"{here}.key", key, label_key_texts(key))
        elif operator != "Exists":
            text = (
                'operator must be Exists when `key` is empty, which means "match all values and '
                'all keys"'
            )
            found.invalid(f"{here}.operator", operator, text)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            text = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            found.invalid(f"{here}.effect", effect, text)
        if operator in ("Equal", ""):
            texts = label_value_texts(value)
            if texts:
                found.invalid(f"{here}.operator", value, ";".join(texts))
        elif operator == "Exists":
            if value:
                text = "value must be empty when `operator` is 'Exists'"
                found.invalid(f"{here}.operator", value, text)
        else:
            valid = (
                _TOLERATION_OPERATORS
                if operator in _TOLERATION_OPERATORS
                else _TOLERATION_OPERATORS[:2]
            )
            found.unsupported(f"{here}.operator", operator, valid)
        if effect and effect not in _TAINT_EFFECTS:
            found.unsupported(f"{here}.effect", effect, _TAINT_EFFECTS)
    if len(found) == before:
        _RECENTLY_VALID.add(tolerations)


def validate_only_added_tolerations(
    new: list[Obj], old: list[Obj], at: str, found: ErrorList
) -> None:
    """Tolerations only become more; how long they last may change."""
    for kept in old:
        if not any(_is_same_toleration(kept, one) for one in new):
            text = "existing toleration can not be modified except its tolerationSeconds"
            found.forbidden(at, text)
            return
    validate_tolerations(new, at, found)


def _is_same_toleration(one: Obj, other: Obj) -> bool:
    return {**one, "tolerationSeconds": None} == {**other, "tolerationSeconds": None}
