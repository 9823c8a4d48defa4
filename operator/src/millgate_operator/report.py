"""Writes status and Events: only what changed, and mere numbers at most every half minute."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from millgate_operator import status, topic_status
from millgate_operator.conditions import Condition, changes, no, written, yes
from millgate_operator.context import Context
from millgate_operator.names import ANNOTATION_RECONCILE, PAUSED
from millgate_operator.observed import Seen
from millgate_operator.spec import Topic

#: Seconds between two writes that change nothing but numbers.
NUMBERS_EVERY: Final = 30.0
_NUMBERS: Final = ("summary", "topics", "appliedBy")


def report_seen(
    context: Context,
    manifest: Mapping[str, Any],
    topics: Sequence[Mapping[str, Any]],
    read: Sequence[Topic],
    unread: Mapping[str, str],
    seen: Seen,
) -> float | None:
    """The status of a queue and of its Topics. Answers after how many seconds held-back numbers are due."""
    by_name = {topic.meta.name: topic for topic in read}
    waits = [
        _write(context, manifest, status.queue_conditions(seen), status.queue_fields(seen)),
    ]
    for item in topics:
        name = item["metadata"]["name"]
        if name in unread:
            _write(context, item, _invalid(unread[name], "Accepted"), {})
            continue
        topic = by_name[name]
        conditions = topic_status.topic_conditions(topic, seen)
        waits.append(_write(context, item, conditions, topic_status.topic_fields(topic, seen)))
    due = [wait for wait in waits if wait is not None]
    return min(due) if due else None


def report_gone(context: Context, topics: Sequence[Mapping[str, Any]]) -> None:
    """Topics whose queue is not there."""
    from millgate_operator.errors import InvalidSpec
    from millgate_operator.spec import parse_topic

    for item in topics:
        try:
            topic = parse_topic(item)
        except InvalidSpec as error:
            _write(context, item, _invalid(str(error), "Accepted"), {})
            continue
        conditions = topic_status.topic_conditions(topic, None)
        _write(context, item, conditions, topic_status.topic_fields(topic, None))


def report_invalid(
    context: Context,
    manifest: Mapping[str, Any],
    topics: Sequence[Mapping[str, Any]],
    message: str,
) -> None:
    """A queue whose manifest passed the API server, and still cannot be read."""
    _write(
        context,
        manifest,
        [*_invalid(message, "Stalled")[:1], yes("Stalled", "InvalidSpec", message)],
        {},
    )
    for item in topics:
        words = f"TaskQueue {manifest['metadata']['name']} has to be mended first: {message}"
        _write(context, item, _invalid(words, "Accepted"), {})


def report_paused(context: Context, manifest: Mapping[str, Any]) -> None:
    """A queue that the operator leaves alone: its status as it was, and a condition that says so."""
    before = manifest.get("status") or {}
    words = (
        f"annotation {ANNOTATION_RECONCILE} is {PAUSED}; remove it to let the operator work again"
    )
    pause = yes("ReconciliationPaused", "Annotation", words)
    conditions = before.get("conditions", ())
    generation = manifest["metadata"].get("generation", 0)
    # what was judged before is of the generation before: nobody has looked at the present one
    kept = [one for one in conditions if one["type"] != pause.type]
    mark = written([pause], conditions, generation, context.clock.now())
    _put(context, manifest, [pause], {**before, "conditions": [*kept, *mark]})


def _invalid(message: str, aspect: str) -> list[Condition]:
    return [no("Ready", "InvalidSpec", message), no(aspect, "InvalidSpec", message)]


def _write(
    context: Context,
    item: Mapping[str, Any],
    conditions: Sequence[Condition],
    fields: Mapping[str, Any],
) -> float | None:
    """The status of one object as it is judged now; as `_put`."""
    before = (item.get("status") or {}).get("conditions", ())
    generation = item["metadata"].get("generation", 0)
    after = {
        "observedGeneration": generation,
        "conditions": written(conditions, before, generation, context.clock.now()),
        **fields,
    }
    return _put(context, item, conditions, after)


def _put(
    context: Context,
    item: Mapping[str, Any],
    conditions: Sequence[Condition],
    after: Mapping[str, Any],
) -> float | None:
    """Patch one status when it differs; Events for conditions that changed. Answers a wait as `report_seen`."""
    before, meta = item.get("status") or {}, item["metadata"]
    clock = context.clock.monotonic()
    if after == before:
        return None
    key = (item["kind"], meta["namespace"], meta["name"])
    if _essence(after) == _essence(before):
        due = context.written.get(key, float("-inf")) + NUMBERS_EVERY - clock
        if due > 0:
            return due
    context.cluster.patch_status(item, after)
    context.written[key] = clock
    told: set[str] = set()  # one cause shows in several conditions, and is one piece of news
    for change in changes(conditions, before.get("conditions", ())):
        if change.reason not in told:
            told.add(change.reason)
            note = f"{change.type}: {change.message}"
            context.recorder.post(item, change.reason, note, warning=change.bad)
    return None


def _essence(value: Mapping[str, Any]) -> dict[str, Any]:
    out = {name: part for name, part in value.items() if name not in _NUMBERS}
    if "workers" in out:
        numbers = ("busy", "draining", "coldStartSeconds")
        out["workers"] = {
            name: part for name, part in out["workers"].items() if name not in numbers
        }
    return out
