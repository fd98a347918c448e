from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.simulator.runtimes.processes import links
from pytest_kwait.simulator.runtimes.processes.links import (
    DanglingLink,
    ImageFolders,
    find_dangling_links,
    find_missing_path,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def private(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that each container has for itself, as `/tmp`."""
    private = tmp_path / "private"
    private.mkdir()
    monkeypatch.setattr(links, "OWN_FOLDERS", (str(private),))
    links._find_links.cache_clear()
    yield private
    links._find_links.cache_clear()


def _make_folders(*visible: Path, workdir: str | Path = "/", **files: str | Path) -> ImageFolders:
    targets = tuple((f"/{name}", str(path)) for name, path in files.items())
    return ImageFolders(tuple(map(str, visible)), targets, ("/data",), str(workdir))


def test_a_link_out_of_the_visible_folders_dangles(private: Path) -> None:
    farm, store = private / "farm", private / "store"
    (farm / "inner").mkdir(parents=True)
    store.mkdir()
    (store / "tool").touch()
    (farm / "inner" / "tool").symlink_to(store / "tool")
    (farm / "shell").symlink_to("/bin/sh")
    (farm / "own").symlink_to("inner")
    (farm / "broken").symlink_to(store / "nothing")
    (farm / "volume").symlink_to("/data/file")
    missing = str(store / "tool")
    expected = DanglingLink(str(farm / "inner" / "tool"), missing, missing)
    assert find_dangling_links(_make_folders(farm)) == (expected,)
    assert find_dangling_links(_make_folders(farm, store)) == ()
    assert find_dangling_links(_make_folders(farm, **{missing[1:]: missing})) == ()


def test_a_link_through_a_link_names_what_is_missing(private: Path, tmp_path: Path) -> None:
    """The working directory is the machine's own, the second link is in a private folder."""
    work = tmp_path / "work"
    work.mkdir()
    (private / "hop").symlink_to("/bin/sh")
    (work / "tool").symlink_to(private / "hop")
    (found,) = find_dangling_links(_make_folders(workdir=work))
    assert found == DanglingLink(
        str(work / "tool"), str(private / "hop"), str(Path("/bin/sh").resolve())
    )


def test_a_relative_link_out_of_mapped_files_dangles(private: Path, tmp_path: Path) -> None:
    """It leads to another place in the container than on the machine."""
    source = tmp_path / "source"
    (source / "src").mkdir(parents=True)
    (source / "config").touch()
    (source / "src" / "config").symlink_to("../config")
    (source / "src" / "same").symlink_to("./config")
    config = str(source / "config")
    found = find_dangling_links(_make_folders(**{"srv/app": source / "src"}))
    assert found == (
        DanglingLink("/srv/app/config", "/srv/config", config),
        DanglingLink("/srv/app/same", "/srv/config", config),
    )
    files: dict[str, str | Path] = {"srv/app": source / "src", "srv/config": config}
    assert find_dangling_links(_make_folders(**files)) == ()


def test_programs_of_packages_do_not_dangle(private: Path) -> None:
    """Links of node_modules/.bin, and of an environment to the machine's interpreter."""
    modules = private / "app" / "node_modules"
    (modules / ".bin").mkdir(parents=True)
    (modules / "tool").mkdir()
    (modules / "tool" / "cli.js").touch()
    (modules / ".bin" / "tool").symlink_to("../tool/cli.js")
    (private / "app" / "python").symlink_to("/usr/bin/env")
    assert find_dangling_links(_make_folders(private / "app")) == ()


def test_links_that_lead_to_each_other_are_left_out(private: Path) -> None:
    (private / "app").mkdir()
    (private / "app" / "a").symlink_to("b")
    (private / "app" / "b").symlink_to("a")
    folders = _make_folders(private / "app")
    assert find_dangling_links(folders) == ()
    assert find_missing_path(folders, str(private / "app" / "a")) == str(private / "app" / "a")


def test_upper_folders_are_looked_at_first(private: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of entries is limited."""
    farm = private / "farm"
    (farm / "a").mkdir(parents=True)
    (private / "tool").touch()
    for name in ("a/1", "a/2", "z"):
        (farm / name).symlink_to(private / "tool")
    monkeypatch.setattr(links, "_MAX_ENTRIES", 3)
    found = find_dangling_links(_make_folders(farm))
    assert [link.path for link in found] == [f"{farm}/z", f"{farm}/a/1"]


def test_a_changed_folder_is_looked_at_again(private: Path) -> None:
    farm = private / "farm"
    farm.mkdir()
    (private / "tool").touch()
    assert find_dangling_links(_make_folders(farm)) == ()
    (farm / "tool").symlink_to(private / "tool")
    assert len(find_dangling_links(_make_folders(farm))) == 1
