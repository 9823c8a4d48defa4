"""Docker archives, as containerd and buildah read them: written from files, and extended by one more layer."""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EPOCH = "2026-01-01T00:00:00Z"  # the same input makes the same image
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Launch:
    """How a container of an image starts."""

    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = ""


def write(out: Path, reference: str, root: bytes, launch: Launch) -> None:
    """Write an archive of one layer; root is a tar file of the whole file system."""
    _write(out, reference, _config([root], launch), {"layer.tar": root})


def add_files(
    base: Path, out: Path, reference: str, files: Mapping[str, Path], env: Mapping[str, str]
) -> None:
    """Write an archive like base with more files (path in the image → file) and variables."""
    with tarfile.open(base) as tar:
        [manifest] = json.loads(_member(tar, "manifest.json"))
        config = json.loads(_member(tar, manifest["Config"]))
        layers = {f"{n}.tar": _member(tar, name) for n, name in enumerate(manifest["Layers"])}
    more = layer(files)
    layers[f"{len(layers)}.tar"] = more
    config["rootfs"]["diff_ids"].append(_digest(more))
    config.setdefault("history", []).append({"created": EPOCH, "created_by": "files"})
    settings = config.setdefault("config", {})
    kept = [pair for pair in settings.get("Env") or [] if pair.split("=", 1)[0] not in env]
    settings["Env"] = [*kept, *(f"{name}={value}" for name, value in env.items())]
    _write(out, reference, config, layers)


def _config(layers: list[bytes], launch: Launch) -> dict[str, Any]:
    return {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "created": EPOCH,
        "config": {
            "Entrypoint": list(launch.entrypoint) or None,
            "Cmd": list(launch.command) or None,
            "Env": [f"PATH={PATH}", *(f"{name}={value}" for name, value in launch.env.items())],
            "User": launch.user,
        },
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]},
        # buildah refuses to build on a layer that the history does not name
        "history": [{"created": EPOCH, "created_by": "root"} for _ in layers],
    }


def _write(out: Path, reference: str, config: dict[str, Any], layers: Mapping[str, bytes]) -> None:
    text = json.dumps(config).encode()
    name = hashlib.sha256(text).hexdigest() + ".json"
    entry = {"Config": name, "RepoTags": [reference], "Layers": list(layers)}
    members = {name: text, **layers, "manifest.json": json.dumps([entry]).encode()}
    partial = out.with_suffix(".partial")
    with tarfile.open(partial, "w") as tar:
        for member, data in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    partial.rename(out)


def layer(
    files: Mapping[str, Path],
    links: Mapping[str, str] | None = None,
    open_folders: Iterable[str] = (),
) -> bytes:
    """A layer of files (path in the image → file or folder), symbolic links (path → target), and empty folders
    that everyone may write to."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, path in sorted(files.items()):
            tar.add(path, arcname=name.lstrip("/"), filter=_plain)
        for name, target in (links or {}).items():
            link = tarfile.TarInfo(name.lstrip("/"))
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        for name in open_folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)
    return buffer.getvalue()


def _plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    return info


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    if file is None:
        raise ValueError(f"{tar.name!r} has no {name}")
    return file.read()


def _digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()
