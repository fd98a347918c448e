"""Client-go's `tools/cache`: local copies of collections, kept current by list and watch.

These are ports of client-go `tools/cache` and its informer factory over `client.ApiSession`, with
upstream's names in snake_case, used qualified as in Go (`cache.wait_for_cache_sync`). The meaning
of an object's state belongs to the layers above.
"""

from __future__ import annotations

from pytest_kwait.cache.collection_watch import VeryShortWatchError
from pytest_kwait.cache.factory import ListOptions, SharedInformerFactory
from pytest_kwait.cache.handlers import (
    FilteringResourceEventHandler,
    HandlerRegistration,
    ResourceEventHandler,
    ResourceEventHandlerFuncs,
)
from pytest_kwait.cache.listwatch import ListWatch
from pytest_kwait.cache.reflector import Reflector, ReflectorStore
from pytest_kwait.cache.shared_informer import SharedInformer
from pytest_kwait.cache.store import (
    NAMESPACE_INDEX,
    DeletedFinalStateUnknown,
    Delta,
    Indexer,
    Lister,
    NamespaceLister,
    Store,
    deletion_handling_meta_namespace_key_func,
    meta_namespace_index_func,
    meta_namespace_key_func,
    split_meta_namespace_key,
)
from pytest_kwait.cache.sync import (
    CACHE_SYNC_TIMEOUT,
    SYNCED_POLL_PERIOD,
    DoneChecker,
    InformerSynced,
    Signal,
    is_done,
    wait_for,
    wait_for_cache_sync,
    wait_for_named_cache_sync,
)
from pytest_kwait.cache.transform import TransformError, TransformFunc

__all__ = [
    "CACHE_SYNC_TIMEOUT",
    "NAMESPACE_INDEX",
    "SYNCED_POLL_PERIOD",
    "DeletedFinalStateUnknown",
    "Delta",
    "DoneChecker",
    "FilteringResourceEventHandler",
    "HandlerRegistration",
    "Indexer",
    "InformerSynced",
    "ListOptions",
    "ListWatch",
    "Lister",
    "NamespaceLister",
    "Reflector",
    "ReflectorStore",
    "ResourceEventHandler",
    "ResourceEventHandlerFuncs",
    "SharedInformer",
    "SharedInformerFactory",
    "Signal",
    "Store",
    "TransformError",
    "TransformFunc",
    "VeryShortWatchError",
    "deletion_handling_meta_namespace_key_func",
    "is_done",
    "meta_namespace_index_func",
    "meta_namespace_key_func",
    "split_meta_namespace_key",
    "wait_for",
    "wait_for_cache_sync",
    "wait_for_named_cache_sync",
]
