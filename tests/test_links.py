"""Links of the pages, on a code host and on the site."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

from tests.rows import check_rows

ROOT = Path(__file__).parent.parent
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def read_prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return re.sub(r"^(```+).*?^\1$", "", page.read_text(), flags=re.M | re.S)


def read_links(page: Path) -> list[str]:
    """Return the targets of a page's links and images."""
    return re.findall(r"\]\(([^)\s]+)\)", read_prose(page))


def read_anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as code hosts and the site make them."""
    anchors: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", read_prose(page), re.M):
        text = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
        number = sum(each == slug or bool(re.fullmatch(rf"{slug}-\d+", each)) for each in anchors)
        anchors.add(f"{slug}-{number}" if number else slug)
    return anchors


def test_links_lead_somewhere() -> None:
    check_rows(PAGES, _check_targets)


def _check_targets(page: Path) -> None:
    links = [link for link in read_links(page) if not link.startswith("https:")]

    assert [each for each in links if not (page.parent / each.partition("#")[0]).exists()] == []


def test_links_to_headings_lead_to_one() -> None:
    check_rows(PAGES, _check_anchors)


def _check_anchors(page: Path) -> None:
    links = [link.partition("#") for link in read_links(page) if not link.startswith("https:")]
    targets = [
        (page.parent / name if name else page, anchor) for name, hash_, anchor in links if hash_
    ]

    assert [
        f"{target.name}#{anchor}"
        for target, anchor in targets
        if anchor not in read_anchors(target)
    ] == []


def test_links_to_other_sites_are_well_formed() -> None:
    check_rows(PAGES, _check_addresses)


def _check_addresses(page: Path) -> None:
    links = [urlsplit(link) for link in read_links(page) if re.match(r"[a-z]+:", link)]

    assert [
        each.geturl() for each in links if each.scheme != "https" or "." not in each.netloc
    ] == []


def test_the_index_lists_every_page_once() -> None:
    folder = ROOT / "docs"
    index = folder / "index.md"
    listed = re.findall(r"^- \[[^]]+\]\(([^)]+)\)", read_prose(index), re.M)

    assert sorted(listed) == sorted(
        page.relative_to(folder).as_posix() for page in folder.rglob("*.md") if page != index
    )
