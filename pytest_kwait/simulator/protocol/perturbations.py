"""The perturbations of an exploration: what each does, how often, and why it is legal.

`docs/perturbations.md` is generated from these declarations. Sizes are seconds; those of upstream's
own constants scale with the cluster's clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

LEVELS = ("gentle", "usual", "harsh")
"""The levels, from few and short perturbations to many and long ones."""

_KEYS = "a key added to the work queue of a controller"


@dataclass(frozen=True, slots=True)
class Chance:
    """How often and how much a level perturbs an event.

    Args:
        probability: of one event, from 0 to 1; 0 leaves the perturbation out of the level.
        shortest: the smallest size in seconds; 1 for a perturbation without a size.
        longest: the largest size.
    """

    probability: float
    shortest: float = 1.0
    longest: float = 1.0


@dataclass(frozen=True, slots=True)
class Perturbation:
    """One kind of perturbation.

    Args:
        name: in kebab-case.
        summary: what it does.
        reason: why a real cluster may do the same.
        source: upstream's file and function.
        events: what an event of it is.
        chances: one per level.
        has_size: whether it takes a number of seconds.
        scaled: whether sizes are constants of upstream, which scale with the cluster's clock.
    """

    name: str
    summary: str
    reason: str
    source: str
    events: str
    chances: tuple[Chance, Chance, Chance]
    has_size: bool = True
    scaled: bool = False

    def chance(self, level: str) -> Chance:
        """Return the chance at `level`."""
        return self.chances[LEVELS.index(level)]


def _often(gentle: float, usual: float, harsh: float) -> tuple[Chance, Chance, Chance]:
    """Return the chances of a perturbation without a size."""
    return Chance(gentle), Chance(usual), Chance(harsh)


def _delay(
    gentle: tuple[float, float, float],
    usual: tuple[float, float, float],
    harsh: tuple[float, float, float],
) -> tuple[Chance, Chance, Chance]:
    """Return the chances of a delay: its probability, shortest and longest seconds per level."""
    return Chance(*gentle), Chance(*usual), Chance(*harsh)


PERTURBATIONS: tuple[Perturbation, ...] = (
    Perturbation(
        name="work-delay",
        summary="A controller begins with a key later.",
        reason="Informers deliver late, and the workers of a controller are busy with other keys.",
        source="client-go util/workqueue/queue.go, Get; tools/cache/shared_informer.go",
        events=_KEYS,
        chances=_delay((0.05, 0.005, 0.03), (0.06, 0.01, 0.12), (0.25, 0.02, 0.4)),
    ),
    Perturbation(
        name="work-order",
        summary="A controller handles a key before those that were added earlier.",
        reason="Several workers of one controller take keys at the same time and end in any order.",
        source="cmd/kube-controller-manager, --concurrent-*-syncs; client-go util/workqueue",
        events=_KEYS,
        chances=_often(0.1, 0.25, 0.5),
        has_size=False,
    ),
    Perturbation(
        name="controller-reelection",
        summary="A controller pauses for the time of a lease, then handles all of its keys again.",
        reason="Another replica takes over when the lease of the leader has run out, and lists "
        "everything.",
        source="client-go tools/leaderelection/leaderelection.go (15 s lease, 2 s retry)",
        events=_KEYS,
        chances=_delay((0.0, 15, 17), (0.0005, 15, 17), (0.005, 15, 17)),
        scaled=True,
    ),
    Perturbation(
        name="watch-delay",
        summary="One watch sends an event later, and all events behind it.",
        reason="Each watch has a buffer of its own; other watches may hear sooner.",
        source="k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, add and process",
        events="an event of a watch",
        chances=_delay((0.1, 0.005, 0.03), (0.15, 0.01, 0.15), (0.3, 0.02, 0.5)),
    ),
    Perturbation(
        name="watch-end",
        summary="A watch ends cleanly in front of an event.",
        reason="The server bounds the time of a watch, and ends watches when it stops.",
        source="k8s.io/apiserver pkg/endpoints/handlers/get.go, minRequestTimeout; "
        "pkg/endpoints/handlers/watch.go, HandleHTTP",
        events="an event of a watch behind its first one",
        chances=_often(0.01, 0.02, 0.05),
        has_size=False,
    ),
    Perturbation(
        name="watch-cut",
        summary="The connection of a watch breaks in front of an event.",
        reason="A load balancer or server goes away, or a watcher is too slow for its buffer.",
        source="k8s.io/apiserver pkg/storage/cacher/cache_watcher.go, forget",
        events="an event of a watch",
        chances=_often(0.005, 0.015, 0.04),
        has_size=False,
    ),
    Perturbation(
        name="watch-expired",
        summary='A watch from an earlier resource version gets 410, "too old resource version".',
        reason="A server that has just started knows no change before its first list, and etcd "
        "compacts its history.",
        source="k8s.io/apiserver pkg/storage/cacher/watch_cache.go, getAllEventsSinceLocked",
        events="the start of a watch from a resource version that is not the latest",
        chances=_often(0.01, 0.1, 0.3),
        has_size=False,
    ),
    Perturbation(
        name="list-expired",
        summary="A continue token of an earlier resource version gets 410, with a token to go on.",
        reason="etcd compacts its history while a client reads the pages of a list.",
        source="k8s.io/apiserver pkg/storage/etcd3/errors.go, handleCompactedErrorForPaging",
        events="a list with a continue token",
        chances=_often(0.02, 0.1, 0.3),
        has_size=False,
    ),
    Perturbation(
        name="bookmark-extra",
        summary="A watch that asked for bookmarks gets one behind an event.",
        reason="Clients may not assume bookmarks at any interval.",
        source="k8s.io/apimachinery pkg/apis/meta/v1/types.go, ListOptions.allowWatchBookmarks; "
        "k8s.io/apiserver pkg/storage/cacher/cacher.go, watcherBookmarkTimeBuckets",
        events="an event of a watch with bookmarks",
        chances=_often(0.05, 0.1, 0.3),
        has_size=False,
    ),
    Perturbation(
        name="bookmark-skip",
        summary="A watch leaves out a bookmark that was due.",
        reason="Clients may not assume bookmarks at any interval, nor any during a session. The "
        "one that ends the initial events is always sent.",
        source="k8s.io/apiserver pkg/storage/cacher/cacher.go, dispatchEvent",
        events="a bookmark that is due",
        chances=_often(0.2, 0.5, 0.8),
        has_size=False,
    ),
    Perturbation(
        name="update-conflict",
        summary="An update with a resourceVersion waits until another write of the object has "
        "landed, or for its time.",
        reason="Between the read and the write of a client, controllers, kubelets and other "
        "clients write. Patches and updates without a resourceVersion never wait.",
        source="k8s.io/apiserver pkg/registry/generic/registry/store.go, Update",
        events="an update, or a merge or strategic patch, with a resourceVersion",
        chances=_delay((0.2, 0.01, 0.05), (0.3, 0.02, 0.12), (0.6, 0.05, 0.4)),
    ),
    Perturbation(
        name="too-many-requests",
        summary="A request gets 429 with Retry-After before anything is done.",
        reason="Priority and fairness rejects what does not fit its queues, and a watch cache "
        "that is not ready rejects lists and watches. Long connections are exempt.",
        source="k8s.io/apiserver pkg/server/filters/maxinflight.go, tooManyRequests",
        events="a request for a resource; at gentle only GET, PUT and DELETE",
        chances=_often(0.0005, 0.0015, 0.01),
        has_size=False,
    ),
    Perturbation(
        name="service-unavailable",
        summary="A request gets 503 with Retry-After before anything is done.",
        reason="A server that starts or stops answers so, and so do load balancers before it.",
        source="k8s.io/apiserver pkg/util/notfoundhandler/not_found_handler.go, ServeHTTP",
        events="a request for a resource; at gentle only GET, PUT and DELETE",
        chances=_often(0.0005, 0.001, 0.01),
        has_size=False,
    ),
    Perturbation(
        name="pull-delay",
        summary="The pull of an image takes longer.",
        reason="Registries and networks are slow, and a kubelet pulls one image at a time.",
        source="pkg/kubelet/images/puller.go, serialImagePuller",
        events="the pull of an image for a container",
        chances=_delay((0.1, 0.01, 0.05), (0.2, 0.03, 0.25), (0.5, 0.1, 1.5)),
    ),
    Perturbation(
        name="sandbox-delay",
        summary="The sandbox and network of a pod are ready later.",
        reason="The container runtime starts the sandbox and calls the network plugin, which "
        "allocates an address.",
        source="pkg/kubelet/kuberuntime/kuberuntime_sandbox.go, createPodSandbox",
        events="the start of a pod's sandbox",
        chances=_delay((0.1, 0.01, 0.04), (0.1, 0.03, 0.2), (0.4, 0.1, 0.8)),
    ),
    Perturbation(
        name="sync-delay",
        summary="A kubelet acts on a change of a pod later.",
        reason="Each pod has one worker, which ends its present sync first; the kubelet hears of "
        "pods through a watch.",
        source="pkg/kubelet/pod_workers.go, podWorkerLoop",
        events="a sync of a pod that is due on its node",
        chances=_delay((0.1, 0.005, 0.03), (0.1, 0.01, 0.1), (0.3, 0.05, 0.5)),
    ),
    Perturbation(
        name="status-batch",
        summary="A kubelet writes a pod's status later; what changes meanwhile is in one write.",
        reason="The status manager keeps the latest status alone, so states between two writes "
        "are never seen.",
        source="pkg/kubelet/status/status_manager.go, syncBatch",
        events="a status of a pod that is due to be written",
        chances=_delay((0.1, 0.01, 0.03), (0.12, 0.02, 0.15), (0.4, 0.05, 0.5)),
    ),
    Perturbation(
        name="endpoints-delay",
        summary="Endpoints and EndpointSlices follow the pods of a service later.",
        reason="The controllers batch changes of pods, and work one key at a time.",
        source="pkg/controller/endpointslice/endpointslice_controller.go, "
        "endpointUpdatesBatchPeriod",
        events="a key added to the work queue of endpoints or slices",
        chances=_delay((0.2, 0.01, 0.05), (0.25, 0.03, 0.3), (0.6, 0.1, 1.0)),
    ),
    Perturbation(
        name="namespace-delay",
        summary="The deletion of a namespace takes longer.",
        reason="The controller waits for the informers' latency before it looks, and looks again "
        "with growing pauses while anything is left.",
        source="pkg/controller/namespace/namespace_controller.go, namespaceDeletionGracePeriod",
        events="a key added to the work queue of namespaces",
        chances=_delay((0.2, 0.01, 0.05), (0.2, 0.03, 0.3), (0.6, 0.1, 2.0)),
    ),
    Perturbation(
        name="webhook-delay",
        summary="An admission webhook is called later, at most by half of its timeout.",
        reason="Webhooks are called over the network, as slowly as their timeout allows.",
        source="k8s.io/apiserver pkg/admission/plugin/webhook/validating/dispatcher.go, callHook",
        events="the call of an admission webhook",
        chances=_delay((0.2, 0.005, 0.03), (0.2, 0.02, 0.15), (0.5, 0.05, 0.5)),
    ),
    Perturbation(
        name="heartbeat-delay",
        summary="A kubelet renews its lease late, well within the lease's duration.",
        reason="A kubelet renews every 10 s, and a node is unhealthy only after 40 s or more "
        "without a renewal.",
        source="k8s.io/component-helpers apimachinery/lease/controller.go, sync; "
        "pkg/controller/nodelifecycle/node_lifecycle_controller.go, nodeMonitorGracePeriod",
        events="the renewal of a node's lease",
        chances=_delay((0.2, 1.0, 4.0), (0.3, 2.0, 8.0), (0.5, 5.0, 15.0)),
        scaled=True,
    ),
    Perturbation(
        name="scheduling-delay",
        summary="The scheduler takes a pod later.",
        reason="One pod is scheduled at a time, in an order of priority and of backoff.",
        source="pkg/scheduler/schedule_one.go, ScheduleOne",
        events="a pod added to the scheduler's queue",
        chances=_delay((0.1, 0.01, 0.04), (0.1, 0.02, 0.15), (0.3, 0.05, 0.6)),
    ),
    Perturbation(
        name="event-delay",
        summary="An Event is written later, and those of the same component behind it.",
        reason="Components record events into a channel that one goroutine writes from.",
        source="client-go tools/record/event.go, StartRecordingToSink",
        events="an Event of a component",
        chances=_delay((0.2, 0.01, 0.05), (0.25, 0.03, 0.3), (0.6, 0.1, 1.0)),
    ),
    Perturbation(
        name="event-drop",
        summary="The repetition of an Event is not counted.",
        reason="The spam filter drops events of an object beyond 25; first events are never "
        "dropped.",
        source="client-go tools/record/events_cache.go, EventSourceObjectSpamFilter",
        events="the repetition of an Event",
        chances=_often(0.0, 0.1, 0.3),
        has_size=False,
    ),
    Perturbation(
        name="event-recount",
        summary="The repetition of an Event becomes an Event of its own.",
        reason="A component keeps its last 4096 events, and none over a restart.",
        source="client-go tools/record/events_cache.go, maxLruCacheEntries",
        events="the repetition of an Event",
        chances=_often(0.0, 0.1, 0.3),
        has_size=False,
    ),
    Perturbation(
        name="defaults-delay",
        summary="The default service account and the root CA come later to a namespace.",
        reason="Two controllers create them once they have seen the namespace.",
        source="pkg/controller/serviceaccount/serviceaccounts_controller.go, syncNamespace; "
        "pkg/controller/certificates/rootcacertpublisher/publisher.go, syncNamespace",
        events="a key added to the work queue of a namespace's defaults",
        chances=_delay((0.1, 0.01, 0.05), (0.2, 0.02, 0.2), (0.6, 0.1, 1.0)),
    ),
    Perturbation(
        name="garbage-delay",
        summary="Dependents of a deleted owner, and orphaned pods, are deleted later.",
        reason="The garbage collector works through a graph that it builds from watches.",
        source="pkg/controller/garbagecollector/garbagecollector.go, runAttemptToDeleteWorker",
        events="a key added to a work queue of the garbage collectors",
        chances=_delay((0.2, 0.01, 0.05), (0.25, 0.03, 0.3), (0.6, 0.1, 2.0)),
    ),
)
"""All perturbations."""

PERTURBATIONS_BY_NAME: Mapping[str, Perturbation] = MappingProxyType(
    {perturbation.name: perturbation for perturbation in PERTURBATIONS}
)
