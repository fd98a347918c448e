"""Volumes of kinds that go away, and files in them that hide each other.

Source: pkg/api/pod/warnings.go, warningsForOverlappingVirtualPaths.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pytest_kwait.simulator.validation.core.recently_valid import RecentlyValid

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pytest_kwait.simulator.objects import Obj

__all__ = ["get_volume_warnings"]

_DEPRECATED_SOURCES = {
    # By source: how the path calls it, and what is said.
    "photonPersistentDisk": (
        "photonPersistentDisk",
        "deprecated in v1.11, non-functional in v1.16+",
    ),
    "gitRepo": ("gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    "scaleIO": ("scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    "flocker": ("flocker", "deprecated in v1.22, non-functional in v1.25+"),
    "storageos": ("storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    "quobyte": ("quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    "glusterfs": ("glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    "cephfs": ("cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    "rbd": ("rbd", "deprecated in v1.28, non-functional in v1.31+"),
}


_RECENTLY_CLEAN = RecentlyValid()
_WITH_FILES = frozenset({"configMap", "secret", "downwardAPI"})


class _VirtualFile(NamedTuple):
    path: str
    source: str

    def __str__(self) -> str:
        return f'"{self.path}" ({self.source})' if self.source else f'"{self.path}"'


def get_volume_warnings(volumes: list[Obj], at: str) -> Iterator[str]:
    """The warnings about a pod's volumes."""
    for index, volume in enumerate(volumes):
        for source in volume:
            if source in _DEPRECATED_SOURCES:
                called, text = _DEPRECATED_SOURCES[source]
                yield f"{at}.volumes[{index}].{called}: {text}"
    for volume in volumes:
        if "projected" in volume:
            if volume["projected"] not in _RECENTLY_CLEAN:
                texts = list(_find_projected_overlaps(volume))
                yield from texts
                if not texts:
                    _RECENTLY_CLEAN.add(volume["projected"])
        elif _WITH_FILES & volume.keys():
            yield from _find_overlaps(volume)


def _find_overlaps(volume: Obj) -> Iterator[str]:
    name = volume.get("name", "")
    for field, called, key in (
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ):
        source = volume.get(field, {})
        what = f'{called} "{source.get(key, "")}"' if key else called
        files = [_VirtualFile(item.get("path", ""), "") for item in source.get("items", ())]
        yield from _find_collisions(files, [], f'volume "{name}" ({what}): overlapping paths: ')


def _find_projected_overlaps(volume: Obj) -> Iterator[str]:
    name = volume.get("name", "")
    seen: list[_VirtualFile] = []
    lead = f'volume "{name}" (Projected): overlapping paths: '
    sources = volume["projected"].get("sources") or ()
    listed = [_list_files(source) for source in sources]
    paths = [file.path for files in listed for file in files]
    apart = len(set(paths)) == len(paths) and not any("/" in path for path in paths)
    for source, files in zip(sources, listed, strict=True):
        if not source:
            yield f'volume "{name}" (Projected) has no sources provided'
        elif not apart:
            yield from _find_collisions(files, seen, lead)


def _list_files(source: Obj) -> Iterable[_VirtualFile]:
    if "serviceAccountToken" in source:
        return [_VirtualFile(source["serviceAccountToken"].get("path", ""), "ServiceAccountToken")]
    for field, called in (("configMap", "ConfigMap"), ("secret", "Secret")):
        items = source.get(field, {}).get("items")
        if items:
            what = f'{called} "{source[field].get("name", "")}"'
            return [_VirtualFile(item.get("path", ""), what) for item in items]
    if source.get("downwardAPI", {}).get("items"):
        items = source["downwardAPI"]["items"]
        return [_VirtualFile(item.get("path", ""), "DownwardAPI") for item in items]
    return []


def _find_collisions(
    files: Iterable[_VirtualFile], seen: list[_VirtualFile], lead: str
) -> Iterator[str]:
    for file in files:
        one = file._replace(path=file.path.rstrip("/"))
        for other in seen:
            if one.path and other.path and _is_same_path(one.path, other.path):
                yield f"{lead}{one} with {other}"
        seen.append(one)


def _is_same_path(one: str, other: str) -> bool:
    return f"{one}/".startswith(f"{other}/") or f"{other}/".startswith(f"{one}/")
