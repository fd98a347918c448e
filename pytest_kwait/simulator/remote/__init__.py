"""The embedded cluster's controllers, scheduler and kubelets on a real API server.

Contents: what stands in for the API server in their process. Objects are listed and watched into a
store that they read as in the embedded cluster; their writes are requests. Defaults, validation,
admission, service addresses and the expiry of events are the server's own.
- `connection` speaks HTTP; `mirror` keeps the copy of the objects; `cluster` is both as a cluster;
- `kubelet_listener` is the kubelets' port, `tunnel` the way to it and to the ports of pods;
- `__main__` is the program.
"""
