import pytest

from pytest_kwait import Kwait


@pytest.mark.kwait_manifests("sleepers.yaml")
def test_workers_start(kwait: Kwait) -> None:
    kwait.wait_for_job_pods_running("sleepers", 3)
