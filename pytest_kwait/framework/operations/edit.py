"""Change one object: patch, update, label, annotate.

Source: kubectl/pkg/cmd/patch, kubectl/pkg/cmd/label, kubectl/pkg/cmd/annotate; client-go
util/retry/util.go RetryOnConflict.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from pytest_kwait.apimachinery.validation import (
    check_namespace,
    label_key_texts,
    label_value_texts,
)
from pytest_kwait.client.session import ApiSession
from pytest_kwait.client.write_options import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from pytest_kwait.clock import Deadline
from pytest_kwait.engine.options import WaitOptions, check_bool, resolve_options
from pytest_kwait.engine.retry import (
    ErrorAction,
    make_retry_backoff,
    request_with_retry,
    within_deadline,
)
from pytest_kwait.errors import ApiError, InvalidArgument
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.framework.named_objects import resolve_target
from pytest_kwait.framework.registry import verb

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from pytest_kwait.client.resource import Resource

Obj = dict[str, Any]

Change = Callable[[Obj], Obj]
"""Returns the changed object; it may change the given one, which is a copy."""

PatchType = Literal["strategic", "merge", "json", "apply"]

_CHANGE_CAUSE = "kubernetes.io/change-cause"
"""The annotation that kubectl overwrites in any case."""
_WRITTEN_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


@verb(limit="single_call", kinds={"target": None}, summary="the patched object")
def patch(
    client: ApiClient,
    namespace: str,
    target: str,
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    *,
    type: PatchType | None = None,
    subresource: str | None = None,
    dry_run: bool = False,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Patch an object and return it as stored.

    Args:
        namespace: the namespace of the object; ignored for cluster-scoped kinds.
        target: `kind/name`.
        patch: the fields to change; for `json` the list of operations. For `apply`, kind and name
            are filled in.
        type: `strategic`, `merge`, `json` (RFC 6902) or `apply` (server-side). By default a list is
            `json`, and fields are `strategic`, or `merge` where the kind has no strategic patches,
            as custom resources.
        subresource: for example `status`; None for the object.
        dry_run: whether the server only returns what it would store.

    Raises:
        ApiError: the object does not exist, or the server refuses. A JSON patch is not sent again
            after a lost answer.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    check_patch(patch, type, subresource)
    check_bool("dry_run", dry_run)
    deadline = _deadline(session, options)
    with within_deadline(deadline, f"{target} could not be patched"):
        resource, name = resolve_target(session, target, deadline)
        where = namespace if resource.namespaced else None
        return send_patch(
            session, resource, name, where, patch, type, subresource, deadline, dry_run=dry_run
        )


def check_patch(patch: object, type: object, subresource: object) -> None:
    """Check the arguments of `patch` that need no server.

    Raises:
        InvalidArgument: the type is unknown, or does not fit the patch; or no subresource.
    """
    if type is not None and type not in get_args(PatchType):
        raise InvalidArgument("type", type, "use 'strategic', 'merge', 'json' or 'apply'")
    is_list = isinstance(patch, Sequence) and not isinstance(patch, str | bytes)
    if not (is_list or isinstance(patch, Mapping)) or (
        type is not None and is_list != (type == "json")
    ):
        valid = "use a list of operations with type='json', a mapping of fields with any other"
        raise InvalidArgument("patch", patch, valid)
    check_subresource(subresource)


def check_subresource(subresource: object) -> None:
    """Check the name of a subresource, or None.

    Raises:
        InvalidArgument: it is no name.
    """
    if subresource is not None and not (isinstance(subresource, str) and subresource):
        valid = "use the name of a subresource, for example 'status'"
        raise InvalidArgument("subresource", subresource, valid)


def send_patch(
    session: ApiSession,
    resource: Resource,
    name: str,
    namespace: str | None,
    patch: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    type: PatchType | None,
    subresource: str | None,
    deadline: Deadline,
    *,
    dry_run: bool = False,
) -> Obj:
    """Send a patch; the arguments are those of `patch`, as `check_patch` takes them.

    Args:
        dry_run: whether the server only returns what the patch would store.
    """
    common: dict[str, Any] = {"subresource": subresource, "dry_run": dry_run}
    if type == "apply" and isinstance(patch, Mapping):
        metadata = {**(dict(patch).get("metadata") or {}), "name": name}
        identity = {"apiVersion": resource.api_version, "kind": resource.kind}
        applied = {**identity, **dict(patch), "metadata": metadata}
        return request_with_retry(
            lambda attempt_deadline: session.apply(
                resource, applied, namespace, deadline=attempt_deadline, **common
            ),
            deadline,
            WriteErrors(session),
        )
    if not isinstance(patch, Mapping):
        return request_with_retry(
            lambda attempt_deadline: session.patch(
                resource,
                name,
                patch,
                namespace,
                content_type=JSON_PATCH,
                deadline=attempt_deadline,
                **common,
            ),
            deadline,
            _UnsafeRequest(session),
        )

    def send(content_type: str) -> Obj:
        return request_with_retry(
            lambda attempt_deadline: session.patch(
                resource,
                name,
                patch,
                namespace,
                content_type=content_type,
                deadline=attempt_deadline,
                **common,
            ),
            deadline,
            WriteErrors(session),
        )

    if type is not None:
        return send(MERGE_PATCH if type == "merge" else STRATEGIC_MERGE_PATCH)
    try:
        return send(STRATEGIC_MERGE_PATCH)
    except ApiError as error:
        if error.status != 415:
            raise
    return send(MERGE_PATCH)


class _UnsafeRequest(WriteErrors):
    """The errors of a request that must not be stored twice."""

    def decide(self, error: ApiError) -> ErrorAction:
        """Return the reaction: retried only if the server has not begun it."""
        action = super().decide(error)
        return action if _is_not_begun(error) else ErrorAction.STOP


class _ChangeErrors(WriteErrors):
    """The errors of a write that may have been stored although its answer was lost."""

    may_be_stored = False

    def decide(self, error: ApiError) -> ErrorAction:
        if (error.status == 0 or error.status >= 500) and not _is_not_begun(error):
            self.may_be_stored = True
        return super().decide(error)


def _is_not_begun(error: ApiError) -> bool:
    """Return whether the server has certainly stored nothing of the request."""
    return (
        error.status == 429
        or error.reason == "ConnectionRefused"
        # It asks to be tried again before it does anything.
        or (error.status == 503 and error.retry_after is not None)
        or error.message.startswith("Internal error occurred: failed calling webhook")
    )


@verb(limit="single_call", kinds={"target": None}, summary="the updated object")
def update(
    client: ApiClient,
    namespace: str,
    target: str,
    change: Callable[[dict[str, Any]], object],
    *,
    subresource: str | None = None,
    dry_run: bool = False,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Read an object, change it, and replace it; again after a conflict.

    Args:
        namespace: the namespace of the object; ignored for cluster-scoped kinds.
        target: `kind/name`.
        change: changes the object that it is given, or returns another one. It may be called
            several times.
        subresource: `status`, to replace that; None for the object.
        dry_run: whether the server only returns what it would store.

    Raises:
        ApiError: the object does not exist, or the server refuses it.
        WaitTimeout: conflicts lasted until the limit.
    """
    session = ApiSession.of(client)
    check_namespace(namespace)
    changed = user_change(change)
    check_subresource(subresource)
    check_bool("dry_run", dry_run)
    deadline = _deadline(session, options)
    with within_deadline(deadline, f"{target} could not be updated"):
        resource, name = resolve_target(session, target, deadline)
        where = namespace if resource.namespaced else None
        return change_object(
            session,
            resource,
            name,
            where,
            changed,
            deadline,
            subresource=subresource,
            replace=True,
            dry_run=dry_run,
        )


def user_change(change: Callable[[Obj], object]) -> Change:
    """Return the change that a user's function makes: its result, or what it did to the object."""
    if not callable(change):
        raise InvalidArgument("change", change, "use a function that changes an object")

    def changed(obj: Obj) -> Obj:
        result = change(obj)
        if result is None:
            result = obj
        if not isinstance(result, Mapping):
            raise InvalidArgument("change", result, "its result is no object; return one, or None")
        if not isinstance(result.get("metadata"), Mapping):
            valid = "its result has no metadata; return a whole object, or None"
            raise InvalidArgument("change", result, valid)
        return dict(result)

    return changed


@verb(limit="single_call", kinds={"target": None}, summary="the labelled object")
def label(
    client: ApiClient,
    namespace: str,
    target: str,
    labels: Mapping[str, str | None],
    *,
    overwrite: bool = False,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Set and remove labels of an object; return it as stored.

    Args:
        namespace: the namespace of the object; ignored for cluster-scoped kinds.
        target: `kind/name`.
        labels: values by name; None removes a label.
        overwrite: whether a label may get another value, as kubectl's `--overwrite`.

    Raises:
        InvalidArgument: a label has another value already, and `overwrite` is False.
    """
    failure_text = f"{target} could not be labelled"
    return _edit(client, namespace, target, labels_change(labels, overwrite), failure_text, options)


def labels_change(labels: Mapping[str, str | None], overwrite: bool) -> Change:
    """Return the change that sets labels."""
    return _metadata_change("labels", labels, overwrite)


@verb(limit="single_call", kinds={"target": None}, summary="the annotated object")
def annotate(
    client: ApiClient,
    namespace: str,
    target: str,
    annotations: Mapping[str, str | None],
    *,
    overwrite: bool = False,
    **options: Unpack[WaitOptions],
) -> dict[str, Any]:
    """Set and remove annotations of an object; return it as stored.

    Args:
        namespace: the namespace of the object; ignored for cluster-scoped kinds.
        target: `kind/name`.
        annotations: values by name; None removes an annotation.
        overwrite: whether an annotation may get another value, as kubectl's `--overwrite`.

    Raises:
        InvalidArgument: an annotation has another value already, and `overwrite` is False.
    """
    failure_text = f"{target} could not be annotated"
    change = annotations_change(annotations, overwrite)
    return _edit(client, namespace, target, change, failure_text, options)


def annotations_change(annotations: Mapping[str, str | None], overwrite: bool) -> Change:
    """Return the change that sets annotations."""
    return _metadata_change("annotations", annotations, overwrite)


def _metadata_change(field: str, values: Mapping[str, str | None], overwrite: bool) -> Change:
    valid = 'use a mapping of names to texts, and to None for those to remove: {"team": "a"}'
    mapping: Any = values
    if not isinstance(mapping, Mapping) or not mapping:
        raise InvalidArgument(field, values, valid)
    for name, value in mapping.items():
        if not isinstance(name, str) or label_key_texts(name.lower()):
            raise InvalidArgument(field, name, f"not a name; {valid}")
        if value is not None and (
            not isinstance(value, str) or (field == "labels" and label_value_texts(value))
        ):
            raise InvalidArgument(f"{field} {name}", value, f"not a value; {valid}")
    check_bool("overwrite", overwrite)

    def changed(obj: Obj) -> Obj:
        metadata = obj["metadata"]
        current_values = dict(metadata.get(field) or {})
        for name, value in values.items():
            there = current_values.get(name)
            if value is None:
                current_values.pop(name, None)
                continue
            if not (overwrite or there in (None, value) or name == _CHANGE_CAUSE):
                raise InvalidArgument(
                    f"{field} {name}",
                    value,
                    f"it is {there!r} already, which overwrite=True replaces",
                )
            current_values[name] = value
        metadata[field] = current_values
        return obj

    return changed


def _edit(
    client: ApiClient,
    namespace: str,
    target: str,
    change: Change,
    failure_text: str,
    options: WaitOptions,
) -> Obj:
    session = ApiSession.of(client)
    check_namespace(namespace)
    deadline = _deadline(session, options)
    with within_deadline(deadline, failure_text):
        resource, name = resolve_target(session, target, deadline)
        where = namespace if resource.namespaced else None
        return change_object(session, resource, name, where, change, deadline)


def _deadline(session: ApiSession, options: WaitOptions) -> Deadline:
    settings = resolve_options(options, timeout="single_call", session=session)
    return Deadline.after(settings.timeout, session.clock)


def change_object(
    session: ApiSession,
    resource: Resource,
    name: str,
    namespace: str | None,
    change: Change,
    deadline: Deadline,
    *,
    subresource: str | None = None,
    replace: bool = False,
    dry_run: bool = False,
) -> Obj:
    """Read an object, change it and write it, again after a conflict; return it as stored.

    Nothing is written if nothing changes. After a conflict, an object that has the change already
    is returned if the answer to its write was lost.

    Args:
        namespace: its namespace; None for cluster-scoped kinds.
        change: the change; it gets a copy of the object.
        subresource: the part to write; None for the object.
        replace: whether the object is replaced; otherwise only what differs is sent.
        dry_run: whether the server only returns what it would store.
    """
    pause = make_retry_backoff().delay_with_reset(session.clock, 120.0)
    unanswered: Obj = {}
    while True:
        stored_object = request_with_retry(
            lambda attempt_deadline: session.get(
                resource, name, namespace, subresource=subresource, deadline=attempt_deadline
            ),
            deadline,
        )
        if unanswered and _has_change(stored_object, unanswered):
            return stored_object
        changed = change(copy.deepcopy(stored_object))
        difference = merge_patch_between(stored_object, changed)
        if not difference:
            return stored_object
        # Another writer between the read and the write is a conflict.
        identity = {key: stored_object["metadata"].get(key) for key in ("uid", "resourceVersion")}
        body = dict(changed if replace else difference)
        body["metadata"] = {**body.get("metadata", {}), **identity}

        def write(attempt_deadline: Deadline, body: Obj = body) -> Obj:
            common: Obj = {
                "subresource": subresource,
                "dry_run": dry_run,
                "deadline": attempt_deadline,
            }
            if replace:
                return session.replace(resource, body, namespace, **common)
            return session.patch(resource, name, body, namespace, **common)

        errors = _ChangeErrors(session)
        try:
            return request_with_retry(write, deadline, errors)
        except ApiError as error:
            if error.status != 409 or deadline.expired:
                raise
        unanswered = _stored_part(difference, subresource) if errors.may_be_stored else {}
        session.clock.sleep(min(pause(), max(deadline.remaining, 0.0)))


def _stored_part(patch: Mapping[str, Any], subresource: str | None) -> Obj:
    """Return a merge patch without what the server fills in, or leaves out of a write."""
    part = dict(patch)
    if subresource != "status":
        part.pop("status", None)
    metadata = part.pop("metadata", None) or {}
    written = {name: metadata[name] for name in _WRITTEN_METADATA if name in metadata}
    return {**part, "metadata": written} if written else part


def _has_change(obj: Mapping[str, Any], patch: Mapping[str, Any]) -> bool:
    """Return whether an object is as a merge patch leaves it."""
    for name, value in patch.items():
        there = obj.get(name)
        if isinstance(value, Mapping):
            if not _has_change(there if isinstance(there, Mapping) else {}, value):
                return False
        elif there != value:
            return False
    return True


def merge_patch_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Obj:
    """Return the JSON merge patch (RFC 7396) that makes one object the other; empty if equal."""
    patch: Obj = {name: None for name in before if name not in after}
    for name, value in after.items():
        there = before.get(name)
        if name in before and there == value:
            continue
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            patch[name] = merge_patch_between(there, value)
        else:
            patch[name] = value
    return patch
