"""The configuration files of an instance, as path → text: pure."""

from __future__ import annotations

import json
from collections.abc import Mapping

from node.layout import HOST_IP, PAUSE, PODS, Layout, Worker

# The kubelet sets these for the whole machine; an instance shows it files that hold what it wants, so it does not.
SYSCTLS = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}

CONTAINERD = """\
version = 3
root = "{folder}/containerd"
state = "{run}/{name}"
[grpc]
  address = "{socket}"
[plugins.'io.containerd.internal.v1.opt']
  path = "{folder}/opt"
[plugins.'io.containerd.nri.v1.nri']
  disable = true
[plugins.'io.containerd.cri.v1.images']
  snapshotter = "{snapshotter}"
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
  # without CAP_SYS_RESOURCE a sandbox cannot have the score that it asks for
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni", "/opt/cni/bin"]
    conf_dir = "{config}/cni"
  [plugins.'io.containerd.cri.v1.runtime'.containerd]
    default_runtime_name = "runc"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{programs}/runc"
"""

COREFILE = """\
.:53 {{
  bind {address}
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {kubeconfig}
    pods insecure
  }}
  cache 2
}}
"""


def configs(layout: Layout, snapshotter: str) -> dict[str, str]:
    """Every file that the nodes' programs read, by its name under the configuration folder."""
    files = {
        "Corefile": COREFILE.format(address=HOST_IP, kubeconfig=layout.kubeconfig),
        "kube-proxy.json": json.dumps(_proxy(layout), indent=1),
        "resolv.conf": "# nothing outside can be reached from here\n",
        **{f"sysctl/{name.replace('/', '.')}": f"{value}\n" for name, value in SYSCTLS.items()},
    }
    for worker in layout.workers:
        for name, text in _worker(worker, snapshotter).items():
            files[f"{worker.name}/{name}"] = text
    return files


def _worker(worker: Worker, snapshotter: str) -> dict[str, str]:
    containerd = CONTAINERD.format(
        folder=worker.folder,
        run=worker.layout.run,
        name=worker.containerd,
        socket=worker.socket,
        config=worker.config,
        programs=worker.layout.programs,
        pause=PAUSE,
        snapshotter=snapshotter,
    )
    return {
        "containerd.toml": containerd,
        "cni/10-pods.conflist": json.dumps(_pod_network(worker), indent=1),
        "kubelet.json": json.dumps(_kubelet(worker), indent=1),
    }


def _pod_network(worker: Worker) -> Mapping[str, object]:
    ipam = {
        "type": "host-local",
        "dataDir": str(worker.layout.run / f"addresses-{worker.index}"),
        "ranges": [[{"subnet": worker.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {
        "type": "bridge",
        "bridge": worker.bridge,
        "isGateway": True,
        "ipMasq": False,
        "hairpinMode": True,
        "ipam": ipam,
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge, ports]}


def _kubelet(worker: Worker) -> Mapping[str, object]:
    pki = worker.layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": f"unix://{worker.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{worker.cgroup}",
        "address": worker.ip,
        "healthzBindAddress": worker.ip,
        "failCgroupV1": False,
        "failSwapOn": False,
        "clusterDNS": [HOST_IP],
        "clusterDomain": "cluster.local",
        "resolvConf": str(worker.layout.config / "resolv.conf"),
        "podCIDR": worker.pods,
        "maxPods": 200,
        "podLogsDir": str(worker.folder / "podlogs"),
        "volumePluginDir": str(worker.folder / "volume-plugins"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(pki / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / f"{worker.name}.crt"),
        "tlsPrivateKeyFile": str(pki / f"{worker.name}.key"),
        # the machine's disk is not this node's to watch over
        "evictionHard": {
            "memory.available": "100Mi",
            "nodefs.available": "1%",
            "imagefs.available": "1%",
            "nodefs.inodesFree": "1%",
        },
        "imageMinimumGCAge": "24h",
        "nodeStatusUpdateFrequency": "2s",
        "syncFrequency": "5s",
    }


def _proxy(layout: Layout) -> Mapping[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(layout.kubeconfig)},
        "clusterCIDR": PODS,
        "hostnameOverride": layout.workers[0].name,
        "conntrack": {"maxPerCore": 0},  # that limit is the whole machine's
    }
