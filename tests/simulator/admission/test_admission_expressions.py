from __future__ import annotations

import pytest

from pytest_kwait.simulator.admission.cel_expressions import compilation_error


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[request.operation, 'CREATE', request.userInfo.groups[0]].size() == 3", ""),
        ("[request.userInfo.extra, {'a': ['b']}].size() == 2", ""),
        ("[namespaceObject.metadata.labels['a'], variables.v].size() == 2", ""),
        ("[object.spec.replicas + 1, 2].size() == 2", ""),
        ("[object.a, 'b'].size() == 2", "1:12: expected type 'dyn' but found 'string'"),
        ("[params.a, 'b'].size() == 2", "1:12: expected type 'dyn' but found 'string'"),
    ],
)
def test_what_is_known_of_a_request_s_types(text: str, why: str) -> None:
    """Each as on a real server."""
    fault, _ = compilation_error(text, "bool", {"v": {"type": "string"}}, params=True)
    assert fault.partition("\n")[0] == (f"compilation failed: ERROR: <input>:{why}" if why else "")
