from pytest_kwait import Kwait


def test_workers_start(kwait: Kwait) -> None:
    kwait.apply("sleepers.yaml")
    pods = kwait.wait_for_job_pods_running("sleepers", 3)
    assert all(pod["status"]["podIP"] for pod in pods)
