from pytest_kwait import Kwait
from pytest_kwait.typing import WaitForJobPodsRunning


def test_by_method(kwait: Kwait) -> None:
    kwait.apply("sleepers.yaml")
    kwait.wait_for_job_pods_running("sleepers", 3)


def test_by_fixture(kwait: Kwait, wait_for_job_pods_running: WaitForJobPodsRunning) -> None:
    kwait.apply("sleepers.yaml")
    wait_for_job_pods_running("sleepers", 3, timeout="2m")
