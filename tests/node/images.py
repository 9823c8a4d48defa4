"""The project's own images, built from the Dockerfile by buildah or a Docker engine, and kept while nothing changes."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from node import archive, cache, debian, packages, settings
from node.cache import Say
from node.command import CommandFailed, run

REPO = Path(__file__).parents[2]
TARGETS = ("worker", "operator")
SOURCES = ("worker", "operator", "constraints.txt", "Dockerfile", ".dockerignore")
PASSED_OVER = ("__pycache__", "build", "dist")  # folders, and files by their ending
ENDINGS = (".egg-info", ".pyc")
KEPT = 3  # archives of one image, the newest: another run may still load an older one
STORAGE_LIMIT = 5  # gigabytes of layers kept for the next build
# where pip on this machine is told which index to use, and which authorities to trust
PIP_FILES = ("/etc/pip.conf",)
AUTHORITIES = ("/etc/ssl/certs/ca-certificates.crt",)


class Builder(Protocol):
    """Builds one target of the Dockerfile into a docker-archive."""

    def build(self, target: str, reference: str, out: Path, base: Path) -> None:
        """Write the image of the target, called reference, to out."""


def reference(target: str) -> str:
    """The name that pods of tests use for the image of a target."""
    return f"localhost/millgate-{target}:test"


def build(target: str, say: Say) -> Path:
    """The archive of a target's image, built if the sources changed since."""
    base = debian.base(say)
    key = _key(base)
    folder = cache.folder("images")
    out = folder / f"millgate-{target}-{key}.tar"
    if not out.exists():
        with cache.locked("images", say):
            if not out.exists():
                say(f"building {reference(target)}")
                partial = out.with_suffix(".new")
                partial.unlink(missing_ok=True)
                try:
                    _builder(say).build(target, reference(target), partial, base)
                    partial.rename(out)
                finally:
                    partial.unlink(missing_ok=True)
                cache.keep_newest(folder, f"millgate-{target}-*.tar", KEPT)
    return out


def bake(name: str, app: Path, say: Say) -> tuple[str, Path]:
    """An application's image: the worker's with the files of a folder under /app. Returns its name and archive."""
    worker = build("worker", say)
    files = {f"app/{path.relative_to(app)}": path for path in _files(app)}
    digest = hashlib.sha256(worker.name.encode())
    for inside, path in sorted(files.items()):
        digest.update(inside.encode() + b"\0" + path.read_bytes() + b"\0")
    wanted = f"localhost/{name}:test"
    out = cache.folder("images") / f"app-{name}-{digest.hexdigest()[:12]}.tar"
    if not out.exists():
        archive.add_files(worker, out, wanted, files, {})
        cache.keep_newest(out.parent, f"app-{name}-*.tar", KEPT)
    return wanted, out


class _Buildah:
    """buildah, with its storage in the cache."""

    def __init__(self, say: Say) -> None:
        packages.require(packages.IMAGES, say)
        self.storage = cache.folder("buildah")
        policy = self.storage / "policy.json"  # Debian's is in a package that is only recommended
        policy.write_text(json.dumps({"default": [{"type": "insecureAcceptAnything"}]}))
        self.policy = ["--signature-policy", str(policy)]

    def build(self, target: str, reference: str, out: Path, base: Path) -> None:
        self._buildah("pull", *self.policy, f"docker-archive:{base}")
        self._buildah(
            *("build", *self.policy, "--isolation", "chroot", "--network", "host"),
            *("--pull-never", "--layers", "--format", "docker", "--target", target),
            *("--build-arg", f"BASE_IMAGE={debian.BASE}", *_secrets()),
            *("--ignorefile", str(REPO / ".dockerignore"), "-t", reference),
            *("-f", str(REPO / "Dockerfile"), str(REPO)),
        )
        self._buildah("push", *self.policy, reference, f"docker-archive:{out}:{reference}")
        if _gigabytes(self.storage) > STORAGE_LIMIT:
            self._buildah("rmi", "--all", "--force")

    def _buildah(self, *args: str) -> None:
        own = ["--root", str(self.storage / "root"), "--runroot", str(self.storage / "run")]
        driver = ["--storage-driver", _driver(self.storage)]
        run(["buildah", *own, *driver, *args], timeout=1200)


class _Docker:
    """A Docker engine."""

    def build(self, target: str, reference: str, out: Path, base: Path) -> None:
        run(["docker", "load", "-i", base], timeout=300)
        run(
            [
                *("docker", "build", "--target", target, "-t", reference, "--network", "host"),
                *("--build-arg", f"BASE_IMAGE={debian.BASE}", *_secrets(), str(REPO)),
            ],
            env=settings.environment(DOCKER_BUILDKIT="1"),
            timeout=1200,
        )
        run(["docker", "save", "-o", out, reference], timeout=300)


def _builder(say: Say) -> Builder:
    if not settings.is_root() or shutil.which("buildah") is None:
        try:
            run(["docker", "info"], timeout=30)
        except CommandFailed:
            return _Buildah(say)
        return _Docker()
    return _Buildah(say)


def _secrets() -> list[str]:
    """This machine's index and authorities, lent to the build and kept out of the image."""
    found: list[str] = []
    for name, candidates in (("pip", PIP_FILES), ("ca", AUTHORITIES)):
        for candidate in candidates:
            if Path(candidate).exists():
                found += ["--secret", f"id={name},src={candidate}"]
                break
    return found


def _driver(storage: Path) -> str:
    """An overlay cannot lie on an overlay, which a CI container's disk is."""
    return "vfs" if run(["stat", "-f", "-c", "%T", storage]).strip() == "overlayfs" else "overlay"


def _gigabytes(folder: Path) -> float:
    return int(run(["du", "-s", "-B", "1048576", folder]).split()[0]) / 1024


def _key(base: Path) -> str:
    digest = hashlib.sha256(base.name.encode())
    for source in SOURCES:
        path = REPO / source
        for file in _files(path) if path.is_dir() else [path]:
            digest.update(f"{file.relative_to(REPO)}\0".encode())
            digest.update(file.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        over = any(part in PASSED_OVER or part.endswith(ENDINGS) for part in parts)
        if path.is_file() and not over:
            yield path
