"""What this process or its machine has none left of, in words that say what to do about it."""

from __future__ import annotations

import errno
import os

from millgate.hints import Final

_FILES: Final = {
    errno.EMFILE: "this process has as many files and connections open as it may; raise its limit (ulimit -n), or find"
    " out what opens them and does not close them",
    errno.ENFILE: "this machine has as many files and connections open as it may; raise fs.file-max there",
}
#: What to do where no thread could be started: the system counts them as processes.
OF_THREADS: Final = (
    "there may be no more processes and threads; raise the user's limit (ulimit -u), or that of the pod or its node"
    " (pids)"
)
_PROCESSES: Final = {
    **_FILES,
    errno.EAGAIN: OF_THREADS,
    errno.ENOMEM: "there is no memory for another process; give the machine or the pod more, or lower --children",
}


def of_files(error: OSError) -> str | None:
    """What to do when `error` came of too many open files; None: it came of something else."""
    advice = _FILES.get(error.errno or 0)
    return of_files_now() if advice is None and _of_names(error) else advice


def of_files_now() -> str | None:
    """What to do when no file can be opened at this moment; None: one can. For errors that do not say what they came
    of."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return _FILES.get(error.errno or 0)
    return None


def of_processes(error: OSError) -> str | None:
    """What to do when no process could be started; None: it has nothing to do with a limit."""
    return _PROCESSES.get(error.errno or 0)


def _of_names(error: OSError) -> bool:
    """Whether a host's name was not found, which may be for want of a file to ask with: the error does not say."""
    return type(error).__name__ == "gaierror"
