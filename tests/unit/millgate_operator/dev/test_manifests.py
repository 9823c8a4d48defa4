"""Reading a folder: what is taken, what is passed over, and what each complaint names."""

from __future__ import annotations

from pathlib import Path

import pytest

from millgate_operator.dev.manifests import read
from millgate_operator.errors import InvalidSpec

QUEUE = """
apiVersion: millgate.dev/v1alpha1
kind: TaskQueue
metadata: {name: hello}
spec:
  broker: {type: Local}
  workers: {image: x, app: "tasks:app"}
"""
TOPIC = """
apiVersion: millgate.dev/v1alpha1
kind: Topic
metadata: {name: report}
spec:
  queueRef: {name: hello}
  concurrency: {limit: 1}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "queue.yaml").write_text(QUEUE)
    (tmp_path / "topics.yml").write_text(f"{TOPIC}---{TOPIC.replace('report', 'mail')}")
    return tmp_path


def test_queues_and_topics_of_all_files_are_taken(folder: Path) -> None:
    manifests = read(folder)
    (queue,) = manifests.queues
    assert queue.broker_queue == "default.hello"
    assert sorted(topic.name for topic in manifests.topics_of(queue)) == ["mail", "report"]
    assert manifests.folder_of(queue) == folder.resolve()


def test_queues_of_one_name_in_two_namespaces_are_told_apart(folder: Path) -> None:
    other = QUEUE.replace("{name: hello}", "{name: hello, namespace: staging}")
    (folder / "staging.yaml").write_text(f"{other}---{QUEUE.replace('hello', 'mail')}")
    manifests = read(folder)
    labels = {manifests.label_of(queue) for queue in manifests.queues}
    assert labels == {"default.hello", "staging.hello", "mail"}


def test_two_queues_for_one_set_of_tasks_are_refused(folder: Path) -> None:
    other = QUEUE.replace("name: hello", "name: mail").replace(
        "Local", "Local, prefix: default.hello"
    )
    (folder / "mail.yaml").write_text(other)
    with pytest.raises(
        InvalidSpec, match=r"spec\.broker\.prefix: .* give one of them another prefix"
    ):
        read(folder)


def test_a_single_file_may_be_named(folder: Path) -> None:
    assert read(folder / "queue.yaml").topics == ()


def test_other_objects_and_files_are_passed_over(folder: Path) -> None:
    (folder / "secret.yaml").write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n---\n")
    (folder / "notes.txt").write_text("kind: nonsense: [")
    (folder / "nested").mkdir()
    (folder / "nested" / "queue.yaml").write_text(QUEUE)
    assert len(read(folder).queues) == 1


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("bad.yaml", "a: [", ("bad.yaml", "not YAML", "line 1, column 5")),
        ("date.yaml", "a: 2026-13-01", ("date.yaml", "not YAML", "month must be in 1..12")),
        pytest.param("d.yaml", "[" * 5_000 + "]" * 5_000, ("d.yaml", "too deeply"), id="deep"),
        (
            "typo.yaml",
            QUEUE.replace("app:", "ap:").replace("hello", "other"),
            ("typo.yaml", "TaskQueue other", "spec.workers.ap"),
        ),
        (
            "lost.yaml",
            TOPIC.replace("hello", "helo").replace("report", "x"),
            ("no TaskQueue helo", "hello"),
        ),
        ("twice.yaml", TOPIC, ("report", "declared twice, first in", "twice.yaml")),
        (
            "app.yaml",
            QUEUE.replace("tasks:app", "tasks").replace("hello", "other"),
            ("spec.workers.app", "write it like package.module:attribute"),
        ),
        ("kind.yaml", QUEUE.replace("TaskQueue", "TaskQeue"), ("kind.yaml", "TaskQeue")),
        ("old.yaml", QUEUE.replace("v1alpha1", "v9"), ("old.yaml", "v1alpha1")),
    ],
)
def test_a_complaint_names_the_file_the_object_and_the_field(
    folder: Path, name: str, text: str, words: tuple[str, ...]
) -> None:
    (folder / name).write_text(text)
    with pytest.raises(InvalidSpec) as raised:
        read(folder)
    for word in words:
        assert word in str(raised.value)


def test_a_folder_without_a_queue_says_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match="no TaskQueue"):
        read(tmp_path)
    with pytest.raises(InvalidSpec, match="no such folder"):
        read(tmp_path / "missing")


def test_a_file_that_cannot_be_read_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(path: Path, encoding: str) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", closed)
    with pytest.raises(InvalidSpec, match=r"queue.yaml: cannot be read: Permission denied"):
        read(folder)
