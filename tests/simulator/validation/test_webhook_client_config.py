from __future__ import annotations

import pytest

from pytest_kwait.simulator.validation.webhook_client_config import validate_webhook_service


@pytest.mark.parametrize(
    ("service", "texts"),
    [
        ({}, ["at.name: Required value", "at.namespace: Required value"]),
        ({"name": "a"}, ["at.name: Required value"]),
        ({"namespace": "b"}, ["at.namespace: Required value"]),
        ({"name": "a", "namespace": "b"}, []),
        (
            {"name": "a", "namespace": "b", "port": 0},
            [
                "at.port: Invalid value: 0: port is not valid: must be between 1 and 65535, "
                "inclusive"
            ],
        ),
    ],
)
def test_a_missing_name_and_namespace_are_reported_as_upstream(
    service: dict[str, object], texts: list[str]
) -> None:
    assert [str(error) for error in validate_webhook_service(service, "at")] == texts
