"""Images of a cluster: programs of this machine that its containers run.

The client holds a connection: the cluster removes its mappings when it is closed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_kwait.apimachinery.arguments import check_instance
from pytest_kwait.clusters.faults import FaultClient, NotEmbeddedError
from pytest_kwait.clusters.image_config.config import ImageConfigError
from pytest_kwait.errors import InvalidArgument
from pytest_kwait.simulator.protocol.image_mapping import ImageMapping, make_image_mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Self

    from pytest_kwait.client.session import ApiSession
    from pytest_kwait.clusters.faults import Fault
    from pytest_kwait.clusters.image_config.config import ImageConfig

_RUN_ARGUMENTS = (
    "command", "image", "target", "build_args", "args", "env", "workdir", "path", "user",
    "writable", "files", "stop_signal",
)  # fmt: skip
_MAX_SHOWN = 5


class MappedImage:
    """A mapped image; ends with `undo`, with its `with` block, or with the run.

    Args:
        mapping: the mapping.
        fault: its registration in the cluster; None on a cluster that pulls images.
    """

    def __init__(self, mapping: ImageMapping, fault: Fault | None) -> None:
        self.mapping = mapping
        self._fault = fault

    def undo(self) -> None:
        """Remove the mapping; running containers keep running. May be called again."""
        if self._fault is not None:
            self._fault.undo()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the mapping."""
        self.undo()


class Images:
    """Maps images to programs of this machine; `kwait_cluster.images` in tests.

    Containers of a mapped image run the program as a process. Another cluster than an embedded one
    pulls the images, so that a suite runs unchanged there: mappings are ignored.

    Args:
        server: the cluster's address, for messages.
    """

    def __init__(self, session: Callable[[], ApiSession], server: str) -> None:
        self._client = FaultClient(session, server)
        self.ignored: list[str] = []
        """The patterns that the cluster does not use."""

    def run(
        self,
        pattern: str,
        command: Sequence[str | Path] | str | None = None,
        *,
        image: str | Path | None = None,
        target: str = "",
        build_args: Mapping[str, str] | None = None,
        args: Sequence[str] | None = None,
        env: Mapping[str, str | Path] | None = None,
        workdir: str | Path | None = None,
        path: Sequence[str | Path] = (),
        user: str | int | None = None,
        writable: Sequence[str | Path] = (),
        files: Mapping[str, str | Path] | None = None,
        stop_signal: str | int | None = None,
    ) -> MappedImage:
        """Run a program in the containers of an image, from their next start.

        A container's `command` replaces `command`, its `args` replace `args`; `env` and
        `workingDir` override those given here. The same mapping may be made again, by other
        workers of pytest-xdist too.

        Args:
            pattern: the name of the image with `*` for any part; without a tag, every tag and
                digest. The most specific pattern applies.
            command: the program with its arguments; a text is split as a shell does. An image
                without an entrypoint has none: its pods have a `command` of their own.
            image: a file with what the image says: a Dockerfile or a folder with one, an OCI
                layout as folder or tar, or a docker archive. The arguments below replace its
                values, and `env` its variables one by one.
            target: the stage of a Dockerfile, or the name of one of several images.
            build_args: values by the names of `ARG` in a Dockerfile.
            args: default arguments.
            env: environment variables; nothing else of this process is inherited but `PATH`.
            workdir: the working directory; None for the image's, or else the current one.
            path: folders in front of `PATH`, before those of the command's Python and of this one.
            user: `USER[:GROUP]` or a number, for pods without `runAsUser`.
            writable: files and folders of this machine that the program may change; all others
                are read-only, or changed for the container alone.
            files: files and folders of this machine by the path that they have in the container,
                as `COPY` gives them to an image; read-only but for files up to 1 MiB, of which
                each container has a copy.
            stop_signal: the signal that ends the program, by name or number, for containers
                without `stopSignal`; None for the image's, or SIGTERM.

        Raises:
            InvalidArgument: a value is invalid.
            ApiError: the pattern is mapped to another program.
        """
        return self.add(
            make_mapping(
                pattern, command, image=image, target=target, build_args=build_args, args=args,
                env=env, workdir=workdir, path=path, user=user, writable=writable, files=files,
                stop_signal=stop_signal,
            )
        )  # fmt: skip

    def add(self, mapping: ImageMapping) -> MappedImage:
        """Add a mapping; see `run`."""
        check_instance("mapping", mapping, ImageMapping, "use an ImageMapping")
        try:
            fault = self._client.make({"kind": "image", "image": mapping.to_json()})
        except NotEmbeddedError:
            if mapping.pattern not in self.ignored:
                self.ignored.append(mapping.pattern)
            return MappedImage(mapping, None)
        return MappedImage(mapping, fault)

    def list_missing_isolation(self) -> list[str]:
        """Return a sentence for each restriction of the programs' isolation; empty if none ran."""
        return self._client.list_missing_isolation()

    def close(self) -> None:
        """Remove the mappings of this process."""
        self._client.undo_all()


def make_mapping(
    pattern: object,
    command: object = None,
    *,
    image: object = None,
    target: object = "",
    build_args: object = None,
    source: str | None = None,
    folder: Path | None = None,
    **given: Any,
) -> ImageMapping:
    """Return a mapping of the given values and of those that an image has.

    Args:
        image: the path of the image's file; see `Images.run` for it and the others.
        source: where the values come from, for messages.
        folder: the start of relative paths; None for the current directory.
        given: arguments of `make_image_mapping`; None for the image's, or the default.

    Raises:
        InvalidArgument: a value is invalid, or the image cannot be read.
    """
    values = {name: value for name, value in given.items() if value is not None}
    what = f"image {pattern}"
    if image is None:
        for name, unused in (("target", target), ("build_args", build_args)):
            if unused:
                raise InvalidArgument(f"{what}: {name}", unused, "it needs an image", source)
        words = () if command is None else command
        return make_image_mapping(pattern, words, **values, source=source, folder=folder)
    config = _read_config(what, image, target, build_args, source, folder)
    if command is None:
        command = config.entrypoint
        values.setdefault("args", config.cmd)
    env = values.get("env", {})
    if isinstance(env, Mapping):
        values["env"] = {**config.env, **env}
    if "PATH" in config.env and (not isinstance(env, Mapping) or "PATH" not in env):
        first, rest = _split_search_path(config.env["PATH"], values.get("files"))
        path = values.get("path", ())
        values["path"] = [*path, *first] if isinstance(path, list | tuple) else path
        values["env"]["PATH"] = os.pathsep.join((*rest, os.environ.get("PATH", os.defpath)))
    values.setdefault("workdir", config.workdir)
    values.setdefault("user", config.user)
    values.setdefault("stop_signal", config.stop_signal)
    return make_image_mapping(pattern, command, **values, source=source, folder=folder)


def _read_config(
    what: str, image: object, target: object, build_args: object, source: str | None,
    folder: Path | None,
) -> ImageConfig:  # fmt: skip
    """Return what an image says of its program.

    Raises:
        InvalidArgument: a value is invalid, or the image cannot be read.
    """
    # Most mappings name no image.
    from pytest_kwait.clusters.image_config.source import read_image_config

    if not isinstance(image, str | os.PathLike) or not str(image):
        valid = "use the path of a Dockerfile, an OCI layout or a docker archive"
        raise InvalidArgument(f"{what}: image", image, valid, source)
    if not isinstance(target, str):
        valid = "use the name of a stage or image"
        raise InvalidArgument(f"{what}: target", target, valid, source)
    build_args = {} if build_args is None else build_args
    if not isinstance(build_args, Mapping) or not all(
        isinstance(text, str) for pair in build_args.items() for text in pair
    ):
        valid = 'use a mapping of texts, as {"VERSION": "1.2"}'
        raise InvalidArgument(f"{what}: build_args", build_args, valid, source)
    try:
        path = (folder or Path.cwd()) / Path(image).expanduser()
        return read_image_config(path, target, build_args)
    except (ImageConfigError, RuntimeError) as error:  # no such user
        raise InvalidArgument(f"{what}: image", str(image), str(error), source) from None


def _split_search_path(path: str, files: object) -> tuple[list[str], list[str]]:
    """Return the first folders of an image's `PATH`, which `files` has, and the others.

    The first ones are those that the image itself has put there, as of a virtual environment: they
    come before this Python, and the machine's folders after it.
    """
    targets = list(files) if isinstance(files, Mapping) else []
    folders = path.split(":")
    number = 0
    while number < len(folders) and any(
        f"{folders[number]}/".startswith(f"{target}/") for target in targets
    ):
        number += 1
    return folders[:number], folders[number:]


def read_image_mappings(
    images: object, source: str, folder: Path | None = None
) -> list[ImageMapping]:
    """Return the mappings of a fixture `kwait_images`, or of a file.

    Args:
        images: a mapping of patterns to commands, or to mappings of the arguments of `run`.
        source: where it comes from, for messages.
        folder: the start of relative paths; None for the current directory.

    Raises:
        InvalidArgument: it is something else, or a value is invalid.
    """
    if not isinstance(images, Mapping):
        valid = 'use a mapping, as {"shop/web:*": ["python", "-m", "shop.web"]}'
        raise InvalidArgument("images", images, valid, source)
    mappings = []
    for pattern, value in images.items():
        given: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {"command": value}
        for name in given:
            if name not in _RUN_ARGUMENTS:
                near = get_close_matches(str(name), _RUN_ARGUMENTS, 1)
                hint = f"did you mean {near[0]}? " if near else ""
                valid = f"{hint}The arguments are {', '.join(_RUN_ARGUMENTS)}"
                raise InvalidArgument(f"image {pattern}", name, valid, source)
        mappings.append(make_mapping(pattern, **given, source=source, folder=folder))
    return mappings


def read_image_file(name: str, source: str) -> list[ImageMapping]:
    """Return the mappings of a YAML file, with what the fixture `kwait_images` may return.

    Relative paths start at the file's folder.

    Args:
        name: the path of the file.
        source: the option that names it.

    Raises:
        InvalidArgument: it cannot be read, or a value is invalid.
    """
    # PyYAML is not needed without a file.
    from pytest_kwait.clusters.kind_config import load_yaml

    try:
        path = Path(name).expanduser().absolute()
        documents = load_yaml(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InvalidArgument("images", name, f"it cannot be read: {reason}", source) from None
    except (ValueError, RuntimeError) as error:  # no UTF-8, no YAML, no such user
        raise InvalidArgument("images", name, str(error), source) from None
    if len(documents) != 1 or not isinstance(documents[0], Mapping):
        valid = "use a YAML file with a mapping, as shop/web:*: [python, -m, shop.web]"
        raise InvalidArgument("images", name, valid, source)
    return read_image_mappings(documents[0], f"{name}, {source}", path.parent)


def describe_ignored_images(patterns: Iterable[str], server: str) -> str:
    """Return the line of a run about mappings that its cluster does not use."""
    names = sorted(set(patterns))
    names_text = ", ".join(names[:_MAX_SHOWN]) + (", …" if len(names) > _MAX_SHOWN else "")
    subject = "1 image mapping is" if len(names) == 1 else f"{len(names)} image mappings are"
    return (
        f"{subject} not used ({names_text}): {server} is not an embedded cluster, its nodes "
        "pull these images"
    )
