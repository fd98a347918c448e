"""The domain and the address ranges of a cluster."""

from __future__ import annotations

CLUSTER_DOMAIN = "cluster.local"
CLUSTER_DNS_ADDRESS = "10.0.0.10"
"""The address of the cluster's DNS server."""

NODE_DNS_ADDRESS = "172.30.0.1"
"""The address of the nodes' DNS server, which knows no services."""

POD_NETWORK = "10.244.0.0/14"
SERVICE_NETWORK = "10.0.0.0/16"
KUBERNETES_ADDRESS = "10.0.0.1"
"""The cluster IP of the service `default/kubernetes`."""

NODE_NETWORK = "172.30.0.0/16"
