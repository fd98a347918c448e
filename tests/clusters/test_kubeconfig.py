from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_kwait.client.impersonation import Impersonation
from pytest_kwait.clusters.kubeconfig import (
    Kubeconfig,
    RestConfig,
    home_folder,
    in_cluster,
    merge,
    read_kubeconfig,
    standard_paths,
)
from pytest_kwait.errors import ClusterError
from tests.clusters.kubeconfigs import contents, written

SOURCE = "option --kwait-kubeconfig"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config"


def refusal(file: Path, context: str | None = None, source: str | None = None) -> str:
    """Return the error's text without path and source."""
    with pytest.raises(ClusterError) as caught:
        read_kubeconfig(file, SOURCE).target(context, source)
    return str(caught.value).replace(f"kubeconfig {file} (from {SOURCE})", "FILE")


def test_fields_of_a_context(file: Path) -> None:
    kubeconfig = read_kubeconfig(written(file, contents("east", "west")))
    assert kubeconfig.contexts == ("east", "west")
    assert kubeconfig.target() == RestConfig(
        file, "east", "https://east.example:6443", "east", None, pinned=False, is_static=True
    )
    west = kubeconfig.target("west")
    assert west == RestConfig(
        file, "west", "https://west.example:6443", "west", None, pinned=True, is_static=True
    )


@pytest.mark.parametrize("given", ["exec", "auth-provider"])
def test_credentials_of_a_program_are_not_static(file: Path, given: str) -> None:
    content = contents("east") | {"users": [{"name": "east", "user": {given: {}}}]}
    assert not read_kubeconfig(written(file, content)).target().is_static


def test_a_user_may_act_as_another(file: Path) -> None:
    user = {
        "token": "t",
        "as": "jane",
        "as-uid": "1",
        "as-groups": ["devs"],
        "as-user-extra": {"scopes": ["read"]},
    }
    kubeconfig = read_kubeconfig(
        written(file, contents("east") | {"users": [{"name": "east", "user": user}]})
    )
    jane = Impersonation("jane", ("devs",), "1", {"scopes": ("read",)})
    assert kubeconfig.target().impersonation == jane
    assert kubeconfig.select(None)["users"] == [{"name": "east", "user": user}]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"as-groups": ["devs"], "as-uid": "1"},
            "FILE: user 'east' has as-uid, as-groups without `as`, the user to act as",
        ),
        *(
            (
                {"as": "jane"} | wrong,
                f"FILE: user 'east': {', '.join({'as': 0} | wrong)} cannot be used: `as` and "
                "`as-uid` are texts, `as-groups` a list of texts, and `as-user-extra` a mapping of "
                "texts to lists of texts",
            )
            for wrong in (
                {"as": ["jane"]},
                {"as-uid": 7},
                {"as-groups": "devs"},
                {"as-groups": [7]},
                {"as-user-extra": {"scopes": "read"}},
                {"as-user-extra": ["scopes"]},
            )
        ),
    ],
)
def test_an_impersonation_that_cannot_be_used(
    file: Path, fields: dict[str, Any], message: str
) -> None:
    written(file, contents("east") | {"users": [{"name": "east", "user": fields}]})
    assert refusal(file) == message


def test_a_selected_user_acts_as_another(file: Path) -> None:
    user = {"tokenFile": "token", "as": "john", "as-uid": "1"}
    content = contents("east") | {"users": [{"name": "east", "user": user}]}
    kubeconfig = read_kubeconfig(written(file, content))
    selected = kubeconfig.select(None, impersonation=Impersonation("jane", ("devs",)))
    own = {"tokenFile": str(file.parent / "token"), "as": "jane", "as-groups": ["devs"]}
    assert selected["users"] == [{"name": "east", "user": own}]
    assert selected["contexts"][0]["context"]["user"] == "east"


def test_kubectl_command_has_file_and_context(file: Path) -> None:
    kubeconfig = read_kubeconfig(written(file, contents("east", "west")))
    assert kubeconfig.target().kubectl_args == ("--kubeconfig", str(file))
    assert kubeconfig.target("west").kubectl_args == (
        *("--kubeconfig", str(file)),
        *("--context", "west"),
    )


def test_json_is_a_kubeconfig_too(file: Path) -> None:
    text = (
        '{"current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}],'
        ' "clusters": [{"name": "a", "cluster": {"server": "http://localhost"}}]}'
    )
    target = read_kubeconfig(written(file, text)).target()
    assert (target.server, target.user) == ("http://localhost", "")


def test_home_is_expanded_and_the_path_absolute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path / "config", contents("a"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert read_kubeconfig(Path("~/config")).path == file
    assert read_kubeconfig(Path("config")).path == file


def test_the_home_of_a_missing_user_is_an_error() -> None:
    with pytest.raises(ClusterError) as caught:
        read_kubeconfig(Path("~absent-user/config"), SOURCE)
    problem = "is not valid: there is no such user"
    assert str(caught.value) == f"kubeconfig ~absent-user/config (from {SOURCE}) {problem}"
    with pytest.raises(ClusterError) as caught:
        standard_paths({"KUBECONFIG": "a:~absent-user/b"}, Path("/home"))
    assert str(caught.value) == f"kubeconfig ~absent-user/b (from env KUBECONFIG) {problem}"


def test_a_user_without_a_home_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(cls: type[Path]) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", classmethod(fail))
    with pytest.raises(ClusterError) as caught:
        home_folder()
    assert str(caught.value) == "this user has no home folder; set HOME"


def test_a_missing_file_is_named_with_its_source(file: Path) -> None:
    with pytest.raises(ClusterError) as caught:
        read_kubeconfig(file, SOURCE)
    assert str(caught.value) == f"kubeconfig {file} (from {SOURCE}) does not exist"
    with pytest.raises(ClusterError) as caught:
        read_kubeconfig(file)
    assert str(caught.value) == f"kubeconfig {file} does not exist"


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "FILE cannot be read: Is a directory"


def test_bytes_are_no_text(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\x00")
    assert refusal(file) == "FILE is not text"


_VALID = "it must be a YAML mapping of kind Config, with clusters, users and contexts"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a: b\nc: [",
            "FILE is not YAML: expected the node content, but found '<stream end>' in line 2",
        ),
        ("a: \x01", "FILE is not YAML: it has characters that YAML forbids"),
        ("just text", f"FILE is not a kubeconfig: {_VALID}"),
        ("- a", f"FILE is not a kubeconfig: {_VALID}"),
        ("kind: Pod", f"FILE is not a kubeconfig: {_VALID}"),
        (
            "clusters: {a: b}",
            "FILE is not a kubeconfig: its clusters must be a list of name and cluster",
        ),
        ("users: [a]", "FILE is not a kubeconfig: its users must be a list of name and user"),
        (
            "contexts: [{name: a, context: b}]",
            "FILE is not a kubeconfig: its contexts must be a list of name and context",
        ),
        (
            "contexts: [{name: 1}]",
            "FILE is not a kubeconfig: its contexts must be a list of name and context",
        ),
        ("", "FILE has no current context: name one; it has no contexts"),
    ],
)
def test_invalid_kubeconfig_is_refused(file: Path, text: str, message: str) -> None:
    assert refusal(written(file, text)) == message


def test_unknown_context_error_lists_contexts(file: Path) -> None:
    written(file, contents("east", "west"))
    assert refusal(file, "north", "env KWAIT_CONTEXT") == (
        "context 'north' (from env KWAIT_CONTEXT) is not in FILE; it has east, west"
    )
    assert refusal(file, "north") == "context 'north' is not in FILE; it has east, west"


def test_missing_current_context_is_an_error(file: Path) -> None:
    written(file, contents("east", "west", current="gone"))
    assert refusal(file) == "current context 'gone' is not in FILE; it has east, west"


def test_unset_current_context_is_an_error(file: Path) -> None:
    written(file, contents("east", "west", current=""))
    assert refusal(file) == "FILE has no current context: name one; it has east, west"


def without(section: str) -> dict[str, Any]:
    return contents("east", "west") | {section: []}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            without("clusters"),
            "FILE: context 'east' names the cluster 'east', which is not there; it has no clusters",
        ),
        (
            contents("east") | {"users": contents("west")["users"]},
            "FILE: context 'east' names the user 'east', which is not there; it has west",
        ),
        (
            contents("east") | {"clusters": [{"name": "east", "cluster": {}}]},
            "FILE: cluster 'east' of context 'east' has no server address (server: None); it must "
            "be a URL",
        ),
        (
            contents("east") | {"clusters": [{"name": "east", "cluster": {"server": "east:1"}}]},
            "FILE: cluster 'east' of context 'east' has no server address (server: 'east:1'); it "
            "must be a URL",
        ),
    ],
)
def test_context_with_missing_cluster_or_user_is_refused(
    file: Path, content: dict[str, Any], message: str
) -> None:
    assert refusal(written(file, content)) == message


def test_a_token_file_is_relative_to_the_kubeconfig(file: Path) -> None:
    content = contents("a") | {"users": [{"name": "a", "user": {"tokenFile": "token"}}]}
    target = read_kubeconfig(written(file, content)).target()
    assert target.token_file == file.parent / "token"


def test_an_inline_token_wins_over_its_file(file: Path) -> None:
    content = contents("a") | {
        "users": [{"name": "a", "user": {"tokenFile": "token", "token": "t"}}]
    }
    assert read_kubeconfig(written(file, content)).target().token_file is None


def test_the_standard_paths() -> None:
    home = Path("/home/me")
    assert standard_paths({}, home) == ([home / ".kube" / "config"], "the standard place")
    assert standard_paths({"KUBECONFIG": ""}, home)[0] == [home / ".kube" / "config"]
    assert standard_paths({"KUBECONFIG": "/a::/b:/a"}, home) == (
        [Path("/a"), Path("/b")],
        "env KUBECONFIG",
    )


def test_merging_prefers_the_first_entry_of_a_name(tmp_path: Path) -> None:
    first = contents("shared", "one", current="")
    second = contents("two", "shared")
    second["clusters"][1]["cluster"]["server"] = "https://other.example"
    merged = merge(
        [
            Kubeconfig(tmp_path / "1/config", None, first),
            Kubeconfig(tmp_path / "2/config", None, second),
        ]
    )
    assert merged["current-context"] == "two"
    assert [entry["name"] for entry in merged["contexts"]] == ["shared", "one", "two"]
    assert merged["clusters"][0]["cluster"] == {"server": "https://shared.example:6443"}
    assert merged["users"][2] == {"name": "two", "user": {"token": "token-of-two"}}


def test_merging_resolves_relative_paths(tmp_path: Path) -> None:
    content = {
        "clusters": [{"name": "a", "cluster": {"certificate-authority": "ca.crt"}}],
        "users": [
            {
                "name": "files",
                "user": {
                    "client-certificate": "me.crt",
                    "client-key": "/keys/me.key",
                    "tokenFile": "../token",
                },
            },
            {"name": "plugin", "user": {"exec": {"command": "bin/login", "args": ["a/b"]}}},
            {"name": "in PATH", "user": {"exec": {"command": "login"}}},
        ],
    }
    merged = merge([Kubeconfig(tmp_path / "config", None, content)])
    assert merged["clusters"][0]["cluster"] == {"certificate-authority": f"{tmp_path}/ca.crt"}
    files, plugin, in_path = (entry["user"] for entry in merged["users"])
    assert files == {
        "client-certificate": f"{tmp_path}/me.crt",
        "client-key": "/keys/me.key",
        "tokenFile": f"{tmp_path}/../token",
    }
    assert plugin == {"exec": {"command": f"{tmp_path}/bin/login", "args": ["a/b"]}}
    assert in_path == {"exec": {"command": "login"}}


POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def test_a_pod_uses_its_service_account(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    (tmp_path / "ca.crt").write_text("certificate")
    found = in_cluster(POD, tmp_path)
    assert found is not None
    target = Kubeconfig(tmp_path / "kubeconfig", None, found).target()
    assert (target.server, target.user) == ("https://10.0.0.1:443", "in-cluster")
    assert target.token_file == tmp_path / "token"
    assert found["clusters"][0]["cluster"]["certificate-authority"] == str(tmp_path / "ca.crt")


def test_a_pod_may_have_an_ipv6_address_and_no_certificate(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    found = in_cluster(POD | {"KUBERNETES_SERVICE_HOST": "fd00::1"}, tmp_path)
    assert found is not None
    assert found["clusters"][0]["cluster"] == {"server": "https://[fd00::1]:443"}


@pytest.mark.parametrize("missing", ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "token"])
def test_service_account_outside_of_pods_is_none(missing: str, tmp_path: Path) -> None:
    if missing != "token":
        (tmp_path / "token").write_text("secret")
    environ = {name: value for name, value in POD.items() if name != missing}
    assert in_cluster(environ, tmp_path) is None


def test_one_context_of_a_file_with_absolute_paths(file: Path) -> None:
    content = contents("east", "west")
    content["clusters"][1]["cluster"]["certificate-authority"] = "ca.crt"
    content["contexts"][1]["context"]["namespace"] = "shop"
    kubeconfig = read_kubeconfig(written(file, content))
    selected = kubeconfig.select("west")

    assert selected["current-context"] == "west"
    assert [len(selected[section]) for section in ("clusters", "users", "contexts")] == [1, 1, 1]
    written(file.parent / "copy" / "config", selected)
    copy = read_kubeconfig(file.parent / "copy" / "config")
    assert copy.target().server == "https://west.example:6443"
    assert selected["contexts"][0]["context"]["namespace"] == "shop"
    authority = selected["clusters"][0]["cluster"]["certificate-authority"]
    assert authority == str(file.parent / "ca.crt")
    assert selected["users"][0]["user"] == {"token": "token-of-west"}


def test_another_user_and_namespace_of_the_current_context(file: Path) -> None:
    kubeconfig = read_kubeconfig(written(file, contents("east", "west")))
    selected = kubeconfig.select(None, namespace="ci-1", user={"token": "other"})

    assert selected["current-context"] == "east"
    assert selected["users"] == [{"name": "east", "user": {"token": "other"}}]
    fields = {"cluster": "east", "user": "east", "namespace": "ci-1"}
    assert selected["contexts"] == [{"name": "east", "context": fields}]


def test_a_context_without_a_user_has_none(file: Path) -> None:
    content = contents("east")
    del content["contexts"][0]["context"]["user"]
    assert "users" not in read_kubeconfig(written(file, content)).select(None)
