from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.cluster_settings import settings_of_cluster
from pytest_kwait.suite.config.settings import Settings
from pytest_kwait.suite.config.values import read_clusters

if TYPE_CHECKING:
    from pytest_kwait.suite.config.clusters import FurtherCluster

_INI = "ini kwait_clusters"
_OPTIONS = (
    "--kubeconfig, --context, --nodes, --timing, --api-only, --isolation, --load-balancers, "
    "--controllers, --assets, --cluster-name, --cluster-config, --cluster-args, --node-image, "
    "--load-image, --keep-cluster"
)


def declared(text: str) -> FurtherCluster:
    [cluster] = read_clusters(text, "clusters", _INI)
    return cluster


def test_options_of_a_cluster() -> None:
    text = (
        "b=kind --node-image img:1 --load-image=a --load-image b --no-controllers "
        "--cluster-args='--wait 5m'"
    )
    settings = settings_of_cluster(declared(text), Settings(), Path())
    assert (settings.cluster, settings.node_image) == ("kind", "img:1")
    assert (settings.load_image, settings.controllers) == (("a", "b"), False)
    assert settings.cluster_args == ("--wait", "5m")
    assert settings.source("node_image") == "ini kwait_clusters, cluster b"


def test_nodes_of_a_cluster(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text("nodes: [{name: gpu, count: 2}]\n")
    text = "b = embedded --nodes=nodes.yaml"
    settings = settings_of_cluster(declared(text), Settings(), tmp_path)
    assert str(settings.nodes) == "gpu-1, gpu-2"
    assert settings_of_cluster(declared("b = embedded --nodes=5"), Settings(), tmp_path).nodes == 5


def test_settings_of_the_run_hold_but_for_its_cluster() -> None:
    run = Settings().merged(
        {"context": "staging", "timing": "real", "artifacts": Path("out"), "poll": "1s"},
        lambda definition: f"option {definition.flag}",
    )
    cluster = declared("b = existing --kubeconfig=there/config --context=lab")
    settings = settings_of_cluster(cluster, run, Path("/suite"))
    assert (settings.cluster, settings.context) == ("existing", "lab")
    assert settings.kubeconfig == Path("/suite/there/config")
    assert (settings.timing, settings.artifacts, settings.poll) == ("fast", Path("out"), 1.0)
    assert settings.clusters == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "b = embedded --timing=slow",
            f"timing='slow' (from {_INI}, cluster b) is not valid: use fast or real",
        ),
        (
            "b = kind --node-imag=x",
            f"clusters='--node-imag' (from {_INI}) is not valid: cluster b has no such option: did "
            f"you mean --node-image or --load-image? the options are {_OPTIONS}",
        ),
        (
            "b = kind extra",
            f"clusters='extra' (from {_INI}) is not valid: cluster b has no such option: the "
            f"options are {_OPTIONS}",
        ),
        (
            "b = embedded --api-only=yes",
            f"clusters='--api-only=yes' (from {_INI}) is not valid: --api-only of cluster b takes "
            "no value",
        ),
        (
            "b = existing --context",
            f"clusters='--context' (from {_INI}) is not valid: --context of cluster b takes a "
            "value: --context=NAME",
        ),
    ],
)
def test_an_invalid_option_is_refused(text: str, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        settings_of_cluster(declared(text), Settings(), Path())
    assert str(refused.value) == message
