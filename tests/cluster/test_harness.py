"""The harness itself: what it brings up works as a cluster does, and nothing of it is left when it is gone."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from node import archive, cgroups, images, instance, local, services, settings, small
from node.cluster import Cluster
from node.command import CommandFailed
from node.instance import InstanceFailed
from node.layout import complaint
from node.local import LocalCluster
from node.processes import Identity, identify
from support.wait import eventually

SILENT: dict[str, Any] = {"say": lambda text: None}
SHELL: dict[str, Any] = {"image": small.SHELL, "imagePullPolicy": "Never"}
SUCCEEDED = "--for=jsonpath={.status.phase}=Succeeded"
RESTRICTED = {
    "runAsNonRoot": True,
    "readOnlyRootFilesystem": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.fixture(scope="session")
def shell(cluster: Cluster) -> Cluster:
    """The cluster, with an image that has a shell."""
    cluster.load(small.shell(SILENT["say"]))
    return cluster


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    """An API server for this test alone, which may do to it what it likes."""
    made = local.up(f"test-{secrets.token_hex(4)}", nodes=0, ends_with_us=True, **SILENT)
    try:
        yield made
    finally:
        made.down()


def a_crd(group: str) -> dict[str, Any]:
    """A kind whose spec.size must not shrink under 1 nor differ from what a rule in it allows."""
    spec = {
        "type": "object",
        "properties": {"low": {"type": "integer"}, "high": {"type": "integer"}},
        "x-kubernetes-validations": [
            {"rule": "self.low <= self.high", "message": "low must not be over high"}
        ],
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "ranges", "singular": "range", "kind": "Range"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"ranges.{group}"},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def a_pod(name: str, *command: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "terminationGracePeriodSeconds": 0,  # a shell as the first process takes no notice of SIGTERM
            "restartPolicy": "Never",
            "containers": [{"name": "main", **SHELL, "command": list(command)}],
        },
    }


def groups_of(made: LocalCluster) -> list[Path]:
    return list(cgroups.ROOT.glob(f"*/{made.instance.layout.cgroup}"))


def test_the_api_server_alone_takes_a_good_object_and_says_why_it_refuses_a_bad_one(
    api_server: LocalCluster,
) -> None:
    group = f"{secrets.token_hex(4)}.example.org"
    api_server.apply(a_crd(group))
    api_server.kubectl(
        "wait", "--for=condition=Established", f"crd/ranges.{group}", "--timeout=10s"
    )
    base = {"apiVersion": f"{group}/v1", "kind": "Range", "metadata": {"name": "one"}}
    assert api_server.refusal({**base, "spec": {"low": 1, "high": 2}}, namespace="default") is None
    refused = api_server.refusal({**base, "spec": {"low": 3, "high": 2}}, namespace="default")
    assert refused is not None
    assert "low must not be over high" in refused


def test_an_object_can_be_read_back(api_server: LocalCluster) -> None:
    with api_server.namespace() as namespace:
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "it"},
            "data": {"a": "1"},
        }
        api_server.apply(config, namespace=namespace)
        found = api_server.get("configmap", "it", namespace)
        assert found is not None
        assert found["data"] == {"a": "1"}
        assert api_server.get("configmap", "other", namespace) is None
        assert [
            item["metadata"]["name"] for item in api_server.objects("configmaps", namespace)
        ] == ["it"]


def test_a_program_with_a_service_accounts_kubeconfig_can_do_what_the_account_may(
    api_server: LocalCluster,
) -> None:
    with api_server.namespace() as namespace:
        api_server.kubectl("create", "serviceaccount", "reader", "-n", namespace)
        role = ["--verb=get,list", "--resource=configmaps"]
        api_server.kubectl("create", "role", "reader", *role, "-n", namespace)
        bound = ["--role=reader", f"--serviceaccount={namespace}:reader"]
        api_server.kubectl("create", "rolebinding", "reader", *bound, "-n", namespace)
        reader = api_server.kubeconfig_for("reader", namespace)
        as_reader = [f"--kubeconfig={reader}", f"--namespace={namespace}"]
        api_server.kubectl("get", "configmaps", *as_reader)
        with pytest.raises(CommandFailed, match="forbidden"):
            api_server.kubectl("get", "secrets", *as_reader)


def test_a_frozen_api_server_hangs_and_a_killed_one_comes_back_with_its_objects(
    fresh: LocalCluster,
) -> None:
    fresh.kubectl("create", "configmap", "kept", "-n", "default")
    fresh.kill("kube-apiserver", signal.SIGSTOP)
    with pytest.raises(CommandFailed, match=r"[Tt]imeout|deadline|timed out"):
        fresh.kubectl("get", "configmaps", "--request-timeout=500ms")
    fresh.kill("kube-apiserver", signal.SIGCONT)
    fresh.kill("kube-apiserver")
    assert fresh.status()["kube-apiserver"] == {"pid": None, "code": -signal.SIGKILL}
    fresh.start("kube-apiserver")
    assert fresh.get("configmap", "kept", "default") is not None


def test_controllers_can_be_added_to_the_api_server_alone(fresh: LocalCluster) -> None:
    fresh.start("kube-controller-manager")
    fresh.kubectl(
        "wait", "--for=create", "serviceaccount/default", "-n", "default", "--timeout=20s"
    )


def test_a_component_that_does_not_exist_is_named_with_those_that_do(
    api_server: LocalCluster,
) -> None:
    with pytest.raises(
        InstanceFailed, match=r"no component 'kublet'; there are: etcd, kube-apiserver"
    ):
        api_server.restart("kublet")


def test_a_component_that_ends_early_is_reported_with_its_log(fresh: LocalCluster) -> None:
    fresh.kill("etcd")
    with pytest.raises(InstanceFailed, match=r"etcd ended with code -9"):
        fresh.instance.check("etcd")


@pytest.mark.parametrize("victim", ["top", "init"])
def test_nothing_is_left_when_a_process_of_the_instance_is_killed(
    fresh: LocalCluster, victim: str
) -> None:
    programs = [state["pid"] for state in fresh.status().values()]
    assert None not in programs
    inside = [Path(f"/proc/{fresh.instance.init.pid}/root/proc/{pid}").exists() for pid in programs]
    assert inside == [True] * len(programs)
    hosted = _processes_under(fresh.instance.layout.programs, fresh.instance.layout.folder)
    assert len(hosted) == len(programs)
    os.kill(getattr(fresh.instance, victim).pid, signal.SIGKILL)
    eventually(lambda: not fresh.instance.is_alive())
    eventually(lambda: not any(process.is_alive() for process in hosted))
    instance.sweep(SILENT["say"])
    assert not fresh.instance.layout.folder.exists()


def test_an_instance_ends_with_the_process_that_made_it(tmp_path: Path) -> None:
    name = f"test-{secrets.token_hex(4)}"
    code = (
        "import sys, time; from node import local;"
        f"local.up({name!r}, nodes=0, say=lambda text: None, ends_with_us=True);"
        "print('up', flush=True); time.sleep(600)"
    )
    env = settings.environment(PYTHONPATH=str(Path(__file__).parents[1]))
    with subprocess.Popen([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE) as maker:
        assert maker.stdout is not None
        assert maker.stdout.readline() == b"up\n"
        made = instance.find(name)
        assert made is not None
        maker.kill()
    eventually(lambda: not made.is_alive())
    instance.sweep(SILENT["say"])
    assert not made.layout.folder.exists()


def test_a_folder_whose_sockets_would_not_work_is_refused() -> None:
    assert "too long" in str(complaint(Path("/home") / ("x" * 100)))
    assert "replaces" in str(complaint(Path("/var/lib/someone/.cache/millgate")))
    assert complaint(Path("/home/someone/.cache/millgate/node/instances/main")) is None


def test_a_pod_of_a_loaded_image_runs_logs_and_can_be_entered(
    shell: Cluster, namespace: str
) -> None:
    shell.apply(
        a_pod("it", "sh", "-c", "echo hello from $HOSTNAME; sleep 600"), namespace=namespace
    )
    shell.kubectl("wait", "--for=condition=Ready", "pod/it", "-n", namespace, "--timeout=30s")
    assert eventually(lambda: shell.kubectl("logs", "it", "-n", namespace)) == "hello from it\n"
    assert shell.kubectl("exec", "it", "-n", namespace, "--", "echo", "inside") == "inside\n"


def test_a_service_is_reached_by_its_name(shell: Cluster, namespace: str) -> None:
    serve = "echo found >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }
    # a static busybox resolves names in nslookup alone
    name = f"web.{namespace}.svc.cluster.local"
    address = (
        f"$(nslookup -type=a {name} | awk '/^Address/ {{ found = $2 }} END {{ print found }}')"
    )
    request = r"printf 'GET /index.html HTTP/1.0\r\n\r\n'"
    ask = f"until {request} | nc -w 2 {address} 80 2>/dev/null | grep found; do sleep 0.2; done"
    shell.apply(
        service,
        a_pod("web", "sh", "-c", serve, app="web"),
        a_pod("ask", "sh", "-c", ask),
        namespace=namespace,
    )
    shell.kubectl("wait", SUCCEEDED, "pod/ask", "-n", namespace, "--timeout=40s")
    assert shell.kubectl("logs", "ask", "-n", namespace) == "found\n"


def test_a_node_that_loses_its_power_is_noticed_and_works_again_afterwards(
    shell: Cluster, namespace: str
) -> None:
    shell.grow(2)
    name = shell.nodes()[-1]
    pod = a_pod("it", "sh", "-c", "echo started; exec sleep 600")
    pod["spec"] |= {"nodeName": name, "restartPolicy": "Always"}
    shell.apply(pod, namespace=namespace)
    shell.kubectl("wait", "--for=condition=Ready", "pod/it", "-n", namespace, "--timeout=30s")
    shell.stop_node(name)
    shell.kubectl("wait", "--for=condition=Ready=Unknown", f"node/{name}", "--timeout=100s")
    shell.start_node(name)
    shell.kubectl("wait", "--for=condition=Ready", f"node/{name}", "--timeout=60s")
    restarted = "--for=jsonpath={.status.containerStatuses[0].restartCount}=1"
    shell.kubectl("wait", restarted, "pod/it", "-n", namespace, "--timeout=60s")
    assert eventually(lambda: shell.kubectl("logs", "it", "-n", namespace)) == "started\n"


def test_a_claim_of_storage_is_bound_and_can_be_written_by_an_ordinary_user(
    shell: Cluster, namespace: str
) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    pod = a_pod("writer", "sh", "-c", "echo kept > /data/it && cat /data/it")
    pod["spec"] |= {
        "securityContext": {"runAsUser": 10001, "runAsNonRoot": True, "fsGroup": 10001},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    shell.apply(claim, pod, namespace=namespace)
    shell.kubectl("wait", SUCCEEDED, "pod/writer", "-n", namespace, "--timeout=60s")
    assert shell.kubectl("logs", "writer", "-n", namespace) == "kept\n"


def test_an_application_on_the_workers_image_runs_where_pods_are_restricted(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "baked.py").write_text("import millgate\nprint('baked on', millgate.__name__)\n")
    reference, archive = images.bake("baked", tmp_path, SILENT["say"])
    cluster.load(archive)
    pod = a_pod("it", "python", "-m", "baked")
    pod["spec"]["containers"][0] |= {"image": reference, "securityContext": RESTRICTED}
    with cluster.namespace(pod_security="restricted") as namespace:
        cluster.apply(pod, namespace=namespace)
        cluster.kubectl("wait", SUCCEEDED, "pod/it", "-n", namespace, "--timeout=30s")
        assert cluster.kubectl("logs", "it", "-n", namespace) == "baked on millgate\n"


def test_postgres_runs_as_a_restricted_pod_and_answers(cluster: Cluster) -> None:
    cluster.load(services.postgres(SILENT["say"]))
    pod = a_pod("pg")
    pod["spec"] |= {"volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]}
    pod["spec"]["containers"][0] |= {
        "image": services.POSTGRES,
        "env": [{"name": "POSTGRES_PASSWORD", "value": "for-the-test"}],
        "securityContext": RESTRICTED,
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
        "readinessProbe": {"tcpSocket": {"port": 5432}, "periodSeconds": 1},
    }
    del pod["spec"]["containers"][0]["command"]
    with cluster.namespace(pod_security="restricted") as namespace:
        cluster.apply(pod, namespace=namespace)
        cluster.kubectl("wait", "--for=condition=Ready", "pod/pg", "-n", namespace, "--timeout=60s")
        url = "postgresql://postgres:for-the-test@127.0.0.1/postgres"
        ask = ["psql", url, "-Atc", "select 6 * 7"]
        assert cluster.kubectl("exec", "pg", "-n", namespace, "--", *ask) == "42\n"


@pytest.mark.parametrize("target", images.TARGETS)
def test_an_image_holds_no_word_of_the_index_it_was_built_from(target: str) -> None:
    hosts = _index_hosts()
    assert _told(images.build(target, SILENT["say"]), hosts) == []


def test_a_word_of_the_index_is_found_wherever_it_lies_in_an_image(tmp_path: Path) -> None:
    host = "index.example"
    layer = archive.layer({"opt/x/direct_url.json": _file(tmp_path, f"https://{host}/x.whl")})
    for name, root, env in (
        ("layer", layer, {}),
        ("config", archive.layer({}), {"PIP_INDEX_URL": f"https://{host}/simple"}),
    ):
        out = tmp_path / f"{name}.tar"
        archive.write(out, "localhost/x:1", root, archive.Launch(("/x",), env=env))
        assert _told(out, {host.encode()}), name


def _file(folder: Path, text: str) -> Path:
    path = folder / "file"
    path.write_text(text)
    return path


def _told(image: Path, hosts: set[bytes]) -> list[str]:
    """The files of a docker-archive, its layers' and its configuration, that name one of the hosts or the index."""
    found = []
    with tarfile.open(image) as outer:
        for part in filter(tarfile.TarInfo.isfile, outer):
            held = outer.extractfile(part)
            assert held is not None
            if not part.name.endswith(".tar"):
                found += [part.name] if _names(held.read(), hosts) else []
                continue
            with tarfile.open(fileobj=held) as layer:
                for entry in filter(tarfile.TarInfo.isfile, layer):
                    file = layer.extractfile(entry)
                    assert file is not None
                    if entry.name.endswith(("pip.conf", "sources.list")) or _names(
                        file.read(), hosts
                    ):
                        found.append(entry.name)
    return found


def _names(data: bytes, hosts: set[bytes]) -> bool:
    return any(host in data for host in hosts)


def _index_hosts() -> set[bytes]:
    """Of this machine's own index; the public one is named by pip itself."""
    texts = [path.read_bytes() for path in map(Path, images.PIP_FILES) if path.exists()]
    return set(re.findall(rb"//(?:[^/@\s]+@)?([\w.-]+)", b"".join(texts))) - {b"pypi.org"}


def test_helm_reaches_the_cluster(cluster: Cluster, namespace: str) -> None:
    assert json.loads(cluster.helm("list", "-n", namespace, "-o", "json")) == []


def test_a_node_and_its_pods_leave_nothing_when_they_are_killed(tmp_path: Path) -> None:
    if not settings.is_root():
        pytest.fail("a node needs root: run these tests as root, or leave this file out")
    setting = Path("/proc/sys/vm/overcommit_memory")
    before = setting.read_text()
    made = local.up(f"test-{secrets.token_hex(4)}", nodes=1, ends_with_us=True, **SILENT)
    try:
        made.load(small.shell(SILENT["say"]))
        made.apply(a_pod("it", "sleep", "600"), namespace="default")
        made.kubectl("wait", "--for=condition=Ready", "pod/it", "--timeout=30s")
        assert groups_of(made)
        assert setting.read_text() == before  # the kubelet would set it for the whole machine
        os.kill(made.instance.top.pid, signal.SIGKILL)
        eventually(lambda: not made.instance.is_alive())
        eventually(lambda: _swept(made), timeout=15)
    finally:
        made.down()


def _swept(made: LocalCluster) -> bool:
    instance.sweep(SILENT["say"])
    return not groups_of(made) and not made.instance.layout.folder.exists()


def _processes_under(*folders: Path) -> list[Identity]:
    """The processes of this machine whose command names a program in one folder and a file in the other."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_text(errors="replace")
            except OSError:
                continue
            process = identify(int(entry.name))
            if process and words.startswith(str(folders[0])) and str(folders[1]) in words:
                found.append(process)
    return found
