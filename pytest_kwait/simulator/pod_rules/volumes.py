"""Volumes: one source each, and what every source needs.

Source: pkg/apis/core/validation/validation.go, ValidateVolumes, validateVolumeSource.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kwait.scheduler.algorithm.quantities import parse_quantity
from pytest_kwait.simulator.formats import (
    dns_label_texts,
    dns_subdomain_texts,
)
from pytest_kwait.simulator.pod_rules.claim_templates import check_claim_template
from pytest_kwait.simulator.pod_rules.paths import (
    check_descending,
    check_mode,
)
from pytest_kwait.simulator.pod_rules.projections import (
    check_downward_files,
    check_items,
    check_projected,
)
from pytest_kwait.simulator.rules.volume_sources import (
    ONE_TOO_MANY,
    SHARED,
    SHOWN,
    check_driver,
    check_portal,
    needs,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kwait.simulator.findings import Findings
    from pytest_kwait.simulator.objects import Obj

__all__ = ["check_volumes"]

_PULL_POLICIES = ("Always", "IfNotPresent", "Never")


def check_volumes(
    volumes: list[Obj] | tuple[()], owner: str, at: str, found: Findings, *, pod: bool
) -> dict[str, Obj]:
    """Add what is wrong with `volumes`, and return the sound ones by name.

    Args:
        volumes: the list of the spec.
        owner: the pod's name; empty for a template.
        at: the path of the list.
        found: what is added to.
        pod: whether it is a pod and not a template.
    """
    sound: dict[str, Obj] = {}
    made = {f"{owner}-{one.get('name', '')}" for one in volumes if owner and "ephemeral" in one}
    for index, volume in enumerate(volumes):
        here = f"{at}[{index}]"
        before = len(found)
        name = volume.get("name", "")
        _check_source(volume, name, owner, here, found, pod=pod)
        if not name:
            found.required(f"{here}.name")
        else:
            found.texts(f"{here}.name", name, dns_label_texts(name))
        if name in sound:
            found.duplicate(f"{here}.name", name)
        if len(found) == before:
            sound[name] = volume
        claim = volume.get("persistentVolumeClaim", {}).get("claimName")
        if claim is not None and claim in made:
            found.invalid(
                f"{here}.persistentVolumeClaim.claimName",
                claim,
                "must not reference a PVC that gets created for an ephemeral volume",
            )
    return sound


def _check_source(
    volume: Obj, name: str, owner: str, at: str, found: Findings, *, pod: bool
) -> None:
    taken = False
    for source in volume.keys() - {"name"} if len(volume) <= _ONE else _SOURCES:
        value = volume.get(source)
        if value is None:
            continue
        if taken:
            found.forbidden(f"{at}.{SHOWN.get(source, source)}", ONE_TOO_MANY)
        else:
            taken = True
            here = f"{at}.{'persistentDisk' if source == 'gcePersistentDisk' else source}"
            if source == "image":
                _check_image(value, here, found, pod=pod)
            else:
                _SOURCES[source](value, here, found)
        if source == "iscsi":
            check_portal(value, name, f"{at}.name", found)
        elif source == "ephemeral" and owner and name:
            claim = f"{owner}-{name}"
            texts = dns_subdomain_texts(claim)
            found.texts(f"{at}.name", name, [f'PVC name "{claim}": {text}' for text in texts])
    if not taken:
        found.required(at, "must specify a volume type")


_ONE = 2


def _check_empty_dir(source: Obj, at: str, found: Findings) -> None:
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit).amount < 0:
        found.forbidden(f"{at}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _check_git_repo(source: Obj, at: str, found: Findings) -> None:
    if not source.get("repository"):
        found.required(f"{at}.repository")
    check_descending(source.get("directory", ""), f"{at}.directory", found)


def _keyed(name: str) -> Callable[[Obj, str, Findings], None]:
    """A source of files by keys: a secret or a config map, named by the field `name`."""

    def check(source: Obj, at: str, found: Findings) -> None:
        if not source.get(name):
            found.required(f"{at}.{name}")
        check_mode(source.get("defaultMode"), f"{at}.defaultMode", found)
        check_items(source, at, found)

    return check


def _check_downward(source: Obj, at: str, found: Findings) -> None:
    check_mode(source.get("defaultMode"), f"{at}.defaultMode", found)
    check_downward_files(source, at, found)


def _check_csi(source: Obj, at: str, found: Findings) -> None:
    check_driver(source.get("driver", ""), f"{at}.driver", found)
    secret = source.get("nodePublishSecretRef")
    if secret is not None and not secret.get("name"):
        found.required(f"{at}.nodePublishSecretRef.name")
    elif secret is not None:
        found.texts(f"{at}.name", secret["name"], dns_subdomain_texts(secret["name"]))


def _check_ephemeral(source: Obj, at: str, found: Findings) -> None:
    if "volumeClaimTemplate" not in source:
        found.required(f"{at}.volumeClaimTemplate")
    else:
        check_claim_template(source["volumeClaimTemplate"], f"{at}.volumeClaimTemplate", found)


def _check_image(source: Obj, at: str, found: Findings, *, pod: bool = True) -> None:
    if pod and not source.get("reference"):
        found.required(f"{at}.reference")
    found.one_of(f"{at}.pullPolicy", source.get("pullPolicy", ""), _PULL_POLICIES)


_SOURCES: dict[str, Callable[[Obj, str, Findings], None]] = {
    # In the order in which the server looks at them.
    "emptyDir": _check_empty_dir,
    "hostPath": SHARED["hostPath"],
    "gitRepo": _check_git_repo,
    "gcePersistentDisk": SHARED["gcePersistentDisk"],
    "awsElasticBlockStore": SHARED["awsElasticBlockStore"],
    "secret": _keyed("secretName"),
    "nfs": SHARED["nfs"],
    "iscsi": SHARED["iscsi"],
    "glusterfs": SHARED["glusterfs"],
    "flocker": SHARED["flocker"],
    "persistentVolumeClaim": needs("claimName"),
    "rbd": SHARED["rbd"],
    "cinder": SHARED["cinder"],
    "cephfs": SHARED["cephfs"],
    "quobyte": SHARED["quobyte"],
    "downwardAPI": _check_downward,
    "fc": SHARED["fc"],
    "flexVolume": SHARED["flexVolume"],
    "configMap": _keyed("name"),
    "azureFile": SHARED["azureFile"],
    "vsphereVolume": SHARED["vsphereVolume"],
    "photonPersistentDisk": SHARED["photonPersistentDisk"],
    "portworxVolume": SHARED["portworxVolume"],
    "azureDisk": SHARED["azureDisk"],
    "storageos": SHARED["storageos"],
    "projected": check_projected,
    "scaleIO": SHARED["scaleIO"],
    "csi": _check_csi,
    "ephemeral": _check_ephemeral,
    "image": _check_image,
}
