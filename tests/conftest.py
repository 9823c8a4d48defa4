"""Options and fixtures for every test; no helpers (those are in support/)."""

from __future__ import annotations
