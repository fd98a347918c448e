"""Invalid values and literals lead to error texts, never to exceptions."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_kwait.simulator.cel.expressions import (
    CompilationError,
    CostBudget,
    EvaluationError,
    Expression,
    compile_expression,
)
from pytest_kwait.simulator.cel.interpreter import PER_CALL_COST_LIMIT
from pytest_kwait.simulator.cel.schema_types import SchemaTypes

MANY = "9" * 5000
WORDS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
TEXTS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "t": {"type": "string"},
        "m": {"type": "object", "additionalProperties": WORDS},
        "ll": {"type": "array", "items": WORDS},
    },
}
MISFIT = "type conversion error from 'string' to "
URL_ERROR = "URL parse error during conversion from string: parse "


@pytest.mark.parametrize(
    ("text", "given", "said"),
    [
        ("int(self) == 1", MANY, f"{MISFIT}'int'"),
        ("int(self) == 1", f"-{2**63 + 1}", f"{MISFIT}'int'"),
        ("uint(self) == 1u", MANY, f"{MISFIT}'uint'"),
        ("double(self) > 1.0", MANY, f"{MISFIT}'double'"),
        ("double(self) > 1.0", " 1", f"{MISFIT}'double'"),
        ("duration(self) > duration('1s')", f"{MANY}s", f"{MISFIT}'google.protobuf.Duration'"),
        ("duration(self) > duration('1s')", "9223372037s", f"{MISFIT}'google.protobuf.Duration'"),
        ("duration(self) + duration(self) == duration('1s')", "9223372036s", "integer overflow"),
        ("[1, 2][dyn(double(self))] == 1", "NaN", "unsupported index value NaN in list"),
        ("[1, 2][dyn(double(self))] == 1", "inf", "unsupported index value +Inf in list"),
        ("[1, 2][dyn(double(self))] == 1", "1.5", "unsupported index value 1.5 in list"),
        ("[1].flatten(1 / int(self)) == [1]", "0", "division by zero"),
        ("quantity(self).isInteger()", f"1e{MANY}", "unable to parse quantity's suffix"),
        ("quantity(self).isInteger()", "1e999999999", "unable to parse quantity's suffix"),
        ("quantity(self).isInteger()", MANY, "unable to parse numeric part of quantity"),
        (
            "semver(self).major() == 1",
            f"{2**64}.1.1",
            f'strconv.ParseUint: parsing "{2**64}": value out of range',
        ),
        (
            "semver(self).major() == 1",
            f"1.1.1-{MANY}",
            f'strconv.ParseUint: parsing "{MANY}": value out of range',
        ),
        (
            "url(self).getHost() == 'a'",
            "//[x]/",
            f'{URL_ERROR}"//[x]/": invalid host: ParseAddr("x"): unable to parse IP',
        ),
        (
            "url(self).getHost() == 'a'",
            "http://[::1/",
            f"{URL_ERROR}\"http://[::1/\": missing ']' in host",
        ),
        (
            "url(self).getHost() == 'a'",
            "http://a:b/",
            f'{URL_ERROR}"http://a:b/": invalid port ":b" after host',
        ),
        (
            "url(self).getHost() == 'a'",
            "http://a:b:c/",
            f'{URL_ERROR}"http://a:b:c/": invalid port ":b:c" after host',
        ),
        (
            "url(self).getHost() == 'a'",
            "http://#%blah$#@",
            f'{URL_ERROR}"http://#%blah$#@": net/url: invalid userinfo',
        ),
        (
            "url(self).getHost() == 'a'",
            "http://a/b%zz",
            f'{URL_ERROR}"http://a/b%zz": invalid URL escape "%zz"',
        ),
        (
            "url(self).getHost() == 'a'",
            "http://a%41/",
            f'{URL_ERROR}"http://a%41/": invalid URL escape "%41"',
        ),
        ("lists.range(int(self)).size() == 1", "2000000", "actual cost limit exceeded"),
        ("lists.range(1000).map(x, 'a' + self).distinct() == []", "b", "actual cost limit"),
    ],
)
def test_invalid_values(text: str, given: str, said: str) -> None:
    with pytest.raises(EvaluationError) as caught:
        Expression(text).evaluate({"self": given}, CostBudget(10 * PER_CALL_COST_LIMIT))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "given", "value"),
    [
        ("int(self)", "0" * 5000 + "7", 7),
        ("int(self)", str(-(2**63)), -(2**63)),
        ("int(self)", "-0", 0),
        ("double(self)", "1_000", 1000.0),
        ("double(self)", "-inf", float("-inf")),
        ("string(duration(self))", f"{'0' * 5000}1.{'0' * 8}1{'9' * 5000}s", "1.000000001s"),
        ("isIP(self)", f"{MANY}.1.1.1", False),
        ("isCIDR(self)", f"1.1.1.1/{MANY}", False),
        ("isSemver(self)", f"{MANY}.1.1", False),
        ("isQuantity(self)", "1e-999999999", False),
        ("url(self).getPort()", "http://a:99999999/", "99999999"),
        ("url(self).getHostname()", "http://[::1]:80/", "::1"),
        ("url(self).getHost()", "http://me@[::1]:80/a", "[::1]:80"),
        ("url(self).getHost()", "/a//b", ""),
        ("url(self).getEscapedPath()", "http://a:1/x y", "/x%20y"),
        ("url(self).getEscapedPath()", "http://a/b#c", "/b"),
        ("url(self).getEscapedPath()", "http://a/<b>c%20d", "/%3Cb%3Ec%20d"),
        ("url(self).getHost()", "http://a%25b/", "a%b"),
        ("url(self).getScheme()", "mailto:a@b", "mailto"),
        ("url(self).getQuery().size()", "http://a/b?a=%zz&b=1", 1),
        ("'%.999999999f'.format([1.0]).size() > int(self)", "1000", True),
        ("lists.range(int(self))", "-5", []),
    ],
)
def test_unusual_values(text: str, given: str, value: object) -> None:
    assert Expression(text).evaluate({"self": given}) == value


@pytest.mark.parametrize("name", ["IP", "CIDR", "Format", "Quantity", "type.googleapis.com/a"])
def test_a_user_map_cannot_pose_as_an_opaque_value(name: str) -> None:
    values = {"self": {"@type": name}, "other": {"@type": name}}
    for text in (
        "self.size() == 1 && type(self) == map",
        "'@type' in self && self.all(key, self[key] == other[key])",
        "self == other && self != {} && self in [other]",
        f"self == {{'@type': '{name}'}}",
        "ip('::1') != dyn(self)",
    ):
        assert Expression(text).evaluate(values) is True


def test_list_keys_of_unknown_type_are_rejected() -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        Expression("{dyn([1]): 1}.size() == 1").evaluate({})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("int('x') == 1", "type conversion error from 'string' to 'int'"),
        ("false && uint(dyn(-1)) == 1u", "unsigned integer overflow"),
        ("[1].map(x, int(dyn(null)))[0] == 1", "no such overload: int(null_type)"),
        ("int('1') == 1 && string(1) == '1'", ""),
    ],
)
def test_unconvertible_constants(text: str, said: str) -> None:
    assert Expression(text).planning_error == said


SHOWN = "strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps"


@pytest.mark.parametrize(
    ("text", "column", "said"),
    [
        ("[1, 'a'].size() == 1", 5, "expected type 'int' but found 'string'"),
        ("[[1], ['a']].size() == 1", 7, "expected type 'list(int)' but found 'list(string)'"),
        ("[1, dyn('a')].size() == 1", 8, "expected type 'int' but found 'dyn'"),
        ("[null, 'a'].size() == 1", 8, "expected type 'null' but found 'string'"),
        ("[duration('1s'), 1].size() == 1", 18, "expected type 'duration' but found 'int'"),
        ("[?optional.of(1), 'a'].size() == 1", 19, "expected type 'int' but found 'string'"),
        ("{1: 'a', true: 'b'}.size() == 2", 10, "expected type 'int' but found 'bool'"),
        ("{'a': 1, 'b': 'c'}.size() == 1", 15, "expected type 'int' but found 'string'"),
        (
            "'a'.format([1]) == 'a'",
            11,
            "too many arguments supplied to string.format (expected 0, got 1)",
        ),
        ("'%d %d'.format([1]) == ''", 15, "index 1 out of range"),
        ("'%'.format([1]) == ''", 11, "unexpected end of string"),
        (
            "'%q'.format([1]) == ''",
            12,
            'could not parse formatting clause: unrecognized formatting clause "q"',
        ),
        (
            "'%d'.format([self.t]) == ''",
            18,
            "error during formatting: decimal clause can only be used on integers, was given "
            "string",
        ),
        (
            "'%s'.format([[quantity('1')]]) == ''",
            23,
            f"error during formatting: string clause can only be used on {SHOWN}, was given "
            "kubernetes.Quantity",
        ),
        (
            "'%X'.format([timestamp(0)]) == ''",
            23,
            "error during formatting: only integers, byte buffers, and strings can be formatted "
            "as hex, was given google.protobuf.Timestamp",
        ),
        (
            "duration('1s') + 1 == 2",
            16,
            "found no matching overload for '_+_' applied to '(duration, int)'",
        ),
    ],
)
def test_invalid_literals_are_compilation_errors(text: str, column: int, said: str) -> None:
    book = SchemaTypes()
    with pytest.raises(CompilationError) as caught:
        compile_expression(text, {"self": book.name_of(TEXTS)}, book.pool())
    assert str(caught.value) == (
        f"ERROR: <input>:1:{column}: {said}\n | {text}\n | {'.' * (column - 1)}^"
    )


@pytest.mark.parametrize(
    "text",
    [
        "'%s'.format([[1, 'a', {'a': self.t, 'b': 1}]]) == ''",
        "'%s %d%% %e'.format([dyn(null), 1, 'NaN']) == ''",
        "[[], [1]].size() == 1 && [?optional.of(1), 2].size() == 1",
        "[1, 2].all(x, x in [1, 2]) && [self.t, 'a'].size() == 1",
        "self.t.format([1, 'a']) == '' && 'a'.matches('[[]')",
        "[self.m, {'a': ['b']}].size() == 2 && [self.m['a'], ['b']].size() == 2",
        "self.ll.all(words, [words, ['b']].size() == 2 && [words[0], 'b'].size() == 2)",
    ],
)
def test_valid_literals(text: str) -> None:
    book = SchemaTypes()
    compile_expression(text, {"self": book.name_of(TEXTS)}, book.pool())
