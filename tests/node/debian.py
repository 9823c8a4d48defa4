"""Debian file systems made by debootstrap, as one-layer images that other images are built on."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from node import archive, cache, packages, settings
from node.archive import Launch
from node.cache import Say
from node.command import run

SUITE = "trixie"
# what python:slim has, from Debian's packages
PYTHON = ("python3", "python3-venv", "ca-certificates", "netbase", "tzdata")
TRIMMED = (
    *("var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/doc", "usr/share/info"),
    *("usr/share/man", "usr/share/locale", "usr/share/lintian", "usr/share/bug"),
    *("etc/hostname", "etc/resolv.conf", "etc/apt/sources.list"),  # of the machine that made it
)
BASE = "localhost/millgate-base:1"


class BootstrapFailed(Exception):
    """A Debian file system could not be made."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """An image of Debian packages, and what is done to its file system afterwards."""

    reference: str
    packages: tuple[str, ...]
    launch: Launch = field(default_factory=Launch)
    finish: Callable[[Path], None] | None = None
    edition: int = 1  # raised when finish changes

    @property
    def key(self) -> str:
        """Changes with whatever the image is made of."""
        made_of = repr((SUITE, self.packages, self.launch, self.edition, TRIMMED))
        return hashlib.sha256(made_of.encode()).hexdigest()[:12]


def base(say: Say) -> Path:
    """The archive of BASE, Debian with Python: half a minute the first time."""
    return make(Recipe(BASE, PYTHON, Launch(command=("python3",))), say)


def make(recipe: Recipe, say: Say) -> Path:
    """The archive of a recipe's image, made if it is not there."""
    name = recipe.reference.rpartition("/")[2].partition(":")[0]
    out = cache.folder("images") / f"{name}-{recipe.key}.tar"
    if out.exists():
        return out
    with cache.locked("debian", say):
        if not out.exists():
            packages.require(packages.IMAGES, say)
            say(f"making {recipe.reference} from Debian {SUITE} ({', '.join(recipe.packages)})")
            _make(recipe, out)
            cache.keep_newest(out.parent, f"{name}-*.tar", 2)
    return out


def _make(recipe: Recipe, out: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="debian-", dir=cache.folder()) as temporary:
        root = Path(temporary) / "root"
        bootstrap(root, recipe.packages)
        for part in TRIMMED:
            shutil.rmtree(root / part, ignore_errors=True)
            (root / part).unlink(missing_ok=True)
        for part in ("var/log", "var/cache/apt", "var/lib/apt/lists"):
            (root / part).mkdir(parents=True, exist_ok=True)
        if recipe.finish is not None:
            recipe.finish(root)
        archive.write(out, recipe.reference, _as_layer(root), recipe.launch)


def bootstrap(root: Path, names: tuple[str, ...]) -> None:
    """Make a root of SUITE with these packages in a folder that is not there yet."""
    if not settings.is_root():
        raise BootstrapFailed("debootstrap needs root")
    argv = ["debootstrap", "--variant=minbase", f"--include={','.join(names)}"]
    argv += [f"--cache-dir={cache.folder('packages')}", SUITE, str(root), _mirror()]
    env = settings.environment(PATH=settings.search_path(), DEBIAN_FRONTEND="noninteractive")
    done = subprocess.run(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode != 0:
        raise BootstrapFailed(f"debootstrap failed:\n{done.stdout[-3000:]}")


def _mirror() -> str:
    """The archive that this machine's apt uses; the word for debootstrap's own choice is the empty one."""
    if shutil.which("apt-get") is None:
        return ""
    listed = run(
        ["apt-get", "indextargets", "--format", "$(ORIGIN) $(SITE)", "Created-By: Packages"]
    )
    sites = [line.split(" ", 1)[1] for line in listed.splitlines() if line.startswith("Debian ")]
    return sites[0] if sites else ""


def _as_layer(root: Path) -> bytes:
    argv = ["tar", "-C", str(root), "--numeric-owner", "--sort=name", "--exclude=./dev/*"]
    done = subprocess.run([*argv, "-cf", "-", "."], capture_output=True, check=True)
    return done.stdout
