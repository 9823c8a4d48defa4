"""Call arguments and results as JSON with tags: every value comes back equal and of its type, or is refused at once.

Plain JSON stays plain JSON, so that a producer in another language can write it. What JSON lacks becomes an object
with one key that starts with `$mg:`. Nothing here imports or runs what a payload names: a class is known only when
this process registered it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

from millgate import registered
from millgate.errors import NotDecodable, NotEncodable
from millgate.hints import Any, Final
from millgate.registered import Hook

#: Levels of nesting that a value may have; JSON readers give up at some depth, so the writer sets one.
MAX_DEPTH: Final = 100
_TAG: Final = "$mg:"
_LONG_INT: Final = 4096  # bits; Python refuses to read longer decimal numbers at about 14,000
_MAX_PATH: Final = 120

_encoder = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")
)
#: What the encoder makes anew for each value, made once; None where the interpreter has no such thing.
_chunks: Callable[[Any, int], tuple[str, ...]] | None = json.encoder.c_make_encoder and (  # type: ignore[attr-defined]
    json.encoder.c_make_encoder(  # type: ignore[attr-defined]
        None,
        _encoder.default,
        json.encoder.encode_basestring,
        None,
        ":",
        ",",
        False,
        False,
        False,
    )
)


def _write(value: Any) -> str:
    return _encoder.encode(value) if _chunks is None else "".join(_chunks(value, 0))


_write_sorted = json.JSONEncoder(
    check_circular=False, allow_nan=False, separators=(",", ":"), sort_keys=True
).encode


# --- the two directions --------------------------------------------------------------------------


def encode(value: Any, path: str = "value") -> bytes:
    """`value` as UTF-8 JSON. Raises NotEncodable with the path of the part that cannot be carried."""
    if value is None:  # what most tasks return
        return b"null"
    return _bytes(lambda: _plain(value, path, 0))


def decode(data: bytes) -> Any:
    """The value that `encode` wrote. Raises NotDecodable."""
    try:
        text = data.decode("utf-8")
        try:
            value, end = _scan(text, 0)
        except StopIteration:
            return _decoder.decode(text)  # spaces in front, or an error that is told well
        return value if end == len(text) else _decoder.decode(text)
    except NotDecodable:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise NotDecodable(f"not JSON that can be read: {cut(str(error))}") from error


def encode_call(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
    """The body of a message: a JSON array of the positional and the named arguments. Raises NotEncodable."""
    if not args and not kwargs:
        return b"[[],{}]"

    def call() -> list[Any]:
        return [
            [_plain(value, f"args[{i}]", 0) for i, value in enumerate(args)],
            {name: _plain(value, f"kwargs[{name!r}]", 0) for name, value in kwargs.items()},
        ]

    return _bytes(call)


def decode_call(body: bytes) -> tuple[list[Any], dict[str, Any]]:
    """The arguments that `encode_call`, or a producer in another language, wrote. Raises NotDecodable."""
    call = decode(body)
    if (
        not isinstance(call, list)
        or len(call) != 2
        or not isinstance(call[0], list)
        or not isinstance(call[1], dict)
        or (call[1] and not all(isinstance(name, str) for name in call[1]))
    ):
        raise NotDecodable("a body is a JSON array of two: [arguments], {named arguments}")
    return call[0], call[1]


def splice(body: bytes, first: bytes) -> bytes:
    """`body` with the encoded value `first` put before its arguments. Raises NotDecodable."""
    head = body.lstrip()
    inner = head[1:].lstrip()
    if head[:1] != b"[" or inner[:1] != b"[":
        raise NotDecodable("a body is a JSON array of two: [arguments], {named arguments}")
    rest = inner[1:].lstrip()
    return b"[[" + first + (b"" if rest[:1] == b"]" else b",") + rest


def canonical(value: Any, path: str = "value") -> bytes:
    """As `encode`, but equal values give equal bytes whatever the order of their keys: for keys and hashes."""
    return _write_sorted(_ordered(_plain(value, path, 0))).encode()


# --- encoding ------------------------------------------------------------------------------------


def _bytes(make: Callable[[], Any]) -> bytes:
    try:
        return _write(make()).encode("utf-8")
    except RecursionError:
        raise NotEncodable("the call stack is too deep already to encode this") from None
    except UnicodeEncodeError as error:
        raise NotEncodable(
            f"the name of an argument has lone surrogates: {error.object!r:.80}"
        ) from None


def _plain(value: Any, path: str, depth: int) -> Any:
    """`value` made of JSON types only."""
    cls = type(value)
    if cls is str:
        return value if value.isascii() else _text(value)
    if cls is bool or value is None:
        return value
    if cls is int:
        return value if value.bit_length() <= _LONG_INT else {_TAG + "int": hex(value)}
    if cls is float:
        return value if value - value == 0 else {_TAG + "float": repr(value)}
    if depth >= MAX_DEPTH:
        raise NotEncodable(f"{cut(path)}: nested deeper than {MAX_DEPTH} levels, or in itself")
    if cls is dict:
        return _dict(value, path, depth + 1)
    if cls is list:
        return [_plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
    return _tagged(value, cls, path, depth)


def _text(value: str) -> Any:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        # Two lone surrogates written as escapes would come back as one character.
        return {_TAG + "str": value.encode("utf-8", "surrogatepass").hex()}
    return value


def _dict(value: dict[Any, Any], path: str, depth: int) -> Any:
    if all(type(key) is str and (key.isascii() or _text(key) is key) for key in value) and not (
        len(value) == 1 and next(iter(value)).startswith(_TAG)
    ):
        return {key: _plain(item, f"{path}[{key!r}]", depth) for key, item in value.items()}
    pairs = [
        [_plain(key, f"{path} key", depth), _plain(item, f"{path}[{_shown(key)}]", depth)]
        for key, item in value.items()
    ]
    return {_TAG + "dict": pairs}


def _shown(key: Any) -> str:
    try:
        return cut(repr(key))
    except Exception:  # noqa: BLE001 -- a key that cannot be shown is still a key
        return f"<{type(key).__name__}>"


def _tagged(value: Any, cls: type, path: str, depth: int) -> Any:
    hook = registered.by_class.get(cls)
    if hook is not None:
        return {_TAG + "as": [hook.name, _plain(_through(hook, value, path), path, depth + 1)]}
    if cls is tuple:
        return {_TAG + "tuple": [_plain(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(value)]}
    if cls is set or cls is frozenset:
        items = [_plain(item, f"{path} item", depth + 1) for item in value]
        return {_TAG + cls.__name__: sorted(items, key=_write_sorted)}
    if cls is bytes:
        return {_TAG + "bytes": _base64(value)}
    name = f"{cls.__module__}.{cls.__qualname__}"
    standard = _STANDARD.get(name)
    # the name alone proves nothing: it must be the class that its module has
    if standard is None or getattr(sys.modules[cls.__module__], cls.__qualname__) is not cls:
        raise NotEncodable(f"{cut(path)} is a {name}; {_advice(value, cls)}")
    try:
        return {_TAG + cls.__name__.lower(): standard(value)}
    except ValueError as error:
        raise NotEncodable(f"{cut(path)}: {error}") from None


def _through(hook: Hook, value: Any, path: str) -> Any:
    try:
        return hook.encode(value)
    except Exception as error:
        raise NotEncodable(
            f"{cut(path)}: {hook.name} does not encode: {cut(str(error))}"
        ) from error


def _advice(value: Any, cls: type) -> str:
    for plain in (str, int, float, dict, list, bytes):
        if isinstance(value, plain):
            return f"convert it with {plain.__name__}(…), or register the class"
    if isinstance(value, bytearray | memoryview):
        return "convert it with bytes(…)"
    if hasattr(cls, "__dataclass_fields__") or hasattr(cls, "__members__"):
        return "register it: @millgate.register above the class"
    return "send plain data or a reference, or register the class with millgate.register"


def _base64(value: bytes) -> str:
    from binascii import b2a_base64

    return b2a_base64(value, newline=False).decode("ascii")


def _moment(value: Any) -> Any:
    """A datetime or time: its ISO form; with fold, a named zone or an offset that ISO has no form for, also these."""
    zone = getattr(value.tzinfo, "key", None)
    if zone is None and value.tzinfo is not None:
        offset = value.utcoffset()
        if offset is None:
            raise ValueError("its time zone has no name and no offset")
        if offset.microseconds:
            zone = (offset.days * 86400 + offset.seconds) * 10**6 + offset.microseconds
    if zone is None:
        return [value.isoformat(), value.fold, None] if value.fold else value.isoformat()
    return [value.replace(tzinfo=None).isoformat(), value.fold, zone]


_STANDARD: Final[dict[str, Callable[[Any], Any]]] = {
    "datetime.datetime": _moment,
    "datetime.time": _moment,
    "datetime.date": lambda value: value.isoformat(),
    "datetime.timedelta": lambda value: [value.days, value.seconds, value.microseconds],
    "decimal.Decimal": str,
    "uuid.UUID": str,
}


def _ordered(plain: Any) -> Any:
    """The pairs of tagged dicts in one order; that of JSON objects is the writer's business."""
    if type(plain) is list:
        return [_ordered(item) for item in plain]
    if type(plain) is not dict:
        return plain
    done = {key: _ordered(item) for key, item in plain.items()}
    if _TAG + "dict" in done:
        done[_TAG + "dict"] = sorted(done[_TAG + "dict"], key=_write_sorted)
    return done


def cut(text: str, limit: int = _MAX_PATH) -> str:
    """`text`, its middle left out when it is long: for messages that people read."""
    return text if len(text) <= limit else f"{text[: limit // 2]} … {text[-limit // 2 :]}"


# --- decoding ------------------------------------------------------------------------------------


def _untag(plain: dict[str, Any]) -> Any:
    """Called for every JSON object, innermost first."""
    if len(plain) != 1:
        return plain
    [(key, payload)] = plain.items()
    if not key.startswith(_TAG):
        return plain
    reader = _READERS.get(key[len(_TAG) :])
    if reader is None:
        raise NotDecodable(f"tag {cut(key)!r} is not known; a newer Millgate wrote it")
    try:
        return reader(payload)
    except NotDecodable:
        raise
    except Exception as error:
        raise NotDecodable(f"{cut(key)} cannot be read back: {cut(str(error))}") from error


def _read_hook(payload: Any) -> Any:
    name, value = payload
    hook = registered.by_name.get(name)
    if hook is None:
        raise NotDecodable(f"class {cut(str(name))!r} is not registered in this process")
    return hook.decode(value)


def _read_moment(payload: Any, kind: str) -> Any:
    import datetime

    iso, fold, zone = (payload, 0, None) if isinstance(payload, str) else payload
    value = getattr(datetime, kind).fromisoformat(iso).replace(fold=fold)
    if zone is None:
        return value
    if isinstance(zone, int):
        return value.replace(tzinfo=datetime.timezone(datetime.timedelta(microseconds=zone)))
    from zoneinfo import ZoneInfo

    return value.replace(tzinfo=ZoneInfo(zone))


def _read_date(payload: Any) -> Any:
    from datetime import date

    return date.fromisoformat(payload)


def _read_timedelta(payload: Any) -> Any:
    from datetime import timedelta

    return timedelta(*payload)


def _read_decimal(payload: Any) -> Any:
    from decimal import Decimal

    return Decimal(payload)


def _read_uuid(payload: Any) -> Any:
    from uuid import UUID

    return UUID(payload)


def _read_bytes(payload: Any) -> bytes:
    from binascii import a2b_base64

    return a2b_base64(payload, strict_mode=True)


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "as": _read_hook,
    "bytes": _read_bytes,
    "date": _read_date,
    "datetime": lambda payload: _read_moment(payload, "datetime"),
    "decimal": _read_decimal,
    "dict": dict,
    "float": float,
    "frozenset": frozenset,
    "int": lambda payload: int(payload, 16),
    "set": set,
    "str": lambda payload: bytes.fromhex(payload).decode("utf-8", "surrogatepass"),
    "time": lambda payload: _read_moment(payload, "time"),
    "timedelta": _read_timedelta,
    "tuple": tuple,
    "uuid": _read_uuid,
}
_decoder = json.JSONDecoder(object_hook=_untag)
#: What `decode` calls after it has looked for spaces with two regular expressions.
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]
