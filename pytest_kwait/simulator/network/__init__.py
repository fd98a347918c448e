"""The cluster's network: names, services and the way to their endpoints.

Contents: what a pod reaches (`cluster_network`), the DNS server and the proxy of services on real
sockets, for pods that run programs. Addresses and ports are those of the API's objects.
"""
