"""`python -m millgate.cli`: the command line, for whoever starts it with an interpreter of their choice."""

from __future__ import annotations

import sys

from millgate.cli import main

if __name__ == "__main__":
    sys.exit(main())
