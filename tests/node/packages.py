"""The Debian packages that the harness stands on: names those that are missing, and installs them where it may."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from node import settings


@dataclass(frozen=True, slots=True)
class Package:
    """A Debian package and what shows that it, or another system's equal of it, is there."""

    name: str
    program: str = ""
    files: tuple[str, ...] = ()


BUILD = (
    Package("gcc", "gcc"),
    Package("libc6-dev", files=("/usr/include/stdio.h",)),
    Package("pkg-config", "pkg-config"),
    Package("libseccomp-dev", files=("/usr/include/seccomp.h",)),
)
API = (
    Package("openssl", "openssl"),
    Package("util-linux", "unshare"),
    Package("iproute2", "ip"),
)
NODE = (
    *API,
    Package("containernetworking-plugins", files=("/usr/lib/cni/bridge", "/opt/cni/bin/bridge")),
    Package("nftables", "nft"),
    Package("iptables", "iptables"),
    Package("conntrack", "conntrack"),
    Package("ethtool", "ethtool"),
    Package("socat", "socat"),
    Package("procps", "sysctl"),
    Package("mount", "mount"),
)
IMAGES = (
    Package("debootstrap", "debootstrap"),
    Package("debian-archive-keyring", files=("/usr/share/keyrings/debian-archive-keyring.gpg",)),
    Package("busybox-static", "busybox"),
    Package("buildah", "buildah"),
)
ALL = tuple(dict.fromkeys(package.name for package in (*BUILD, *NODE, *IMAGES)))


class MissingPackages(Exception):
    """Programs that the harness needs are not installed, and it may not install them."""


def missing(packages: Iterable[Package]) -> list[str]:
    """The names of those packages that are not there."""
    return [package.name for package in packages if not _is_there(package)]


def require(packages: Iterable[Package], say: Callable[[str], None]) -> None:
    """Make sure that the packages are there: install them as root on Debian, or raise MissingPackages naming all."""
    wanted = list(packages)
    names = missing(wanted)
    if not names:
        return
    if not (settings.is_root() and shutil.which("apt-get")):
        raise MissingPackages(
            f"these packages are missing: {' '.join(names)}; "
            f"install them (on Debian, as root: apt-get install {' '.join(names)}) and try again"
        )
    say(f"installing {' '.join(names)}")
    _install(names)
    if still := missing(wanted):
        raise MissingPackages(
            f"apt-get installed {' '.join(still)}, but what they should hold is not there"
        )


def _is_there(package: Package) -> bool:
    if package.program:
        return shutil.which(package.program, path=settings.search_path()) is not None
    return any(Path(file).exists() for file in package.files)


def _install(names: list[str]) -> None:
    # the timeout waits for another apt or dpkg that holds the lock
    base = ["apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=900", "-o", "Acquire::Retries=3"]
    install = [*base, "install", "--no-install-recommends", *names]
    env = settings.environment(DEBIAN_FRONTEND="noninteractive")
    if subprocess.run(install, env=env, stdout=subprocess.DEVNULL, check=False).returncode != 0:
        # the lists of packages are missing or old
        subprocess.run([*base, "update"], env=env, stdout=subprocess.DEVNULL, check=False)
        done = subprocess.run(install, env=env, stdout=subprocess.DEVNULL, check=False)
        if done.returncode != 0:
            raise MissingPackages(
                f"apt-get could not install {' '.join(names)}; its messages are above"
            )
