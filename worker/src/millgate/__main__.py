"""`millgate` and `python -m millgate`: from its first line on, Ctrl-C ends the program without a word.

Until a command runs there is nothing to tidy, and a KeyboardInterrupt in the middle of an import would be a
traceback. The command line hears Ctrl-C itself from then on.
"""

from __future__ import annotations

import sys

# the module below `signal`, which needs no import that could be interrupted
from _signal import SIG_DFL, SIGINT, default_int_handler, getsignal, signal  # type: ignore[import-not-found]

if getsignal(SIGINT) is default_int_handler:  # else somebody wants it otherwise, such as `nohup`
    signal(SIGINT, SIG_DFL)


def main() -> int:
    """Run the command that `sys.argv` names; its exit code."""
    from millgate.cli import main as command_line

    return command_line()


if __name__ == "__main__":
    sys.exit(main())
