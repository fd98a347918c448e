from pytest_kwait import Kwait


def test_verbs(kwait: Kwait) -> None:
    # A list: one object for each document, in order.
    applied = kwait.apply("web.yaml", "server.yaml")
    assert [each["kind"] for each in applied] == ["StatefulSet", "Pod"]
    (config,) = kwait.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}})
    assert kwait.get("configmap/a")["metadata"]["uid"] == config["metadata"]["uid"]
    kwait.wait_for_pod_ready("server")
    done = kwait.exec("server", "echo", "hello")
    assert (done.stdout, done.exit_code) == ("hello\n", 0)
