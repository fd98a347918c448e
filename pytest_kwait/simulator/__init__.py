"""The embedded cluster: an API server, controllers, a scheduler and kubelets in one process.

What may enter: what Kubernetes itself does on its side of the HTTP connection, written from
Kubernetes' behaviour. Nothing here may know our waits: `api`, `engine`, `resources` and the
official client are never imported.

- the store and the rules of kinds are in this folder; `cluster_api` is their one entrance;
- `http/` speaks HTTP over it;
- `controllers/` and `kubelet/` act on it in-process;
- `process` is the program.
"""
