"""The embedded cluster: an API server, controllers, a scheduler and kubelets in one process.

Contents: what Kubernetes does on its side of the HTTP connection, written from Kubernetes'
behaviour. Nothing here may know our waits: `client`, `cache`, `engine`, `framework` and the
official client are never imported. `cluster` is the one entrance to the objects.
- `apiserver/` speaks HTTP; `authentication/`, `authorization/` and `admission/` guard the requests;
- `registry/` is the write path, `store` holds the objects, `validation/` holds the API's rules;
- `scheme`, `codec/`, `managedfields/`, `patch` and `apiextensions/` know types and schemas;
- `aggregator/`, `controllers/` and `kubelet/` act on the cluster in-process;
- `network/` knows names and services, and serves them to programs;
- `container_runtime/` runs programs of mapped images as processes, for the kubelet;
- `server_main` is the program;
- `remote/` runs controllers, scheduler and kubelets without it, on a real API server.
"""
