"""Tolerations of taints, and what may become of them.

Source: pkg/apis/core/validation/validation.go, ValidateTolerations, validateOnlyAddedTolerations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.simulator.formats import label_key_texts, label_value_texts
from pytest_kwait.simulator.pod_rules.recent import Recent

if TYPE_CHECKING:
    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_added_tolerations", "check_tolerations"]

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_SOUND = Recent()
_COMPARISONS = ("Equal", "Exists", "Lt", "Gt")


def check_tolerations(tolerations: list[Obj], at: str, found: Findings) -> None:
    """Each toleration by itself."""
    if tolerations in _SOUND:
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
            valid = _COMPARISONS if operator in _COMPARISONS else _COMPARISONS[:2]
            found.unsupported(f"{here}.operator", operator, valid)
        if effect and effect not in _EFFECTS:
            found.unsupported(f"{here}.effect", effect, _EFFECTS)
    if len(found) == before:
        _SOUND.add(tolerations)


def check_added_tolerations(new: list[Obj], old: list[Obj], at: str, found: Findings) -> None:
    """Tolerations only become more; how long they last may change."""
    for kept in old:
        if not any(_same(kept, one) for one in new):
            text = "existing toleration can not be modified except its tolerationSeconds"
            found.forbidden(at, text)
            return
    check_tolerations(new, at, found)


def _same(one: Obj, other: Obj) -> bool:
    return {**one, "tolerationSeconds": None} == {**other, "tolerationSeconds": None}
