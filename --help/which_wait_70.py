from pytest_kwait import Kwait, consistently


def test_web_goes_through_its_life(kwait: Kwait) -> None:
    kwait.apply("server.yaml")
    pod = kwait.wait_for_pod_ready("server")
    kwait.wait_for("pod/server", consistently("500ms", "condition=Ready"))
    kwait.delete("pod/server", grace_period=0)
    kwait.wait_for(pod, "delete")
