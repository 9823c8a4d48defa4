"""What a queue knows of one worker."""

from __future__ import annotations

from millgate.fleet import Beat, WorkerInfo, WorkerRef, WorkerState


class Worker:
    """One start of one worker. `call` and `memo` answer a repeated claim."""

    __slots__ = ("beat", "call", "fence", "incarnation", "info", "leased", "memo", "name", "seen")

    def __init__(self, ref: WorkerRef, info: WorkerInfo, seen: float) -> None:
        self.name = ref.name
        self.incarnation = ref.incarnation
        self.info = info
        self.beat = Beat()
        self.seen = seen
        self.leased = 0
        self.fence: float | None = None  # until when
        self.call: str | None = None
        self.memo: tuple[tuple[str, str], ...] = ()

    @property
    def ref(self) -> WorkerRef:
        """Which start of which worker it is."""
        return WorkerRef(self.name, self.incarnation)

    def state(self, now: float) -> WorkerState:
        """Whether it may claim."""
        fenced = self.fence is not None and self.fence > now
        return WorkerState.FENCED if fenced else WorkerState.ACTIVE
