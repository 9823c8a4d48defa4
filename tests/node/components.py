"""The programs of an instance with their flags: pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from node.layout import API_SERVICE_IP, HOST_IP, PODS, SERVICES, Layout, Worker

# names under which clients and the kubelet reach the API server
API_NAMES = ",".join(
    [
        *("DNS:kubernetes", "DNS:kubernetes.default", "DNS:kubernetes.default.svc"),
        *("DNS:kubernetes.default.svc.cluster.local", "DNS:localhost"),
        *("IP:127.0.0.1", f"IP:{API_SERVICE_IP}", f"IP:{HOST_IP}"),
    ]
)
STORE = ("etcd", "kube-apiserver")
CONTROL = ("kube-controller-manager", "kube-scheduler")
NETWORK = ("kube-proxy", "coredns")


@dataclass(frozen=True, slots=True)
class Component:
    """A program to run in the instance."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


def components(layout: Layout) -> dict[str, Component]:
    """Everything that the instance may run, by name."""
    made = {
        "etcd": _etcd(layout),
        "kube-apiserver": _api_server(layout),
        "kube-controller-manager": _controllers(layout),
        "kube-scheduler": _program(
            layout,
            "kube-scheduler",
            kubeconfig=_admin(layout),
            leader_elect=False,
            kube_api_qps=1000,
            kube_api_burst=1000,
        ),
    }
    if not layout.workers:
        return made
    for worker in layout.workers:
        settings = worker.config / "containerd.toml"
        made[worker.containerd] = _program(layout, "containerd", config=settings)
        made[worker.kubelet] = _kubelet(worker)
    return {
        **made,
        "kube-proxy": _program(layout, "kube-proxy", config=layout.config / "kube-proxy.json"),
        "coredns": Component(
            (str(layout.programs / "coredns"), "-conf", f"{layout.config}/Corefile")
        ),
    }


def _etcd(layout: Layout) -> Component:
    client = "http://127.0.0.1:2379"  # inside: nothing else can reach it
    return _program(
        layout,
        "etcd",
        data_dir=layout.folder / "etcd",
        unsafe_no_fsync=True,  # nothing here outlives the instance
        listen_client_urls=client,
        advertise_client_urls=client,
        listen_peer_urls="http://127.0.0.1:2380",
    )


def _api_server(layout: Layout) -> Component:
    pki = layout.pki
    return _program(
        layout,
        "kube-apiserver",
        etcd_servers="http://127.0.0.1:2379",
        secure_port=layout.port,
        advertise_address=HOST_IP,
        tls_cert_file=pki / "apiserver.crt",
        tls_private_key_file=pki / "apiserver.key",
        client_ca_file=pki / "ca.crt",
        kubelet_client_certificate=pki / "admin.crt",
        kubelet_client_key=pki / "admin.key",
        kubelet_preferred_address_types="InternalIP",  # the node's name resolves nowhere
        service_account_key_file=pki / "sa.pub",
        service_account_signing_key_file=pki / "sa.key",
        service_account_issuer="https://kubernetes.default.svc.cluster.local",
        service_cluster_ip_range=SERVICES,
        authorization_mode="Node,RBAC",
        allow_privileged=True,
        enable_admission_plugins="NodeRestriction",
        # with no controllers nothing makes the account that this plugin asks of every pod
        **({} if layout.nodes else {"disable_admission_plugins": "ServiceAccount"}),
    )


def _controllers(layout: Layout) -> Component:
    return _program(
        layout,
        "kube-controller-manager",
        kubeconfig=_admin(layout),
        service_account_private_key_file=layout.pki / "sa.key",
        root_ca_file=layout.pki / "ca.crt",
        cluster_cidr=PODS,
        allocate_node_cidrs=False,
        leader_elect=False,
        use_service_account_credentials=True,
        node_monitor_period="1s",
        node_monitor_grace_period="12s",
        pvclaimbinder_sync_period="2s",
        # the usual 20 a second hold the controllers' own accounts up for five seconds
        kube_api_qps=1000,
        kube_api_burst=1000,
    )


def _kubelet(worker: Worker) -> Component:
    return _program(
        worker.layout,
        "kubelet",
        config=worker.config / "kubelet.json",
        kubeconfig=worker.layout.pki / f"{worker.name}.kubeconfig",
        root_dir=worker.folder / "kubelet",
        hostname_override=worker.name,
        node_ip=worker.ip,
        v=1,
    )


def _admin(layout: Layout) -> str:
    return str(layout.kubeconfig)


def _program(layout: Layout, name: str, **flags: object) -> Component:
    """A program of ours; flags are written as --name=value."""
    words = [
        f"--{flag.replace('_', '-')}={str(value).lower() if isinstance(value, bool) else value}"
        for flag, value in flags.items()
    ]
    return Component((str(layout.programs / name), *words))
