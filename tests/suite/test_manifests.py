from __future__ import annotations

import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes.client import V1Container, V1ObjectMeta, V1Pod, V1PodList, V1PodSpec

from pytest_kwait.suite import manifests
from pytest_kwait.suite.manifests import InvalidManifest, Source, find_file, read_manifests
from tests.examples import scaled

_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
_TWO = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: one}
data: {day: 2024-01-31, 80: port, "on": "1"}
---
# nothing here
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Secret, metadata: {name: two}}
- {apiVersion: v1, kind: Pod, metadata: {generateName: three-}}
"""


DEEP = f"a: {'[' * 1000}{']' * 1000}\n"


def titles(*sources: Source, folder: Path = Path()) -> list[tuple[str, str]]:
    documents = read_manifests(sources, [folder])
    return [(document.title, document.place) for document in documents]


def test_text_splits_into_objects_with_their_source() -> None:
    assert titles(_TWO) == [
        ("configmap/one", "manifest 1, document 1, line 1"),
        ("secret/two", "manifest 1, document 3, line 8, item 1"),
        ("pod/three-", "manifest 1, document 3, line 8, item 2"),
    ]


def test_values_are_parsed_as_by_the_api_server() -> None:
    (document, *_) = read_manifests([_TWO], [])
    assert document.object["data"] == {"day": "2024-01-31", "80": "port", "on": "1"}


def test_dicts_lists_and_json_are_manifests_as_well() -> None:
    json_text = '{\t"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "tabbed"}}'
    assert titles(_POD, [json_text, [_POD]]) == [
        ("pod/web", "manifest 1"),
        ("pod/tabbed", "manifest 2, item 1"),
        ("pod/web", "manifest 2, item 2, item 1"),
    ]


def test_loaded_objects_are_copies() -> None:
    mine: dict[str, Any] = {**_POD, "spec": {"containers": []}}
    (document,) = read_manifests([mine], [])
    document.object["spec"]["containers"].append("changed")
    assert mine["spec"] == {"containers": []}


def test_files_are_found_in_the_first_folder_that_has_them(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    for folder in (near, far):
        folder.mkdir()
        (folder / "both.yaml").write_text(_TWO)
    (far / "one.yaml").write_text(_TWO)
    assert find_file("both.yaml", [near, far]) == near / "both.yaml"
    assert find_file(Path("one.yaml"), [near, far]) == far / "one.yaml"
    assert find_file(far / "one.yaml", [near]) == far / "one.yaml"


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.yml", "a.json", "notes.txt"):
        text = '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "%s"}}' % name[0]  # noqa: UP031 - braces
        (tmp_path / name).write_text(text)
    assert titles(tmp_path) == [("pod/a", "a.json"), ("pod/b", "b.yml")]


def test_missing_file_error_lists_searched_paths(tmp_path: Path) -> None:
    near, far = tmp_path / "near", tmp_path / "far"
    with pytest.raises(InvalidManifest) as caught:
        read_manifests(["job.yaml"], [near, far])
    assert str(caught.value) == (
        f"job.yaml: there is no file {near / 'job.yaml'} or {far / 'job.yaml'}"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: [}\n",
            "bad.yaml, document 1, line 3: is no YAML: while parsing a flow node, "
            "expected the node content, but found '}'",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  name: b\n",
            "bad.yaml, document 1, line 5: is no YAML: the key 'name' comes twice",
        ),
        ("---\n---\n- a\n", "bad.yaml, document 2, line 3: is a list, an object is needed"),
        ("just text: \n  - {}\n", "bad.yaml, document 1, line 1: has no apiVersion"),
        ("apiVersion: v1\nkind: 7\n", "bad.yaml, document 1, line 1: has no kind"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n",
            "bad.yaml, document 1, line 1: the Pod has no metadata.name that is a text",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\ndata: {a: .nan}\n",
            "bad.yaml, document 1, line 1: holds what JSON cannot: "
            "Out of range float values are not JSON compliant: nan",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: {a: 1}\n",
            "bad.yaml, document 1, line 1: its items are a object, a list is needed",
        ),
        (
            "apiVersion: v1\nkind: ConfigMapList\nmetadata: 5\nitems: []\n",
            "bad.yaml, document 1, line 1: its metadata is a number, not an object",
        ),
        (
            f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata: {{a: {'9' * 5000}}}\n",
            "bad.yaml, document 1, line 1: has a number of more than 4300 digits",
        ),
        (
            '{"apiVersion": "v1", "kind": "ConfigMap", "data": %s}' % ("9" * 5000),
            "bad.yaml: has a number of more than 4300 digits",
        ),
        (
            DEEP,
            "bad.yaml, document 1: nests lists or objects too deeply to be read",
        ),
        (
            '{"a": ' + "[" * 100_000 + "]" * 100_000 + "}",
            "bad.yaml: nests lists or objects too deeply to be read",
        ),
        (
            "a: &a [x, x]\n"
            + "".join(
                f"{new}: &{new} [{', '.join([f'*{old}'] * 10)}]\n"
                for old, new in itertools.pairwise("abcdefgh")
            ),
            "bad.yaml, document 1, line 1: its aliases stand for more than 1,000,000 values",
        ),
        (
            "a: &a [*a]\n",
            "bad.yaml, document 1, line 1: holds what JSON cannot: Circular reference",
        ),
        ("a: !!bool maybe\n", "bad.yaml, document 1, line 1: cannot be read: 'maybe'"),
        (
            "a: \x07\n",
            "bad.yaml: is no YAML: unacceptable character #x0007: special characters are not "
            "allowed",
        ),
    ],
)
def test_invalid_manifest_error_names_file_document_and_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, message: str
) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    messages = []
    for with_libyaml in {False, yaml.__with_libyaml__}:
        monkeypatch.setattr(yaml, "__with_libyaml__", with_libyaml)
        with pytest.raises(InvalidManifest) as caught:
            read_manifests(["bad.yaml"], [tmp_path])
        messages.append(str(caught.value))
    # Python 3.11 does not name the number that JSON cannot hold.
    assert message.removesuffix(": nan") in messages[0]
    # From Python 3.12 on libyaml reads this one, which names no kind.
    if not (sys.version_info >= (3, 12) and text == DEEP):
        assert messages[1:] in ([], messages[:1])


@pytest.mark.parametrize("suffix", ["yaml", "json"])
def test_large_manifests_are_refused_with_size_and_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    text = json.dumps(_POD)
    file = tmp_path / f"pod.{suffix}"
    file.write_text(text)
    monkeypatch.setattr(manifests, "_MAX_BYTES", len(text))
    assert titles(file.name, folder=tmp_path) == [("pod/web", file.name)]
    file.write_text(f"{text}\n")
    message = f"it has {len(text) + 1} bytes, and at most {len(text)} are read"
    for source, place in ((file.name, file.name), (f"{text}\n", "manifest 1")):
        with pytest.raises(InvalidManifest) as caught:
            read_manifests([source], [tmp_path])
        assert str(caught.value) == f"{place}: {message}"
    with pytest.raises(InvalidManifest) as caught:
        read_manifests(["{a: {{ a }}}\n"], [], {"a": "x" * 100})
    assert str(caught.value) == f"manifest 1: it has 106 bytes, and at most {len(text)} are read"


def test_manifests_of_many_values_are_refused_before_they_are_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(manifests, "_MAX_SEPARATORS", 20)
    monkeypatch.setattr(manifests, "_load_yaml", lambda *_: pytest.fail("it is read"))
    with pytest.raises(InvalidManifest) as caught:
        read_manifests([f"a: [{'1,' * 20}]\n"], [])
    message = "manifest 1: it may have 23 values, and at most 20 are read"
    assert str(caught.value) == message


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML has no libyaml here")
def test_libyaml_reads_manifests(monkeypatch: pytest.MonkeyPatch) -> None:
    def scan(scanner: object) -> None:
        pytest.fail("PyYAML's own scanner is not needed")

    monkeypatch.setattr(yaml.scanner.Scanner, "fetch_more_tokens", scan)
    assert [title for title, _ in titles(_TWO)] == ["configmap/one", "secret/two", "pod/three-"]


def test_paths_that_no_file_can_have_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest, match=r"^'x+… .* …x+': is no path: File name too long$"):
        read_manifests(["x" * 3000], [tmp_path])


def test_a_list_that_contains_itself_is_no_manifest() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(InvalidManifest) as caught:
        read_manifests([circle], [])
    assert str(caught.value) == "manifest 1: nests lists or objects too deeply to be read"


@pytest.mark.parametrize("seed", range(scaled(8)))
def test_no_manifest_raises_anything_else(tmp_path: Path, seed: int) -> None:
    """Cut, doubled and mixed texts of manifests are read or refused by name."""
    rng = random.Random(seed)
    parts = [
        *(
            "apiVersion: v1\n",
            "kind: List\n",
            "kind: Pod\n",
            "items:\n",
            "- ",
            "metadata: {name: x}\n",
        ),
        *(
            "&a ",
            "*a",
            "<<: *a\n",
            "!!bool ",
            "!!timestamp ",
            "!!binary ",
            "!!python/object:os.x ",
            "? ",
        ),
        *(
            "[",
            "]",
            "{",
            "}",
            '"',
            "'",
            ": ",
            "\n",
            "  ",
            "---\n",
            "%YAML 9.9\n",
            "#",
            "\t",
            "|2\n",
        ),
        *(
            "9" * 5000,
            "0x_",
            "1:99:99",
            ".nan",
            "2001-99-99",
            "\\ud800",
            "\x85",
            "null",
            "~",
            "{{ x }}",
        ),
    ]
    refused = []
    for _ in range(400):
        text = "".join(rng.choices(parts, k=rng.randrange(1, 12)))
        (tmp_path / "bad.yaml").write_text(text)
        try:
            read_manifests(["bad.yaml"], [tmp_path])
        except InvalidManifest as error:
            refused.append(str(error))
    assert len(refused) > 200
    assert all(message.startswith("bad.yaml") for message in refused)


def test_invalid_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest) as caught:
        read_manifests([_POD, 7], [])  # type: ignore[list-item] # what is tested
    assert str(caught.value) == (
        "manifest 2: 7 is no manifest; give a path, YAML text, a dict, a model of the official "
        "client, or a list of these"
    )
    (tmp_path / "latin.yaml").write_bytes(b"a: \xe9\n")
    with pytest.raises(InvalidManifest, match=r"^latin\.yaml: is not UTF-8 text: byte 3$"):
        read_manifests(["latin.yaml"], [tmp_path])
    with pytest.raises(InvalidManifest, match=r"^manifest 1: holds what JSON cannot: a set "):
        read_manifests([{**_POD, "data": {1, 2}}], [])


def test_models_of_the_official_client_are_manifests() -> None:
    pod = V1Pod(
        api_version="v1",
        kind="Pod",
        metadata=V1ObjectMeta(name="a"),
        spec=V1PodSpec(containers=[V1Container(name="main", image="busybox")], node_name="n"),
    )
    expected = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}], "nodeName": "n"},
    }
    template = {"apiVersion": "v1", "kind": "Pod", "metadata": pod.metadata, "spec": pod.spec}

    for sources in ([pod], [[pod]], [template]):
        (document,) = read_manifests(sources, [])
        assert document.object == expected


TEMPLATE = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data:
  image: {{ image }}
{% for key in keys | default([]) %}
  {{ key }}: "1"
{% endfor %}
"""


def test_variables_are_filled_in(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text(TEMPLATE)

    (one,) = read_manifests(["app.yaml"], [tmp_path], {"image": "web:1", "keys": ["x", "y"]})
    (text,) = read_manifests([TEMPLATE], [tmp_path], {"image": "web:2"})

    assert one.object["data"] == {"image": "web:1", "x": "1", "y": "1"}
    assert text.object["data"] == {"image": "web:2"}


def test_a_variable_may_be_named_as_a_function_of_jinja() -> None:
    text = 'kind: ConfigMap\napiVersion: v1\nmetadata: {name: "{{ namespace }}-{{ range }}"}'

    (found,) = read_manifests([text], [], {"namespace": "ci-1", "range": "a"})

    assert found.object["metadata"]["name"] == "ci-1-a"


def test_without_variables_nothing_is_a_template(tmp_path: Path) -> None:
    text = 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {helm: "{{ .Values.x }}"}'

    (found,) = read_manifests([text], [tmp_path])

    assert found.object["data"] == {"helm": "{{ .Values.x }}"}


@pytest.mark.parametrize(
    ("text", "variables", "said"),
    [
        (TEMPLATE, {"imag": "x"}, "app.yaml, line 6: has the variable image; given are imag"),
        (
            TEMPLATE,
            {"image": "x", "color": "red"},
            "color: is a variable of none of these manifests; they have image, keys",
        ),
        (
            "a: {{ namespace }}{{ a }}",
            {"a": 1},
            "app.yaml, line 1: has the variable namespace; given are a",
        ),
        ("a: b\nb: {{ a", {"a": 1}, "app.yaml, line 2: is no template: unexpected end of template"),
        (
            "a: b\nb: {{ a.b }}",
            {"a": {}},
            "app.yaml, line 2: cannot be filled in: 'dict object' has no attribute 'b'",
        ),
        (
            "a: {{ ().__class__.__bases__ }}{{ a }}",
            {"a": 1},
            "app.yaml, line 1: cannot be filled in: access to attribute '__class__' of 'tuple' "
            "object is unsafe.",
        ),
        (
            "a: b\n\nb: {{ 1 / a }}",
            {"a": 0},
            "app.yaml, line 3: cannot be filled in: ZeroDivisionError: division by zero",
        ),
    ],
)
def test_variables_that_do_not_fit(
    tmp_path: Path, text: str, variables: dict[str, Any], said: str
) -> None:
    (tmp_path / "app.yaml").write_text(text)

    with pytest.raises(InvalidManifest) as caught:
        read_manifests(["app.yaml"], [tmp_path], variables)

    assert str(caught.value).startswith(said)


def test_a_kustomization_is_built_by_kubectl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "kustomization.yaml").write_text("namePrefix: my-\n")
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\necho "kind: ConfigMap"; echo "apiVersion: v1"\n'
        'echo "metadata: {name: my-a, labels: {from: $1}}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    (found,) = read_manifests(["base"], [tmp_path])

    assert found.object["metadata"] == {"name": "my-a", "labels": {"from": "kustomize"}}
    assert found.place.startswith("base (kustomize), document 1")
    program.write_text("#!/bin/sh\necho 'no such base' >&2; exit 1\n")
    with pytest.raises(InvalidManifest, match="base: cannot be built by kubectl: no such base"):
        read_manifests(["base"], [tmp_path])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InvalidManifest, match=r"base: cannot be built: kubectl kustomize .* run"):
        read_manifests(["base"], [tmp_path])


def test_lists_of_models_and_of_the_api(tmp_path: Path) -> None:
    """Their items name no kind."""
    pods = V1PodList(items=[V1Pod(metadata=V1ObjectMeta(name="a"))])
    answer = {
        "apiVersion": "v1",
        "kind": "ConfigMapList",
        "metadata": {"resourceVersion": "7"},
        "items": [{"metadata": {"name": "b"}}],
    }

    (pod, settings) = read_manifests([pods, answer], [tmp_path])

    assert (pod.object["apiVersion"], pod.object["kind"]) == ("v1", "Pod")
    assert (settings.object["apiVersion"], settings.object["kind"]) == ("v1", "ConfigMap")
    (single,) = read_manifests([V1Pod(metadata=V1ObjectMeta(name="a"))], [tmp_path])
    assert single.object == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}
