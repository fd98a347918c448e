"""The door of the embedded cluster: what its processes and their starters share.

Contents: structures, formats and their encoding; no code of the cluster itself. Of the other
modules of the cluster, these know accessors of objects, users and regular expressions alone.
- `options`, `options_json`: the options of the process; `kubeconfig`: the file that it writes;
- `nodes`, `image_mapping`, `egress`, `addresses`, `static_users`, `container_scripts`,
  `perturbations`: what options and requests name;
- `recording/` and `replay`: histories of namespaces, and the interface of a cluster that shows one;
- `printers/`: the columns of `kubectl get`.
"""
