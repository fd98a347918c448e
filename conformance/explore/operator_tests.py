"""What the operator of Sites must do, as a test for each race that can be planted in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.explore.site_operator import LEASE, PORTS, SITE_LABEL, Race, site
from conformance.explore.workloads import look_around, wait_until_served

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.explore.conftest import Start
    from pytest_kwait import Kwait


def uids_of_pages(kwait: Kwait) -> dict[str, str]:
    """Return the UIDs of all pages by the names of their Sites."""
    pages = [page["metadata"] for page in kwait.list("configmaps", selector=SITE_LABEL)]
    return {page["labels"][SITE_LABEL]: page["uid"] for page in pages}


def check_labels_of_new_site(kwait: Kwait, start: Start, race: Race | None) -> None:
    """A Site that others label while it is new becomes ready."""
    start.operator(race)
    kwait.create(site("first"))
    wait_until_served(kwait, "first")
    kwait.create(site("home"))
    look_around(kwait)
    kwait.label("site/home", {"team": "a"})
    wait_until_served(kwait, "home")


def check_ports(kwait: Kwait, start: Start, race: Race | None) -> None:
    """Two Sites have two ports."""
    start.operator(race)
    for name in ("home", "news"):
        kwait.create(site(name))
        wait_until_served(kwait, name)
        look_around(kwait)
    ports = kwait.get(f"configmap/{PORTS}")["data"]
    assert len(set(ports.values())) == 2, ports


def check_records_of_deleted_sites(kwait: Kwait, start: Start, race: Race | None) -> None:
    """A record goes with its Site."""
    start.operator(race)
    names = ("docs", "help", "home", "news", "shop")
    for name in names:
        kwait.create(site(name))
    for name in names:
        wait_until_served(kwait, name)
    for name in names:
        kwait.delete_and_wait(f"site/{name}")
    for name in names:
        kwait.wait_for(f"configmap/{name}-record", "delete")


def check_number_of_pages(kwait: Kwait, start: Start, race: Race | None) -> None:
    """A Site that changes keeps its one page."""
    start.operator(race)
    kwait.create(site("home"))
    wait_until_served(kwait, "home")
    look_around(kwait)
    kwait.patch("site/home", {"spec": {"text": "Closed"}})
    wait_until_served(kwait, "home")
    pages = kwait.list("configmaps", selector=f"{SITE_LABEL}=home")
    assert len(pages) == 1, [page["metadata"]["name"] for page in pages]


def check_pages_at_restart(kwait: Kwait, start: Start, race: Race | None) -> None:
    """An operator that starts leaves the pages alone that it finds."""
    former = start.operator(None)
    names = ("home", "news", "shop")
    for name in names:
        kwait.create(site(name))
    for name in names:
        wait_until_served(kwait, name)
    former.stop()
    pages = uids_of_pages(kwait)
    start.operator(race)
    for name in names:
        kwait.patch(f"site/{name}", {"spec": {"text": "Closed"}})
        wait_until_served(kwait, name)
    assert uids_of_pages(kwait) == pages


def check_record_of_new_site(kwait: Kwait, start: Start, race: Race | None) -> None:
    """The record of a Site goes with it also if the Site was never ready."""
    start.operator(race)
    kwait.create(site("first"))
    wait_until_served(kwait, "first")
    kwait.create(site("home"))
    kwait.wait_for("configmap/home-record", "create")
    look_around(kwait)
    kwait.delete_and_wait("site/home")
    kwait.wait_for("configmap/home-record", "delete")


def check_owner_of_page(kwait: Kwait, start: Start, race: Race | None) -> None:
    """The page of a Site that was made again is its own."""
    start.operator(race)
    kwait.create(site("home"))
    wait_until_served(kwait, "home")
    kwait.delete_and_wait("site/home")
    look_around(kwait)
    kwait.create(site("home", "Welcome back"))
    uid = wait_until_served(kwait, "home")["metadata"]["uid"]
    (owner,) = kwait.get("configmap/home-page")["metadata"]["ownerReferences"]
    assert owner["uid"] == uid


def check_conditions(kwait: Kwait, start: Start, race: Race | None) -> None:
    """The operator and its prober keep each other's conditions."""

    def both(found: dict[str, Any]) -> bool:
        conditions = {each["type"]: each for each in found["status"]["conditions"]}
        return "Reachable" in conditions and conditions["Ready"]["observedGeneration"] == 2

    start.operator(race)
    kwait.create(site("home"))
    wait_until_served(kwait, "home")
    look_around(kwait)
    kwait.patch("site/home", {"spec": {"text": "Closed"}})
    kwait.wait_for("site/home", both)


def check_leaders(kwait: Kwait, start: Start, race: Race | None) -> None:
    """Of two candidates one leads at a time."""
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": LEASE}}
    kwait.create({**lease, "spec": {"holderIdentity": "", "leaseTransitions": 0}})
    first = start.candidate("a", race)
    look_around(kwait)
    second = start.candidate("b", race)
    kwait.wait_for(f"lease/{LEASE}", lambda found: found["spec"]["leaseTransitions"] >= 8)
    for candidate in (first, second):
        candidate.stop()
    overlaps = [
        (one, other)
        for one in first.terms
        for other in second.terms
        if max(one[0], other[0]) < min(one[1], other[1])
    ]
    assert not overlaps


def check_changes_of_sites(kwait: Kwait, start: Start, race: Race | None) -> None:
    """Each change of each Site is served."""
    start.operator(race)
    names = ("home", "news", "shop")
    for name in names:
        kwait.create(site(name))
    for name in names:
        wait_until_served(kwait, name)
        kwait.patch(f"site/{name}", {"spec": {"text": "Closed"}})
    for name in names:
        wait_until_served(kwait, name)


def check_many_sites(kwait: Kwait, start: Start, race: Race | None) -> None:
    """Each of many Sites is served."""
    start.operator(race)
    names = ("docs", "help", "home", "news", "shop")
    for name in names:
        kwait.create(site(name))
    for name in names:
        wait_until_served(kwait, name)


def check_text_of_site(kwait: Kwait, start: Start, race: Race | None) -> None:
    """A page has the text of the config map that its Site names."""
    start.operator(race)
    texts = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "texts"}}
    kwait.create({**texts, "data": {"text": "Hello"}})
    look_around(kwait)
    kwait.create(site("home", text_from="texts"))
    wait_until_served(kwait, "home")
    assert "Hello" in kwait.get("configmap/home-page")["data"]["index.html"]


TESTS: dict[Race, Callable[[Kwait, Start, Race | None], None]] = {
    Race.LOST_UPDATE: check_labels_of_new_site,
    Race.CACHE_READ_AFTER_WRITE: check_ports,
    Race.MISSED_DELETE: check_records_of_deleted_sites,
    Race.DOUBLE_CREATE: check_number_of_pages,
    Race.READY_BEFORE_SYNCED: check_pages_at_restart,
    Race.FINALIZER_RACE: check_record_of_new_site,
    Race.STALE_OWNER: check_owner_of_page,
    Race.STATUS_OVERWRITE: check_conditions,
    Race.LEASE_RACE: check_leaders,
    Race.WATCH_WITHOUT_RESYNC: check_changes_of_sites,
    Race.REFUSED_REQUEST: check_many_sites,
    Race.EVENT_ORDER: check_text_of_site,
}
"""The test that each race fails now and then."""
