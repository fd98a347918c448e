from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.protocol.static_users import (
    TokenFileError,
    parse_users,
    read_token_file,
)
from pytest_kwait.simulator.request_info import User

if TYPE_CHECKING:
    from pathlib import Path


def test_users_with_and_without_groups(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text('t1,jane,u1,"team,other"\r\n\nt2,robot,u2\nt3,"a,b",,one\nt4,x,y,""\n')
    assert read_token_file(file) == {
        "t1": User("jane", ("team", "other"), "u1"),
        "t2": User("robot", (), "u2"),
        "t3": User("a,b", ("one",)),
        "t4": User("x", (), "y"),
    }
    file.write_text("")
    assert read_token_file(file) == {}


FORM = 'token,user,uid or token,user,uid,"group1,group2"'


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("t,jane,u\nt2,joe", f"line 2: 2 columns, expected {FORM}"),
        ("jane", f"line 1: 1 column, expected {FORM}"),
        ("t,jane,u,a,b", f"line 1: 5 columns, expected {FORM}: quote the groups"),
        ("\n,jane,u", "line 2: the token is empty"),
        ("t t,jane,u", "line 1: the token has spaces, which no header can carry"),
        ("t,,u", "line 1: the user is empty"),
        ("t,jane,u\nx,joe,v\nt,kim,w", "line 3: it has the token of line 1"),
        ('t,jane,u\nx,"joe', "line 2: unexpected end of data"),
    ],
)
def test_invalid_line_is_refused(tmp_path: Path, text: str, error: str) -> None:
    file = tmp_path / "tokens.csv"
    file.write_text(text)
    with pytest.raises(TokenFileError) as refused:
        read_token_file(file)
    assert str(refused.value) == f"{file}, {error}"


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TokenFileError) as refused:
        read_token_file(tmp_path / "none")
    assert str(refused.value) == f"{tmp_path / 'none'}: No such file or directory"
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(TokenFileError, match="binary: it is no UTF-8 text"):
        read_token_file(tmp_path / "binary")


def test_users_by_option() -> None:
    assert parse_users(["jane", "robot=team,system:masters"]) == [
        User("jane"),
        User("robot", ("team", "system:masters")),
    ]


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["=team"], "'=team' is neither NAME nor NAME=GROUP,..."),
        (["jane="], "'jane=' is neither NAME nor NAME=GROUP,..."),
        (["jane=a,,b"], "'jane=a,,b' is neither NAME nor NAME=GROUP,..."),
        (["jane", "jane=a"], "'jane' is given twice"),
        (["kwait-admin"], "'kwait-admin' is a name of the cluster's own"),
        (["j" * 65], f"'{'j' * 65}' has more than 64 characters"),
    ],
)
def test_options_without_users(options: list[str], error: str) -> None:
    with pytest.raises(ValueError, match="'") as refused:
        parse_users(options)
    assert str(refused.value) == error
