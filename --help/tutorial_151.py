import pytest

from pytest_kwait import Kwait


@pytest.mark.kwait_manifests("sleepers.yaml")
@pytest.mark.wait_for_job_pods_running("sleepers", 3, timeout="2m")
def test_job_counts_its_pods(kwait: Kwait) -> None:
    assert kwait.get("job/sleepers")["status"]["active"] == 3


@pytest.mark.kwait_manifests("sleepers.yaml")
def test_pods_go_with_their_job(kwait: Kwait) -> None:
    kwait.wait_for_job_pods_running("sleepers", 3)
    job = kwait.get("job/sleepers")
    kwait.delete("job/sleepers")
    kwait.wait_for_all_job_pods_gone("sleepers", job["metadata"]["uid"])
