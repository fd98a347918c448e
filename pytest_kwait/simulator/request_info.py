"""On whose behalf a write is made, and how it is to be made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_kwait.simulator.users import User

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_kwait.simulator.admission.webhooks.webhook_client import WebhookReply

__all__ = ["Caller", "internal_caller"]

FieldValidation = Literal["Ignore", "Warn", "Strict"]


@dataclass(slots=True)
class Caller:
    """One request's circumstances.

    Args:
        user: the user's name, as reviews and refusals show it.
        groups: the groups that the user is in.
        uid: the user's own id; empty where there is none.
        extra: what else authentication knows of the user.
        manager: the field manager that the write is recorded under; empty records nothing.
        dry_run: everything happens but the storing.
        field_validation: what is done about fields that the kind does not have.
        warnings: texts that go back as `Warning` headers; filled while the request is served.
        complaints: what the body's text had wrong that strict decoding refuses.
        comes_again: whether a write may break off to ask webhooks, and is made anew then.
        replies: what webhooks answered so far, by question.
        made: what was made up for the write so far, and stays when it is made anew.
    """

    user: str = "system:kube-controller-manager"
    groups: tuple[str, ...] = ("system:masters", "system:authenticated")
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    manager: str = ""
    dry_run: bool = False
    field_validation: FieldValidation = "Ignore"
    warnings: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    comes_again: bool = False
    replies: dict[str, WebhookReply] = field(default_factory=dict)
    made: dict[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> User:
        """The user, as authorization judges them."""
        return User(self.user, self.groups, self.uid, self.extra)

    def become(self, user: User) -> None:
        """Act as that user from here on."""
        self.user, self.groups, self.uid, self.extra = (
            user.name,
            user.groups,
            user.uid,
            user.extra,
        )

    def warn(self, text: str) -> None:
        """Tell the client something; once is enough."""
        if text not in self.warnings:
            self.warnings.append(text)

    def once(self, what: str, make: Callable[[], str]) -> str:
        """What `make` makes up, the same for every try of one write."""
        if what not in self.made:
            self.made[what] = make()
        return self.made[what]


def internal_caller() -> Caller:
    """A controller in this process: its writes are not recorded as a field manager's."""
    return Caller()
