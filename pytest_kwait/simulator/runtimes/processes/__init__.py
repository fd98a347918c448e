"""Container runtime: runs the programs of mapped images as processes.

It has containerd's place under the kubelet and CRI's words: sandbox, container, exec. It knows no
Kubernetes objects: dataclasses go in, processes come out.
- `runtime` is the server's side, on its event loop; it sends `messages` to the launcher.
- `supervisor` is the program that the server starts; it starts the `launcher` in namespaces.
- `links` are those of an image that dangle in its containers.
- `logger` is the process that reads the output of all programs.
- `container_init` and `root_filesystem` are the steps of a forked process.
- `system_calls`, `netlink`, `cgroups` and `processes` are the kernel's interfaces.
All but `runtime` import the standard library only.
"""
