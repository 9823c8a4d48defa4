"""What a queue's objects on the server are called. Pure.

`millgate.QUEUE.calls` is where calls go; whoever has it (exclusively) is the queue's brokerd. `millgate.QUEUE.head`
is a stream that says which journal and snapshot are in force, `…journal.TERM.NUMBER` and `…snapshot.TERM.NUMBER` are
those. Nothing is named after a topic, a key or a task: a queue has some eight objects at most, whatever is in it.
"""

from __future__ import annotations

from millgate.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Names:
    """The names of one queue's objects."""

    queue: str

    @property
    def prefix(self) -> str:
        """What all of them begin with."""
        return f"millgate.{self.queue}."

    @property
    def calls(self) -> str:
        """Where calls go."""
        return f"{self.prefix}calls"

    @property
    def head(self) -> str:
        """The stream that names what is in force."""
        return f"{self.prefix}head"

    def journal(self, term: int, number: int) -> str:
        """One stream of records."""
        return f"{self.prefix}journal.{term}.{number}"

    def snapshot(self, term: int, number: int) -> str:
        """One stream with a whole state."""
        return f"{self.prefix}snapshot.{term}.{number}"
