"""Expressions in the Common Expression Language, with Kubernetes' variables and functions.

What may enter: what stands between `cel-expr-python`, the language's own runtime, and the rules
that are written in it. Import it where a rule is met, and not before: it loads that library. Where
that is not installed, whatever brings a rule is refused, and told what to install.
"""

from importlib.util import find_spec

from pytest_kwait.simulator.api_errors import StatusError

if find_spec("cel_expr_python") is None:
    raise StatusError(
        501,
        "",
        "the embedded cluster evaluates CEL expressions only with the CEL runtime, which is not"
        " installed: pip install 'pytest-kwait[cel]'",
    )
