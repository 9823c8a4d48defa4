"""The whole state of a broker as bytes and back, a row at a time: beside a long backlog there is no room for a second
one that is made of lists. Pure."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgpack

from millgate.brokers.core.snapshot import LONG
from millgate.errors import NotDecodable

_PARTS: Final = 3
_READ: Final = 65536  # bytes at a time


def pack(now: float, queues: Mapping[str, Mapping[str, Any]], callers: list[Any]) -> bytes:
    """All of it; of each queue the parts that `Core.parts` gives."""
    packer, out = msgpack.Packer(use_bin_type=True, unicode_errors="surrogatepass"), io.BytesIO()
    out.write(packer.pack_array_header(_PARTS) + packer.pack(now))
    out.write(packer.pack_map_header(len(queues)))
    for name, parts in queues.items():
        out.write(packer.pack(name) + packer.pack_map_header(len(parts)))
        for part, value in parts.items():
            out.write(packer.pack(part))
            if part not in LONG:
                out.write(packer.pack(value))
                continue
            out.write(packer.pack_array_header(len(value)))
            for item in value:
                out.write(packer.pack(item))
    out.write(packer.pack(callers))
    return out.getvalue()


class Reader:
    """What `pack` wrote, read once and in its order: `now`, then `queues`, then `callers`. All raise NotDecodable."""

    def __init__(self, data: bytes) -> None:
        self._unpacker = msgpack.Unpacker(
            io.BytesIO(data),
            raw=False,
            strict_map_key=False,
            unicode_errors="surrogatepass",
            read_size=_READ,
            max_buffer_size=0,  # as much as an item needs
        )

    def now(self) -> float:
        """The time of the last record."""
        if self._take(self._unpacker.read_array_header) != _PARTS:
            raise NotDecodable("not a snapshot of Millgate: it has other parts")
        return float(self._take(self._unpacker.unpack))

    def queues(self) -> Iterator[tuple[str, Parts]]:
        """Each queue's name and parts; the parts must be taken before the next queue is asked for."""
        for _ in range(self._take(self._unpacker.read_map_header)):
            name = self._take(self._unpacker.unpack)
            self._take(self._unpacker.read_map_header)
            yield name, Parts(self._part)

    def callers(self) -> list[Any]:
        """What the callers were answered."""
        return list(self._take(self._unpacker.unpack))

    def _part(self, name: str) -> Any:
        if self._take(self._unpacker.unpack) != name:
            raise NotDecodable(
                f"not a snapshot of Millgate: there is no {name!r} where it should be"
            )
        return self._items() if name in LONG else self._take(self._unpacker.unpack)

    def _items(self) -> Iterator[Any]:
        for _ in range(self._take(self._unpacker.read_array_header)):
            yield self._take(self._unpacker.unpack)

    def _take(self, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except (ValueError, TypeError, msgpack.exceptions.UnpackException) as error:
            raise NotDecodable(f"not a snapshot of Millgate: {error}") from error


class Parts:
    """The parts of one queue, each asked for by its name, once and in their order; those in LONG are iterators."""

    def __init__(self, part: Callable[[str], Any]) -> None:
        self._part = part

    def __getitem__(self, name: str) -> Any:
        return self._part(name)
