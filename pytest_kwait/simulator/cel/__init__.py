"""CEL expressions with Kubernetes' variables and functions.

Contents: parsing and type checking by `cel-expr-python`, the compiler of expressions about
requests, the interpreter that counts costs, cost estimates, and the function libraries. Import this
package only where an expression is compiled: it loads that library. Without it, the import raises a
501 `StatusError` with the install command.
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
