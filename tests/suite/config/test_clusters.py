from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kwait.errors import InvalidArgument
from pytest_kwait.suite.config.clusters import FurtherCluster, parse_clusters
from pytest_kwait.suite.config.settings import Settings

_INI = "ini kwait_clusters"
_FORM = "use NAME = PROVIDER [OPTIONS], for example 'b = kind --node-image=kindest/node:v1.35.0'"
_OPTIONS = (
    "--kubeconfig, --context, --timing, --api-only, --isolation, --controllers, --assets, "
    "--cluster-name, --cluster-config, --cluster-args, --node-image, --load-image, --keep-cluster"
)


@pytest.mark.parametrize(
    "value",
    [
        "\nb = embedded\nplain=embedded --api-only\n\n",
        ["b = embedded", "plain = embedded --api-only"],
        {"b": "embedded", "plain": "embedded --api-only"},
    ],
)
def test_forms_of_a_declaration(value: Any) -> None:
    assert parse_clusters(value, _INI) == (
        FurtherCluster("b", "embedded", {}, _INI),
        FurtherCluster("plain", "embedded", {"api_only": "true"}, _INI),
    )


def test_options_of_a_cluster() -> None:
    text = (
        "b=kind --node-image img:1 --load-image=a --load-image b --no-controllers "
        "--cluster-args='--wait 5m'"
    )
    [cluster] = parse_clusters([text], _INI)
    assert cluster.options == {
        "node_image": "img:1",
        "load_image": ["a", "b"],
        "controllers": "false",
        "cluster_args": "--wait 5m",
    }
    assert str(cluster) == "b (kind)"


def test_settings_of_a_cluster() -> None:
    run = Settings().merged(
        {"context": "staging", "timing": "real", "artifacts": Path("out"), "poll": "1s"},
        lambda definition: f"option {definition.flag}",
    )
    [cluster] = parse_clusters("b = existing --kubeconfig=there/config --context=lab", _INI)
    settings = cluster.settings(run, Path("/suite"))
    assert (settings.cluster, settings.context) == ("existing", "lab")
    assert settings.kubeconfig == Path("/suite/there/config")
    assert settings.source("context") == "ini kwait_clusters, cluster b"
    # The choice of the run's own cluster does not count, its other settings do.
    assert (settings.timing, settings.artifacts, settings.poll) == ("fast", Path("out"), 1.0)
    assert settings.clusters == ()


def test_a_value_of_an_option_is_checked() -> None:
    [cluster] = parse_clusters("b = embedded --timing=slow", _INI)
    with pytest.raises(InvalidArgument) as refused:
        cluster.settings(Settings(), Path())
    assert str(refused.value) == (
        "timing='slow' (from ini kwait_clusters, cluster b) is not valid: use fast or real"
    )


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("", f"clusters='' (from {_INI}) is not valid: {_FORM}"),
        (7, f"clusters=7 (from {_INI}) is not valid: {_FORM}"),
        ({}, f"clusters={{}} (from {_INI}) is not valid: {_FORM}"),
        ([7], f"clusters=7 (from {_INI}) is not valid: {_FORM}"),
        ("embedded", f"clusters='embedded' (from {_INI}) is not valid: {_FORM}"),
        ("b =", f"clusters='' (from {_INI}) is not valid: cluster b has no provider; {_FORM}"),
        (
            {"b": ["kind"]},
            f"clusters=['kind'] (from {_INI}) is not valid: cluster b has no provider; {_FORM}",
        ),
        (
            "b = --api-only",
            f"clusters=' --api-only' (from {_INI}) is not valid: cluster b has no provider; "
            f"{_FORM}",
        ),
        (
            "b = kind 'x",
            f'clusters=" kind \'x" (from {_INI}) is not valid: No closing quotation; {_FORM}',
        ),
        (
            "B_1 = kind",
            f"clusters='B_1' (from {_INI}) is not valid: use up to 63 lower-case letters, digits "
            "and '-', with a letter or digit at both ends",
        ),
        ("b = kind\nb = k3d", f"clusters='b' (from {_INI}) is not valid: use each name once"),
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
def test_an_invalid_declaration_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse_clusters(value, _INI)
    assert str(refused.value) == message
