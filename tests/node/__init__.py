"""A real Kubernetes for the tests: one node in Linux namespaces of its own, kind, or the cluster that KUBECONFIG names.

`python -m node --help` (with `tests` on PYTHONPATH) lists the commands; pytest uses the fixtures in `node.fixtures`.
"""
