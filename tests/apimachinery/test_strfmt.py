from __future__ import annotations

import pytest

from pytest_kwait.apimachinery.strfmt import find_known_format, list_unknown_formats, matches_format


@pytest.mark.parametrize(
    ("form", "good", "bad"),
    [
        ("date", "2020-02-29", "2019-02-29"),
        ("date-time", "2020-01-01T00:00:00Z", "2020-01-01T00:00:00"),
        ("duration", "1h30m", "x"),
        ("duration", "5 days", "1"),
        ("ipv4", "01.2.3.4", "::1"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "1.2.3.4/8", "1.2.3.4"),
        ("mac", "01:02:03:04:05:06", "x"),
        ("uuid", "123e4567-e89b-12d3-a456-426614174000", "x"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("uri", "/a", "x"),
        ("email", "a <a@b>", "a"),
        ("hostname", "a.b.com", "a_b"),
        ("byte", "YQ==", "a"),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "A"),
        ("isbn", "978-0321751041", "1"),
        ("isbn10", "0321751043", "0321751044"),
        ("creditcard", "4111111111111111", "4111111111111112"),
        ("ssn", "111-11-1111", "1"),
        ("hexcolor", "#FFF", "x"),
        ("rgbcolor", "rgb(1,2,3)", "rgb(300,1,1)"),
    ],
)
def test_formats_accept_or_reject_strings(form: str, good: str, bad: str) -> None:
    assert matches_format(good, form)
    assert not matches_format(bad, form)


def test_unknown_format_accepts_every_string() -> None:
    assert matches_format("anything", "odd")
    assert find_known_format({"type": "string", "format": "odd"}) == ""


def test_formats_belong_to_types() -> None:
    assert find_known_format({"type": "integer", "format": "int32"}) == "int32"
    assert find_known_format({"type": "integer", "format": "date"}) == ""
    assert find_known_format({"type": "object", "format": "date"}) == ""


def test_unknown_formats_are_reported_once() -> None:
    schema = {"items": {"format": "odd"}, "properties": {"a": {"type": "integer", "format": "x"}}}
    versions = [{"schema": {"openAPIV3Schema": schema}}] * 2
    assert [*list_unknown_formats({"versions": versions})] == ["odd", "x"]
