"""Label selectors of objects as the text that a list takes."""

from __future__ import annotations

from typing import Any

__all__ = ["format_label_selector"]


def format_label_selector(selector: dict[str, Any] | None) -> str | None:
    """Return a `LabelSelector` as text; None for one that is missing or selects everything.

    Source: apimachinery/pkg/apis/meta/v1/helpers.go, LabelSelectorAsSelector.
    """
    terms = [f"{key}={value}" for key, value in ((selector or {}).get("matchLabels") or {}).items()]
    for expression in (selector or {}).get("matchExpressions") or ():
        key, operator = expression.get("key"), expression.get("operator")
        values = ",".join(expression.get("values") or ())
        match operator:
            case "In":
                terms.append(f"{key} in ({values})")
            case "NotIn":
                terms.append(f"{key} notin ({values})")
            case "Exists":
                terms.append(f"{key}")
            case "DoesNotExist":
                terms.append(f"!{key}")
    return ",".join(sorted(terms)) or None
