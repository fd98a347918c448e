"""The embedded cluster's controllers, scheduler and kubelets on a real API server.

Contents: what stands in for the API server in their process. Objects are listed and watched into a
store that they read as in the embedded cluster; their writes are requests. Defaults, validation,
admission, service addresses and the expiry of events are the server's own.
- `rest_client` sends requests; `reflectors` list and watch in threads, by `cache`;
- `mirror` keeps the copy of the objects; `cluster` is both as a cluster;
- `tunnel` is the server's way to the ports of kubelets and pods;
- `__main__` is the program.
"""
