"""The reference queue as a deterministic state machine; the memory and the local broker wrap it."""

from __future__ import annotations

from millgate.brokers.core.core import Core
from millgate.brokers.core.store import News

__all__ = ["Core", "News"]
