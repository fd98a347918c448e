"""Users from a token file and from `--user` options.

A token file has kube-apiserver's format, one user a line: `token,user,uid` or
`token,user,uid,"group1,group2"`. An option is `NAME` or `NAME=GROUP,...`; that user gets a client
certificate.
Source: k8s.io/apiserver pkg/authentication/token/tokenfile/tokenfile.go. Upstream warns of empty
and repeated tokens and goes on; here they are errors, as a test would otherwise ask as another
user than it means to.
"""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING

from pytest_kwait.simulator.request_info import User

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_LINE_FORMAT = 'token,user,uid or token,user,uid,"group1,group2"'
_RESERVED_NAMES = ("kwait", "kwait-admin", "kwait-powerless")
_MAX_NAME_LENGTH = 64
"""Characters of a name in a certificate, by RFC 5280."""


class TokenFileError(ValueError):
    """A token file is invalid; the text names file and line."""


def read_token_file(path: Path) -> dict[str, User]:
    """Return the users by token.

    Raises:
        TokenFileError: the file cannot be read, or a line is invalid.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise TokenFileError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenFileError(f"{path}: it is no UTF-8 text") from error
    users: dict[str, User] = {}
    lines: dict[str, int] = {}
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    while True:
        try:
            record = next(reader, None)
        except csv.Error as error:
            raise TokenFileError(f"{path}, line {reader.line_num}: {error}") from error
        if record is None:
            return users
        if not record:
            continue
        line = reader.line_num
        token, user = _parse_record(record, f"{path}, line {line}")
        if token in users:
            raise TokenFileError(f"{path}, line {line}: it has the token of line {lines[token]}")
        users[token], lines[token] = user, line


def _parse_record(record: list[str], where: str) -> tuple[str, User]:
    if len(record) < 3:
        columns = "1 column" if len(record) == 1 else f"{len(record)} columns"
        raise TokenFileError(f"{where}: {columns}, expected {_LINE_FORMAT}")
    if len(record) > 4:
        raise TokenFileError(
            f"{where}: {len(record)} columns, expected {_LINE_FORMAT}: quote the groups"
        )
    token, name, uid = record[:3]
    if not token:
        raise TokenFileError(f"{where}: the token is empty")
    if token != token.strip() or " " in token:
        raise TokenFileError(f"{where}: the token has spaces, which no header can carry")
    if not name:
        raise TokenFileError(f"{where}: the user is empty")
    groups = tuple(record[3].split(",")) if len(record) == 4 and record[3] else ()
    return token, User(name, groups, uid)


def parse_users(options: Sequence[str]) -> list[User]:
    """Return the users.

    Raises:
        ValueError: a name is missing, repeated or reserved.
    """
    users: dict[str, User] = {}
    for option in options:
        name, equals, listed = option.partition("=")
        groups = tuple(listed.split(",")) if equals else ()
        if not name or "" in groups:
            raise ValueError(f"{option!r} is neither NAME nor NAME=GROUP,...")
        for part in (name, *groups):
            if len(part) > _MAX_NAME_LENGTH:
                raise ValueError(f"{part!r} has more than {_MAX_NAME_LENGTH} characters")
        if name in _RESERVED_NAMES:
            raise ValueError(f"{name!r} is a name of the cluster's own")
        if name in users:
            raise ValueError(f"{name!r} is given twice")
        users[name] = User(name, groups)
    return list(users.values())
