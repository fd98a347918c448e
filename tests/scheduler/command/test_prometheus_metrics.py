from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from pytest_kwait.scheduler.command.feature_gates import FeatureGates
from pytest_kwait.scheduler.command.prometheus_metrics import PrometheusMetrics


def shown(metrics: PrometheusMetrics) -> dict[str, float]:
    _, text = metrics.expose("")
    return {
        f"{sample.name}{{{','.join(f'{k}={v}' for k, v in sorted(sample.labels.items()))}}}": (
            sample.value
        )
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if not sample.name.startswith("process_")
    }


def test_metric_names_match_kube_scheduler() -> None:
    metrics = PrometheusMetrics()
    leads = True
    metrics.features(FeatureGates({"ComponentFlagz": False}))
    metrics.leading("kube-scheduler", lambda: leads)
    metrics.attempt("mine", "scheduled", 0.0015)
    metrics.attempt("mine", "unschedulable", 1)
    metrics.attempt("mine", "unschedulable", 2)
    metrics.pod_scheduled(1, 0.5)
    metrics.pod_scheduled(15, 60)
    metrics.queue_length("active", 3)

    values = shown(metrics)

    assert values["scheduler_schedule_attempts_total{profile=mine,result=scheduled}"] == 1
    assert values["scheduler_schedule_attempts_total{profile=mine,result=unschedulable}"] == 2
    duration = "scheduler_scheduling_attempt_duration_seconds"
    assert values[f"{duration}_bucket{{le=0.001,profile=mine,result=scheduled}}"] == 0
    assert values[f"{duration}_bucket{{le=0.002,profile=mine,result=scheduled}}"] == 1
    assert values[f"{duration}_bucket{{le=16.384,profile=mine,result=unschedulable}}"] == 2
    assert values[f"{duration}_sum{{profile=mine,result=unschedulable}}"] == 3
    assert values["scheduler_pod_scheduling_attempts_bucket{le=16.0}"] == 2
    assert values["scheduler_pod_scheduling_sli_duration_seconds_count{attempts=1}"] == 1
    assert values["scheduler_pod_scheduling_sli_duration_seconds_count{attempts=15+}"] == 1
    assert {key: values[key] for key in values if key.startswith("scheduler_pending")} == {
        "scheduler_pending_pods{queue=active}": 3,
        "scheduler_pending_pods{queue=backoff}": 0,
        "scheduler_pending_pods{queue=unschedulable}": 0,
        "scheduler_pending_pods{queue=gated}": 0,
    }
    assert values["leader_election_master_status{name=kube-scheduler}"] == 1
    assert values["kubernetes_feature_enabled{name=ComponentFlagz,stage=BETA}"] == 0
    assert not [key for key in values if "created" in key]
    leads = False
    assert shown(metrics)["leader_election_master_status{name=kube-scheduler}"] == 0


def test_metrics_of_programs_are_separate() -> None:
    first, second = PrometheusMetrics(), PrometheusMetrics()
    first.queue_length("gated", 2)
    assert shown(second)["scheduler_pending_pods{queue=gated}"] == 0


def test_metrics_format_follows_accept_header() -> None:
    metrics = PrometheusMetrics()
    assert metrics.expose("")[0].startswith("text/plain; version=0.0.4")
    kind, text = metrics.expose("application/openmetrics-text; version=1.0.0")
    assert kind.startswith("application/openmetrics-text; version=1.0.0")
    assert text.endswith(b"# EOF\n")
