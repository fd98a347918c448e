"""A failing suite, written to a folder and run in a process of its own."""

from __future__ import annotations

SUITE = '''
import os
import threading
import uuid

import pytest

GROUP = f"kwait-{uuid.uuid4().hex[:8]}.example.com"
WORDS = "correct-horse-battery-staple"

DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"shelves.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "shelves", "singular": "shelf", "kind": "Shelf"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
SHELF = {"apiVersion": f"{GROUP}/v1", "kind": "Shelf", "metadata": {"name": "top"}, "books": 7}
KEYS = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "keys"},
    "stringData": {"words": WORDS},
}
COLOURS = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "colours"},
    "data": {"door": "green"},
}
SHOP = f"""
apiVersion: v1
kind: Pod
metadata: {{name: shop}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: till
    image: busybox:1.36
    command:
    - sh
    - -c
    - |
      echo opening with token={WORDS}
      test -f /state/again && sleep 600
      touch /state/again
      exit 3
    volumeMounts: [{{name: state, mountPath: /state}}]
    env:
    - {{name: DOOR_PASSWORD, value: {WORDS}}}
  volumes: [{{name: state, emptyDir: {{}}}}]
"""


def started_again(pod):
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return statuses[0].get("restartCount", 0) >= 1


def test_shop(kwait):
    kwait.apply(DEFINITION, SHELF, KEYS, COLOURS, SHOP)
    kwait.wait_for("pod/shop", started_again, timeout="4m", fail_fast=False)
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    kwait.wait_for("pod/shop", f"{restarts}=999", timeout="2s", fail_fast=False)


@pytest.mark.wait_for_pod_ready("nobody", timeout="2s")
def test_setup():
    pass


@pytest.fixture
def customer(kwait):
    kwait.apply(COLOURS)
    yield
    raise RuntimeError("the customer stays")


def test_teardown(customer):
    pass


def test_killed(kwait):
    kwait.apply(KEYS, COLOURS, SHOP)
    kwait.wait_for("pod/shop", started_again, timeout="4m", fail_fast=False)
    threading.Timer(0.3, os._exit, [9]).start()
    kwait.wait_for("configmap/other", "create", timeout="4m")
'''
