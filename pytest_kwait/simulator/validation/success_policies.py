"""When an indexed job is done before all its indexes are, and texts that list indexes.

Source: pkg/apis/batch/validation/validation.go, validateSuccessPolicy, validateIndexesFormat.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_kwait.simulator.objects import Obj
    from pytest_kwait.simulator.validation.findings import ErrorList

__all__ = ["count_indexes", "find_common_index", "validate_success_policy"]

_MAX_SUCCESS_RULES = 20
_MAX_INDEXES_LENGTH = 64 * 1024
_RANGE_PARTS = 2


def validate_success_policy(spec: Obj, at: str, found: ErrorList) -> None:
    """The policy of an indexed job's spec."""
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions")
    if not rules:
        text = "at least one rules must be specified when the successPolicy is specified"
        found.required(f"{at}.rules", text)
    if len(rules) > _MAX_SUCCESS_RULES:
        found.too_many(f"{at}.rules", len(rules), _MAX_SUCCESS_RULES)
    for index, rule in enumerate(rules):
        _validate_success_policy_rule(rule, completions or 0, f"{at}.rules[{index}]", found)


def _validate_success_policy_rule(rule: Obj, completions: int, at: str, found: ErrorList) -> None:
    indexes, count = rule.get("succeededIndexes"), rule.get("succeededCount")
    total = 0
    if indexes is None and count is None:
        found.required(at, "at least one of succeededCount or succeededIndexes must be specified")
    if indexes is not None:
        here = f"{at}.succeededIndexes"
        if len(indexes) > _MAX_INDEXES_LENGTH:
            found.too_long(here, _MAX_INDEXES_LENGTH)
        try:
            total = count_indexes(indexes, completions)
        except ValueError as error:
            found.invalid(here, indexes, f"error parsing succeededIndexes: {error}")
    if count is None:
        return
    found.not_negative(rule, at, "succeededCount")
    if count > completions:
        text = f"{completions} (the number of specified completions)"
        found.invalid(f"{at}.succeededCount", count, f"must be less than or equal to {text}")
    if indexes is not None and count > total:
        text = f"{total} (the number of indexes in the specified succeededIndexes field)"
        found.invalid(f"{at}.succeededCount", count, f"must be less than or equal to {text}")


def count_indexes(text: str, completions: int) -> int:
    """How many indexes `text` lists: `0,2-4`.

    Raises:
        ValueError: it lists none; the text is the server's.
    """
    total, last = 0, None
    for part in text.split(",") if text else ():
        start, end = _parse_interval(part, completions)
        if last is not None and last >= start:
            raise ValueError(f"non-increasing order, previous: {last}, current: {start}")
        total += end - start + 1
        last = end
    return total


def find_common_index(one: str, other: str, completions: int) -> int | None:
    """The first index that both texts list, None for none; what lists no index is passed over."""
    lists: list[list[tuple[int, int]]] = [[], []]
    for text, intervals in zip((one, other), lists, strict=True):
        for part in text.split(",") if text else ():
            try:
                intervals.append(_parse_interval(part, completions))
            except ValueError:
                continue
    done, failed = lists
    while done and failed:
        (start, end), (first, last) = done[0], failed[0]
        if start <= last and first <= end:
            return max(start, first)
        (done if start <= first else failed).pop(0)
    return None


def _parse_interval(part: str, completions: int) -> tuple[int, int]:
    ends = part.split("-")
    if len(ends) > _RANGE_PARTS:
        raise ValueError(
            f'the fragment "{part}" violates the requirement that an index interval can have at '
            "most two parts separated by '-'"
        )
    numbers = []
    for end in ends:
        if not re.fullmatch(r"\+?[0-9]+", end):
            raise ValueError(f'cannot convert string to integer for index: "{end}"')
        if int(end) >= completions:
            raise ValueError(f'too large index: "{end}"')
        numbers.append(int(end))
    if len(numbers) == _RANGE_PARTS and numbers[0] >= numbers[1]:
        raise ValueError(f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}")
    return numbers[0], numbers[-1]
