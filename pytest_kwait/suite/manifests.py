"""Manifests: parse files, YAML text, dicts and lists into objects, and apply or create those."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

from pytest_kwait.bounds import FileTooLargeError, read_limited
from pytest_kwait.client.resource import (
    BUILT_IN,
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    split_api_version,
)
from pytest_kwait.client.write_options import describe_unknown_fields
from pytest_kwait.engine.failure.redaction import SECRET_VALUES
from pytest_kwait.engine.object_sinks import pause_collector
from pytest_kwait.engine.retry import create_once, request_with_retry
from pytest_kwait.errors import (
    ApiError,
    ClusterError,
    InvalidArgument,
    KwaitError,
    WaitFailed,
    WaitTimeout,
    describe_value,
)
from pytest_kwait.framework.cluster.webhooks import WriteErrors
from pytest_kwait.suite.cleanup.owned_objects import (
    MANAGED_BY,
    CreatedObjects,
    kept_annotations,
    read_provenance,
    with_seal,
)
from pytest_kwait.suite.cleanup.run_lease import format_kind, is_run_alive
from pytest_kwait.suite.observers import ADOPT_LISTENERS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yaml.nodes import MappingNode, Node

    from pytest_kwait.client.resource import Resource
    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.client.write_options import FieldValidation
    from pytest_kwait.clock import Deadline
    from pytest_kwait.framework.named_objects import KubernetesObject
    from pytest_kwait.suite.cleanup.owned_objects import CreatedObject, Owner, Provenance


Source: TypeAlias = "str | Path | KubernetesObject | Sequence[Any]"
"""A path, YAML or JSON text, an object, or a sequence of these."""

# `Kwait.list` hides the builtin type in the body of its class.
Objects = list[dict[str, Any]]
Models = list

_MAX_VALUES = 1_000_000
"""Values of one document, with those that its YAML aliases stand for."""

_MAX_BYTES = 32 * 1024 * 1024
"""Bytes of a file or text; one object of the API has at most 3 MiB."""

_SEPARATORS = ",[{:\n-?"
_MAX_SEPARATORS = 2_000_000
"""Characters that may begin or end a value, in a file or text; a value takes some 500 bytes.
"""

_ANCHOR = re.compile(r"&[\w-]")
"""What every text with an anchor has; without one there are no aliases."""

_SUFFIXES = (".yaml", ".yml", ".json")
_NAMESPACE_VARIABLE = re.compile(r"\{\{-?\s*namespace\b")

_KUSTOMIZATIONS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
_KUSTOMIZE_TIMEOUT = 60.0
"""Seconds of `kubectl kustomize`, which may fetch remote resources."""

_MODEL_NAME = re.compile(r"(?:Core)?(V\d+(?:(?:alpha|beta)\d+)?)([A-Z]\w*)")

_SCHEMA_TIMEOUT = 5.0
"""Maximum seconds of the request for the schema of a refused object."""


class InvalidManifest(KwaitError, ValueError):
    """An invalid manifest; names the file, document, line and problem.

    Args:
        place: file, document and line as text.
        problem: what is wrong and what would be right.
    """

    def __init__(self, place: str, problem: str) -> None:
        super().__init__(place, problem)
        self.place = place
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.place}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest.

    Args:
        object: the object, with at least `apiVersion` and `kind`.
        place: its position, for messages: `jobs.yaml, document 2, line 14`.
    """

    object: dict[str, Any]
    place: str

    @property
    def title(self) -> str:
        """Kind and name as kubectl writes them, `job/pi`."""
        metadata = self.object.get("metadata") or {}
        name = metadata.get("name") or metadata.get("generateName", "")
        return f"{self.object['kind'].lower()}/{name}"


def find_file(path: str | Path, folders: Iterable[Path]) -> Path:
    """Return the file or folder at `path`. A relative path is searched in `folders` in order.

    Raises:
        InvalidManifest: it is in none of them.
    """
    tried = [folder / path for folder in dict.fromkeys(folders)]
    for candidate in tried:
        try:
            if candidate.exists():
                return candidate
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else error
            raise InvalidManifest(describe_value(str(path)), f"is no path: {problem}") from None
    places = " or ".join(str(candidate) for candidate in dict.fromkeys(tried))
    raise InvalidManifest(str(path), f"there is no file {places}")


def read_manifests(
    sources: Iterable[Source],
    folders: Iterable[Path],
    variables: Mapping[str, Any] | None = None,
    namespace: str | None = None,
    *,
    fills_alone: bool = True,
) -> list[Document]:
    """Return the objects of `sources` in order; flatten lists and skip empty documents.

    A text is YAML (or JSON) if it has a line break, a `: ` or a leading `{`, else the path of a
    file, or of a folder of which every `.yaml`, `.yml` and `.json` file is read in order of names.
    A folder with a `kustomization.yaml` is built by `kubectl kustomize`.

    Args:
        sources: paths, texts, objects, or sequences of these.
        folders: where relative paths are looked for, first match wins.
        variables: values by name; with any, files and texts are Jinja2 templates.
        namespace: the value of the variable `namespace`, which no manifest needs to use.
        fills_alone: whether texts that use it are templates without other variables too.

    Raises:
        InvalidManifest: a file is missing, a text does not parse, an object is none, or a variable
            is not given or not used.
    """
    search = list(folders)
    documents: list[Document] = []
    templates = None
    if variables or (namespace is not None and fills_alone):
        templates = _Templates(variables or {}, namespace)
    for number, source in enumerate(sources, 1):
        place = f"manifest {number}"
        try:
            documents.extend(_read(source, search, place, templates))
        except RecursionError as error:
            raise InvalidManifest(place, _format_unreadable(error)) from None
    if templates is not None:
        templates.check_used()
    return documents


class _Templates:
    """Renders manifests, and records which variables they use.

    Args:
        variables: values by name; without any, only texts that use `namespace` are templates.
        namespace: the value of that variable unless it is among these; None for none.
    """

    def __init__(self, variables: Mapping[str, Any], namespace: str | None) -> None:
        # Loaded on first use: most suites have no variables.
        from jinja2 import StrictUndefined
        from jinja2.sandbox import SandboxedEnvironment

        self._is_alone = not variables
        self._needed = variables.keys()
        self._variables = ({} if namespace is None else {"namespace": namespace}) | {**variables}
        self._used: set[str] = set()
        # YAML is no markup.
        self._environment = SandboxedEnvironment(
            undefined=StrictUndefined,
            autoescape=False,
            keep_trailing_newline=True,
        )
        # Jinja2's functions are likely names of variables, `namespace` above all.
        self._environment.globals = {} if "range" in variables else {"range": range}

    def render(self, text: str, place: str) -> str:
        """Return a text with its variables filled in.

        Raises:
            InvalidManifest: it is no template, or names a variable that is not given; names the
                line.
        """
        from jinja2 import TemplateError, TemplateSyntaxError, meta, nodes

        if self._is_alone and not _NAMESPACE_VARIABLE.search(text):
            return text
        try:
            tree = self._environment.parse(text)
        except TemplateSyntaxError as error:
            where = f"{place}, line {error.lineno}"
            raise InvalidManifest(where, f"is no template: {error.message}") from None
        variables = meta.find_undeclared_variables(tree)
        self._used |= variables
        optional = {
            id(name)
            for guard in tree.find_all((nodes.Filter, nodes.Test))
            if isinstance(guard, nodes.Filter | nodes.Test)
            and guard.name in ("default", "d", "defined", "undefined")
            and guard.node is not None
            for name in (guard.node, *guard.node.find_all(nodes.Name))
        }
        for name in tree.find_all(nodes.Name):
            missing = name.name in variables and name.name not in self._variables
            if missing and id(name) not in optional:
                variable_names = ", ".join(sorted(self._variables))
                where = f"{place}, line {name.lineno}"
                raise InvalidManifest(
                    where, f"has the variable {name.name}; given are {variable_names}"
                )
        try:
            return self._environment.from_string(tree).render(self._variables)
        except TemplateError as error:
            line = _template_line(error)
            raise InvalidManifest(f"{place}{line}", f"cannot be filled in: {error}") from None
        except Exception as error:
            # Values and filters may raise anything.
            problem = f"cannot be filled in: {type(error).__name__}: {error}"
            raise InvalidManifest(f"{place}{_template_line(error)}", problem) from error

    def check_used(self) -> None:
        """Check that every variable is used.

        Raises:
            InvalidManifest: one is not.
        """
        unused = sorted(self._needed - self._used)
        if unused:
            names = ", ".join(sorted(self._used)) or "none"
            problem = f"is a variable of none of these manifests; they have {names}"
            raise InvalidManifest(unused[0], problem)


def _template_line(error: BaseException) -> str:
    """Return the line of a template at which an error was raised, as a part of its place."""
    trace, line = error.__traceback__, ""
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in ("<template>", "<unknown>"):
            line = f", line {trace.tb_lineno}"
        trace = trace.tb_next
    return line


def _read(
    source: Source, folders: list[Path], place: str, templates: _Templates | None
) -> Iterator[Document]:
    def fill(text: str, place: str) -> str:
        return text if templates is None else templates.render(text, place)

    if isinstance(source, Mapping) or _is_model(source):
        yield from _objects(_plain(source, place), place)
    elif is_path(source):
        path = find_file(source, folders)
        if path.is_dir() and any((path / name).exists() for name in _KUSTOMIZATIONS):
            built = f"{path.name} (kustomize)"
            yield from _read_text(fill(_kustomize(path), built), built)
        elif path.is_dir():
            for child in _children(path):
                yield from _read_text(fill(_content(child), child.name), child.name)
        else:
            yield from _read_text(fill(_content(path), path.name), path.name)
    elif isinstance(source, str):
        yield from _read_text(fill(source, place), place)
    elif isinstance(source, (list, tuple)):
        for number, item in enumerate(source, 1):
            yield from _read(item, folders, f"{place}, item {number}", templates)
    else:
        raise InvalidManifest(
            place,
            f"{describe_value(source)} is no manifest; give a path, YAML text, a dict, a model of "
            "the official client, or a list of these",
        )


def _kustomize(folder: Path) -> str:
    """Return the objects of a kustomization as YAML.

    Raises:
        InvalidManifest: kubectl is not installed, or refuses the folder.
    """
    from pytest_kwait.suite.kubectl import KubectlError, run_kubectl

    try:
        return run_kubectl(("kustomize", str(folder)), timeout=_KUSTOMIZE_TIMEOUT).stdout
    except KubectlError as error:
        output = error.result.stderr.strip() or "no output"
        raise InvalidManifest(folder.name, f"cannot be built by kubectl: {output}") from None
    except (ClusterError, WaitTimeout) as error:
        raise InvalidManifest(folder.name, f"cannot be built: {error}") from None


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if child.suffix in _SUFFIXES)
    except OSError as error:
        raise InvalidManifest(folder.name, f"cannot be read: {error.strerror}") from error


def is_path(source: object) -> TypeGuard[str | Path]:
    """Return whether a source is a path: one that is a text has nothing of YAML or JSON."""
    if isinstance(source, str):
        return not ("\n" in source or ": " in source or source.lstrip().startswith("{"))
    return isinstance(source, Path)


def _content(path: Path) -> str:
    try:
        data = read_limited(path, _MAX_BYTES)
        return io.TextIOWrapper(io.BytesIO(data), "utf-8").read()  # line breaks become "\n"
    except FileTooLargeError as error:
        raise InvalidManifest(path.name, str(error)) from None
    except OSError as error:
        raise InvalidManifest(path.name, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidManifest(path.name, f"is not UTF-8 text: byte {error.start}") from error


def read_values(source: object, folders: Iterable[Path]) -> list[tuple[Any, str]]:
    """Return the JSON values of a path, YAML text or object, each with its place.

    Args:
        folders: where a relative path is looked for, first match wins.

    Raises:
        InvalidManifest: a file is missing, a text does not parse, or a value is none of JSON.
    """
    if is_path(source):
        path = find_file(source, folders)
        return list(_read_values(_content(path), path.name))
    if isinstance(source, str):
        return list(_read_values(source, "the text"))
    return [(_plain(source, "the object"), "the object")]


def _read_text(text: str, place: str) -> Iterator[Document]:
    for value, where in _read_values(text, place):
        yield from _objects(value, where)


def _read_values(text: str, place: str) -> Iterator[tuple[Any, str]]:
    # That of an argument, a template or kubectl is not limited yet.
    if (size := len(text.encode(errors="surrogatepass"))) > _MAX_BYTES:
        raise InvalidManifest(place, str(FileTooLargeError(f"{size:,}", _MAX_BYTES)))
    # Each value of JSON and YAML has one of these characters before or behind it.
    count = sum(map(text.count, _SEPARATORS))
    if count > _MAX_SEPARATORS:
        problem = f"it may have {count:,} values, and at most {_MAX_SEPARATORS:,} are read"
        raise InvalidManifest(place, problem)
    if text.lstrip().startswith("{"):
        # YAML is a superset of JSON except that it rejects tabs.
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            pass
        except (RecursionError, ValueError) as error:
            raise InvalidManifest(place, _format_unreadable(error)) from None
        else:
            yield _plain(value, place), place
            return
    yield from _read_yaml(text, place)


def _read_yaml(text: str, place: str) -> list[tuple[Any, str]]:
    """Return the values of YAML, each with its place.

    libyaml reads it, and PyYAML what libyaml refuses: errors read the same with and
    without libyaml.
    """
    import yaml

    with pause_collector():
        if yaml.__with_libyaml__:
            with suppress(InvalidManifest):
                return list(_load_yaml(text, place, yaml.CSafeLoader))
        return list(_load_yaml(text, place, yaml.SafeLoader))


def _load_yaml(text: str, place: str, base: type[Any]) -> Iterator[tuple[Any, str]]:
    import yaml

    try:
        loader = _loader(base)(text)
    except yaml.YAMLError as error:
        raise InvalidManifest(place, f"is no YAML: {str(error).partition(chr(10))[0]}") from error
    number, where = 0, place
    has_anchors = _ANCHOR.search(text) is not None
    try:
        while loader.check_node():
            number, where = number + 1, f"{place}, document {number + 1}"
            node = loader.get_node()
            where += f", line {node.start_mark.line + 1}"
            if has_anchors and _expanded_size(node) > _MAX_VALUES:
                raise InvalidManifest(
                    where, f"its aliases stand for more than {_MAX_VALUES:,} values"
                )
            value = loader.construct_document(node)
            if value is not None:
                yield _plain(value, where), where
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        problem = ", ".join(filter(None, (error.context, error.problem)))
        where = f"{place}, document {max(number, 1)}{line}"
        raise InvalidManifest(where, f"is no YAML: {problem}") from error
    except InvalidManifest:
        raise
    except Exception as error:
        # PyYAML's constructors fail in many ways: `!!bool maybe` is a KeyError.
        raise InvalidManifest(where, _format_unreadable(error)) from None
    finally:
        loader.dispose()


def _expanded_size(node: Node) -> int:
    """Return the number of values of a document whose aliases are replaced by their values."""
    sizes: dict[int, int] = {}
    pending = [node]
    while pending:
        current_node = pending[-1]
        inner = [current_node.value] if isinstance(current_node.value, str) else current_node.value
        children = [
            part
            for value in inner
            for part in (value if isinstance(value, tuple) else (value,))
            if not isinstance(part, str)
        ]
        unknown = [child for child in children if id(child) not in sizes]
        # A value that contains itself is refused as JSON.
        sizes.setdefault(id(current_node), 1)
        if unknown:
            pending += unknown
        else:
            sizes[id(current_node)] = 1 + sum(sizes[id(child)] for child in children)
            pending.pop()
    return sizes[id(node)]


def _format_unreadable(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nests lists or objects too deeply to be read"
    if "integer string conversion" in str(error):
        return f"has a number of more than {sys.get_int_max_str_digits()} digits"
    return f"cannot be read: {str(error).partition(chr(10))[0]}"


def _loader(base: type[Any]) -> type[Any]:
    import yaml

    class ManifestLoader(base):  # type: ignore[misc] # either loader of PyYAML
        """YAML loader like the API server's: dates stay text, duplicate keys are errors."""

        yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's own way to replace them in a subclass
            first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
            for first, resolvers in base.yaml_implicit_resolvers.items()
        }

        def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
            checked_keys: set[str] = set()
            for key, _ in node.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in checked_keys:
                        raise yaml.constructor.ConstructorError(
                            None, None, f"the key {key.value!r} comes twice", key.start_mark
                        )
                    checked_keys.add(key.value)
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            return mapping

    return ManifestLoader


def _plain(value: Any, place: str) -> Any:
    """Return a deep copy of `value` as JSON values."""
    try:
        return json.loads(json.dumps(value, default=_jsonable, allow_nan=False))
    except RecursionError as error:
        raise InvalidManifest(place, _format_unreadable(error)) from None
    except (TypeError, ValueError) as error:
        if "integer string conversion" in str(error):
            raise InvalidManifest(place, _format_unreadable(error)) from None
        raise InvalidManifest(place, f"holds what JSON cannot: {error}") from error


def _is_model(value: object) -> bool:
    """Return whether a value is a model of the official client."""
    return hasattr(type(value), "openapi_types")


def _jsonable(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    if _is_model(value):
        from kubernetes.client import ApiClient

        plain = ApiClient().sanitize_for_serialization(value)  # type: ignore[no-untyped-call] # the official client has no types here
        return _model_type(type(value)) | plain
    raise TypeError(f"a {type(value).__name__} ({describe_value(value)})")


def _model_type(model: type) -> dict[str, str]:
    """Return `apiVersion` and `kind` of a model, which the official client leaves out in lists.

    Empty for a part of an object, and for kinds that are not known.
    """
    named = _MODEL_NAME.fullmatch(model.__name__)
    if named is None:
        return {}
    version, kind = named[1].lower(), named[2]
    for resource in BUILT_IN.values():
        if resource.version == version and resource.kind == kind.removesuffix("List"):
            return {"apiVersion": resource.api_version, "kind": kind}
    return {}


def _objects(value: Any, place: str) -> Iterator[Document]:
    if not isinstance(value, dict):
        raise InvalidManifest(place, f"is a {_json_name(value)}, an object is needed")
    for field in ("apiVersion", "kind"):
        if not isinstance(value.get(field), str) or not value[field]:
            raise InvalidManifest(place, f"has no {field}")
    metadata = value.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidManifest(place, f"its metadata is a {_json_name(metadata)}, not an object")
    if value["kind"].endswith("List") and "items" in value and "name" not in (metadata or {}):
        items = value["items"]
        if items is not None and not isinstance(items, list):
            raise InvalidManifest(place, f"its items are a {_json_name(items)}, a list is needed")
        listed = value["kind"].removesuffix("List")
        types = {"apiVersion": value["apiVersion"], "kind": listed} if listed else {}
        for number, item in enumerate(items or [], 1):
            if isinstance(item, dict):
                # The API leaves these out in a list of one kind.
                item = types | item
            yield from _objects(item, f"{place}, item {number}")
        return
    if metadata is None or not (
        isinstance(metadata.get("name"), str) or isinstance(metadata.get("generateName"), str)
    ):
        raise InvalidManifest(place, f"the {value['kind']} has no metadata.name that is a text")
    yield Document(value, place)


def _json_name(value: Any) -> str:
    names = {list: "list", str: "text", bool: "truth value", int: "number", float: "number"}
    return names.get(type(value), "object" if isinstance(value, dict) else "null")


class ManifestWriter:
    """Applies and creates objects; tracks those that are not deleted with the namespace.

    Args:
        namespace: the namespace of objects that name none.
        owner: the owner of objects outside of the namespace.
        owned: whether the namespace is deleted with everything in it.
        deadline: returns the deadline of one request.
        established: waits until the CustomResourceDefinition of a name is served.
        gone: waits until the object of a kind, namespace, name and UID is gone.
        created: the objects to delete, which another writer deletes; None for its own.
    """

    def __init__(
        self,
        session: ApiSession,
        namespace: str,
        *,
        owner: Owner,
        owned: bool,
        deadline: Callable[[], Deadline],
        established: Callable[[str], object],
        gone: Callable[[Resource, str | None, str, str], object],
        created: CreatedObjects | None = None,
    ) -> None:
        self._session = session
        self._namespace = namespace
        self._owner = owner
        self._owned = owned
        self._deadline = deadline
        self._established = established
        self._gone = gone
        self.created: CreatedObjects = CreatedObjects(session) if created is None else created
        """The objects to delete."""

    def apply(
        self,
        documents: list[Document],
        validation: FieldValidation = "Strict",
        target: str | None = None,
        *,
        dry_run: bool = False,
    ) -> list[dict[str, Any]]:
        """Apply documents server-side, in order.

        Args:
            target: the namespace of objects that name none; None for the test's own.
            dry_run: whether the server only returns what it would store.
        """
        for document in documents:
            if "name" not in document.object["metadata"]:
                raise InvalidManifest(document.place, "apply needs metadata.name; create does not")
        write = partial(self._apply, validation=validation, dry_run=dry_run)
        return self._each(documents, write, target, dry_run=dry_run)

    def create(
        self,
        documents: list[Document],
        validation: FieldValidation = "Strict",
        target: str | None = None,
        *,
        dry_run: bool = False,
    ) -> list[dict[str, Any]]:
        """Create the objects of documents, in order.

        Args:
            target: as for `apply`; it exists: a manifest of this Namespace is applied.
            dry_run: as for `apply`.
        """

        def write(resource: Resource, obj: dict[str, Any], namespace: str | None) -> dict[str, Any]:
            is_target = target is not None and obj["metadata"].get("name") == target
            write = self._apply if is_target and resource == NAMESPACES else self._create
            return write(resource, obj, namespace, validation=validation, dry_run=dry_run)

        return self._each(documents, write, target, dry_run=dry_run)

    def adopt(self, resource: Resource, obj: dict[str, Any]) -> None:
        """Seal and track an object that another program has created for the test.

        No-op for what is deleted with the namespace, and for other tests' objects.
        """
        metadata = obj["metadata"]
        for listener in ADOPT_LISTENERS:
            listener({**obj, "apiVersion": resource.api_version, "kind": resource.kind})
        namespace = metadata.get("namespace") if resource.namespaced else None
        if not self._outlives(resource, namespace, obj):
            return
        provenance = read_provenance(resource, obj)
        if provenance is not None and provenance.owner.digest != self._owner.digest:
            return
        self.created.add(resource, obj)
        if provenance is not None:
            return
        sealed = self._with_seal(resource, obj, namespace, dry_run=False)["metadata"]
        # The UID protects another object of the same name.
        change = {
            "metadata": {
                "uid": metadata["uid"],
                "labels": sealed["labels"],
                "annotations": sealed["annotations"],
            }
        }
        request_with_retry(
            lambda deadline: self._session.base.patch(
                resource, metadata["name"], change, namespace, deadline=deadline
            ),
            self._deadline(),
        )

    def keep(self) -> list[str]:
        """Annotate tracked objects as kept, with their expiry; return failures with reasons."""
        notes = kept_annotations(self._session.clock.time())
        return self.created.keep(notes, self._deadline)

    def delete(self, see_off: Callable[[CreatedObject], None] | None = None) -> list[str]:
        """Request the deletion of tracked objects, last created first.

        Args:
            see_off: waits for one object before the next deletion; None to wait for none.

        Returns:
            what could not be deleted, each with its reason.
        """
        return self.created.delete(self._deadline, see_off)

    def _each(
        self,
        documents: list[Document],
        write: Callable[[Resource, dict[str, Any], str | None], dict[str, Any]],
        target: str | None,
        *,
        dry_run: bool,
    ) -> list[dict[str, Any]]:
        written = []
        definitions: list[str] = []  # written, and not awaited yet
        for number, document in enumerate(documents, 1):
            if document.object["kind"] != CUSTOM_RESOURCE_DEFINITIONS.kind:
                self._await_definitions(definitions)
            resource = self._resource(document, documents[: number - 1] if dry_run else ())
            SECRET_VALUES.learn_manifest(document.object)
            own = document.object["metadata"].get("namespace")
            place = (own or target or self._namespace) if resource.namespaced else None
            try:
                written.append(write(resource, document.object, place))
            except (ApiError, ClusterError, WaitFailed, WaitTimeout) as error:
                self._check_unknown_fields(document, resource, error)
                error.add_note(f"{document.title} of {document.place}")
                raise
            is_definition = resource.kind == CUSTOM_RESOURCE_DEFINITIONS.kind
            if is_definition and number < len(documents) and not dry_run:
                definitions.append(document.object["metadata"]["name"])
        self._await_definitions(definitions)
        return written

    def _await_definitions(self, names: list[str]) -> None:
        """Wait for definitions, which the server establishes side by side; none is left."""
        for name in names:
            self._established(name)
        names.clear()

    def _check_unknown_fields(
        self, document: Document, resource: Resource, error: KwaitError
    ) -> None:
        """Raise `InvalidManifest` in place of a refusal of unknown fields."""
        if isinstance(error, ApiError):
            deadline = self._deadline().at_most(_SCHEMA_TIMEOUT)
            problem = describe_unknown_fields(self._session.transport, resource, error, deadline)
            if problem:
                place = document.place
                manifest = place if place.startswith("manifest ") else f"manifest {place}"
                metadata = document.object["metadata"]
                name = metadata.get("name") or metadata.get("generateName")
                raise InvalidManifest(manifest, f"{resource.kind} {name}: {problem}") from error

    def _resource(self, document: Document, unstored: Sequence[Document]) -> Resource:
        """Return the kind of a document's object, once it is served.

        Args:
            unstored: the documents of a dry run before this one.
        """
        try:
            return self._resolve(document.object)
        except InvalidArgument as error:
            definition = self._definition(document.object)
            if definition is None:
                note = _describe_unstored_definition(document.object, unstored)
                raise InvalidManifest(document.place, f"{error}{note}") from None
        # Discovery lists a kind some time after its definition is established.
        try:
            self._established(definition)
        except (WaitFailed, WaitTimeout) as error:
            error.add_note(f"{document.title} of {document.place}")
            raise
        return self._resolve(document.object)

    def _resolve(self, obj: dict[str, Any]) -> Resource:
        return request_with_retry(
            lambda attempt_deadline: self._session.resolve(
                obj["kind"], obj["apiVersion"], deadline=attempt_deadline
            ),
            self._deadline(),
        )

    def _definition(self, obj: dict[str, Any]) -> str | None:
        """Return the name of the definition of a kind; None if it is not known."""
        group, version = split_api_version(obj["apiVersion"])
        if "." not in group:
            return None
        try:
            definitions = request_with_retry(
                lambda attempt_deadline: self._session.base.list(
                    CUSTOM_RESOURCE_DEFINITIONS, deadline=attempt_deadline
                ),
                self._deadline(),
            )
        except ApiError:
            return None
        for definition in (item.object for item in definitions.items):
            spec = definition["spec"]
            served = {version["name"] for version in spec["versions"] if version["served"]}
            if (spec["group"], spec["names"]["kind"]) == (group, obj["kind"]) and version in served:
                return None if _is_terminating(definition) else str(definition["metadata"]["name"])
        return None

    def _apply(
        self,
        resource: Resource,
        obj: dict[str, Any],
        namespace: str | None,
        *,
        validation: FieldValidation,
        dry_run: bool,
    ) -> dict[str, Any]:
        outlives = self._outlives(resource, namespace, obj)
        # A manifest with finalizers means the existing object: removing them completes its
        # deletion.
        sets_finalizers = "finalizers" in obj["metadata"]
        while True:
            # Objects that existed before stay, without our labels.
            there = self._found(resource, obj, namespace) if outlives else None
            if there is not None and _is_terminating(there) and not sets_finalizers:
                self._wait_for_deletion(resource, namespace, there)
                there = None
            own = outlives and (there is None or self._is_own(resource, there))
            try:
                applied = self._applied(
                    resource, obj, namespace, own, there, validation=validation, dry_run=dry_run
                )
            except ApiError as error:
                # Another test created it meanwhile: its seal is a conflict.
                if not own or there is not None or error.reason != "Conflict":
                    raise
                there = self._found(resource, obj, namespace)
                if there is not None and self._is_own(resource, there):
                    raise
                continue
            if sets_finalizers or not _is_terminating(applied):
                if own and not dry_run:
                    self.created.add(resource, applied)
                return applied
            self._wait_for_deletion(resource, namespace, applied)

    def _applied(
        self,
        resource: Resource,
        obj: dict[str, Any],
        namespace: str | None,
        own: bool,
        there: dict[str, Any] | None,
        *,
        validation: FieldValidation,
        dry_run: bool,
    ) -> dict[str, Any]:
        """Apply an object; one of the test's own has a field manager that no other test has."""
        options: dict[str, Any] = {"field_validation": validation, "dry_run": dry_run}
        if own:
            obj = self._with_seal(resource, obj, namespace, dry_run=dry_run)
            options["field_manager"] = f"{MANAGED_BY}-{self._owner.digest[:8]}"
            options["force"] = there is not None
        return request_with_retry(
            lambda deadline: self._session.apply(
                resource, obj, namespace, deadline=deadline, **options
            ),
            self._deadline(),
            WriteErrors(self._session),
        )

    def _is_own(self, resource: Resource, there: dict[str, Any]) -> bool:
        """Return whether an object is the test's own.

        Raises:
            ClusterError: it is another test's, which deletes it while this one uses it.
        """
        provenance = read_provenance(resource, there)
        if provenance is None or provenance.kept:
            return False
        if provenance.owner.digest == self._owner.digest:
            return True
        if not self._is_lent(provenance):
            where = f" in {there['metadata']['namespace']}" if resource.namespaced else ""
            raise ClusterError(
                f"{resource.kind.lower()}/{there['metadata']['name']}{where} belongs to "
                f"{provenance.owner.describe(self._owner)}, which deletes it at its end; give it "
                "another name, create it in an environment of scope session or run, or mark both "
                "with kwait_serial"
            )
        return False

    def _is_lent(self, provenance: Provenance) -> bool:
        """Return whether another test's object stays as long as this test needs it."""
        if provenance.owner.run == self._owner.run:
            return provenance.owner.outlasts(self._owner)
        return not provenance.heartbeat or not is_run_alive(
            self._session.base, provenance.heartbeat, self._deadline()
        )

    def _create(
        self,
        resource: Resource,
        obj: dict[str, Any],
        namespace: str | None,
        *,
        validation: FieldValidation,
        dry_run: bool,
    ) -> dict[str, Any]:
        foreign = self._outlives(resource, namespace, obj)
        labelled = obj
        if foreign:
            labelled = self._with_seal(resource, obj, namespace, dry_run=dry_run)
        while True:
            try:
                created = create_once(
                    self._session,
                    resource,
                    labelled,
                    namespace,
                    self._deadline(),
                    validation,
                    WriteErrors(self._session),
                    dry_run=dry_run,
                )
            except ApiError as error:
                created = self._in_the_way(resource, obj, namespace, error)
            if not _is_terminating(created):
                break
            self._wait_for_deletion(resource, namespace, created)
        if foreign and not dry_run:
            self.created.add(resource, created)
        return created

    def _in_the_way(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None, refusal: ApiError
    ) -> dict[str, Any]:
        """Return the terminating object of the same name; raise the error if there is none."""
        if refusal.reason != "AlreadyExists" or "name" not in obj["metadata"]:
            raise refusal
        try:
            there = self._found(resource, obj, namespace)
        except ApiError:
            raise refusal from None
        if there is None or not _is_terminating(there):
            provenance = None if there is None else read_provenance(resource, there)
            if provenance is not None and provenance.owner.digest != self._owner.digest:
                refusal.add_note(f"it belongs to {provenance.owner.describe(self._owner)}")
            raise refusal
        return there

    def _wait_for_deletion(
        self, resource: Resource, namespace: str | None, going: dict[str, Any]
    ) -> None:
        metadata = going["metadata"]
        try:
            self._gone(resource, namespace, metadata["name"], metadata["uid"])
        except WaitTimeout as error:
            error.add_note("none of that name can be made as long as it is there")
            raise

    def _outlives(self, resource: Resource, namespace: str | None, obj: dict[str, Any]) -> bool:
        """Return whether an object there remains when our namespace is deleted."""
        home = obj["metadata"].get("name") if resource == NAMESPACES else namespace
        return not (self._owned and home == self._namespace)

    def _found(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None
    ) -> dict[str, Any] | None:
        name = obj["metadata"]["name"]
        try:
            return request_with_retry(
                lambda deadline: self._session.base.get(
                    resource, name, namespace, deadline=deadline
                ),
                self._deadline(),
            )
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def _with_seal(
        self, resource: Resource, obj: dict[str, Any], namespace: str | None, *, dry_run: bool
    ) -> dict[str, Any]:
        registration, heartbeat = self._owner.registration, ""
        if registration is not None and not dry_run:
            # The Lease names the kind before its first object exists, for the janitor.
            heartbeat = registration.place()
            registration.record(format_kind(resource))
        now = self._session.clock.time()
        return with_seal(self._owner, resource, obj, namespace, now, heartbeat)


def _describe_unstored_definition(obj: dict[str, Any], unstored: Sequence[Document]) -> str:
    """Return that the definition of an object was only tried; empty without one."""
    group, _ = split_api_version(obj["apiVersion"])
    for document in unstored:
        spec = document.object.get("spec") or {}
        kind = (spec.get("names") or {}).get("kind")
        is_definition = document.object["kind"] == CUSTOM_RESOURCE_DEFINITIONS.kind
        if is_definition and (spec.get("group"), kind) == (group, obj["kind"]):
            name = document.object["metadata"].get("name")
            return f"; a dry run stores no definitions: apply customresourcedefinition/{name} first"
    return ""


def _is_terminating(obj: dict[str, Any]) -> bool:
    return bool(obj["metadata"].get("deletionTimestamp"))
