"""Builds Kubernetes and what it stands on from Go modules, once per set of versions, into the cache."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from node import cache, packages, settings
from node.cache import Say
from node.command import run

HERE = Path(__file__).parent
GO = (1, 26)


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and the Go package that it is built from."""

    name: str
    package: str
    seccomp: bool = False  # built with cgo against libseccomp

    @property
    def built_as(self) -> str:
        """The name that `go build` gives it: the last part of the package's path that is not a version."""
        parts = [part for part in self.package.split("/") if not re.fullmatch(r"v\d+", part)]
        return parts[-1]


# In this order the first that tests need are the first to be there.
PROGRAMS = (
    Program("etcd", "go.etcd.io/etcd/server/v3"),
    Program("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Program("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
    Program("kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Program("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Program("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
    Program("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    Program("containerd", "github.com/containerd/containerd/v2/cmd/containerd"),
    Program(
        "containerd-shim-runc-v2", "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
    ),
    Program("ctr", "github.com/containerd/containerd/v2/cmd/ctr"),
    Program("runc", "github.com/opencontainers/runc", seccomp=True),
    Program("coredns", "github.com/coredns/coredns"),
    Program("helm", "helm.sh/helm/v4/cmd/helm"),
    Program("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
)


#: What tests speak to any cluster with.
CLIENTS = ("kubectl", "helm")


class BuildFailed(Exception):
    """The programs of the node could not be built."""


def kubernetes_version(go_mod: str) -> str:
    """The version of Kubernetes that a go.mod asks for, without the v."""
    found = re.search(r"^\s*k8s\.io/kubernetes v(\S+)", go_mod, re.MULTILINE)
    if not found:
        raise BuildFailed("go.mod does not require k8s.io/kubernetes")
    return found[1]


def folder() -> Path:
    """The folder of the programs of these versions, whether they are built or not."""
    inputs = [(HERE / name).read_bytes() for name in ("go.mod", "pause.c")]
    key = hashlib.sha256(b"\0".join([*inputs, repr(PROGRAMS).encode()])).hexdigest()[:12]
    version = kubernetes_version((HERE / "go.mod").read_text())
    return settings.cache_home() / f"programs-{version}-{key}"


def built() -> bool:
    """Whether every program of these versions is there."""
    return (folder() / "complete").exists()


def build(say: Say) -> Path:
    """Build what is not there yet and return the folder; some ten minutes on two cores the first time."""
    target = folder()
    if built():
        return target
    with cache.locked("build", say):
        if not built():
            target.mkdir(parents=True, exist_ok=True)
            _require_go()
            packages.require(packages.BUILD, say)
            _build_each(PROGRAMS, target, say)
            run(["gcc", "-Os", "-static", "-o", target / "pause", HERE / "pause.c"])
            (target / "complete").touch()
    return target


def build_clients(say: Say) -> Path:
    """Build those programs that somebody else's cluster is spoken to with, where this machine has none; as `build`."""
    target = folder()
    path = settings.search_path(target)
    missing = [
        one for one in PROGRAMS if one.name in CLIENTS and not shutil.which(one.name, path=path)
    ]
    if missing:
        with cache.locked("build", say):
            target.mkdir(parents=True, exist_ok=True)
            _require_go()
            _build_each(missing, target, say)
    return target


def _require_go() -> None:
    if shutil.which("go") is None:
        raise BuildFailed(
            f"Go {GO[0]}.{GO[1]} or newer is needed to build Kubernetes and is not on the PATH: install it, "
            f"or use --cluster=kind or --cluster=current, with {' and '.join(CLIENTS)} on the PATH"
        )
    text = run(["go", "env", "GOVERSION"], cwd=HERE)
    found = re.match(r"go(\d+)\.(\d+)", text)
    if not found or (int(found[1]), int(found[2])) < GO:
        raise BuildFailed(f"Go {GO[0]}.{GO[1]} or newer is needed, this is {text.strip()}")


def _build_each(wanted: Sequence[Program], target: Path, say: Say) -> None:
    own = settings.own_go_cache() is None
    go_cache = cache.folder("go-build") if own else Path(str(settings.own_go_cache()))
    began = time.monotonic()
    for number, program in enumerate(wanted, 1):
        if not (target / program.name).exists():
            label = f"[{number}/{len(wanted)}] {program.name}"
            _build_one(program, target, go_cache, _Progress(say, label, began))
    if own:
        shutil.rmtree(go_cache, ignore_errors=True)  # gigabytes that nothing reads again


def _build_one(program: Program, target: Path, go_cache: Path, progress: _Progress) -> None:
    partial = target / "partial"
    version = kubernetes_version((HERE / "go.mod").read_text())
    env = settings.environment(
        CGO_ENABLED="1" if program.seccomp else "0",
        GOCACHE=str(go_cache),
        GOFLAGS="-buildvcs=false",
    )
    argv = ["go", "build", "-C", str(HERE), "-v", "-trimpath", "-ldflags", _link_flags(version)]
    argv += ["-tags", "seccomp"] if program.seccomp else []
    argv += ["-o", f"{partial}/", program.package]
    said: list[str] = []
    with subprocess.Popen(argv, env=env, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line.rstrip())
            progress.packages(len(said))
    if process.returncode != 0:
        raise BuildFailed(f"{program.name} did not build:\n" + "\n".join(said[-30:]))
    (partial / program.built_as).rename(target / program.name)
    shutil.rmtree(partial)
    progress.done()


def _link_flags(version: str) -> str:
    """Without a version the API server calls itself v0.0.0, and charts that ask for a kubeVersion refuse it."""
    major, minor, _ = version.split(".", 2)
    where = "k8s.io/component-base/version"
    names = {"gitVersion": f"v{version}", "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s", "-w", *(f"-X {where}.{name}={value}" for name, value in names.items())])


class _Progress:
    """Shows how far the build of one program is: a line that moves on a terminal, one line at the end elsewhere."""

    def __init__(self, say: Say, label: str, began: float) -> None:
        self.say, self.label, self.began = say, label, began
        self.shows = sys.stderr.isatty()

    def packages(self, count: int) -> None:
        if self.shows:
            sys.stderr.write(f"\r\x1b[K{self.label}: {count} packages compiled, {self._elapsed()}")
            sys.stderr.flush()

    def done(self) -> None:
        if self.shows:
            sys.stderr.write("\r\x1b[K")
        self.say(f"{self.label}: built, {self._elapsed()} since the start")

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self.began)
        return f"{seconds // 60} min {seconds % 60:02} s"
