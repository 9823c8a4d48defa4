"""The configuration that was read last, and nothing of one before it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from millgate.queues import TopicPolicy
from millgate.runtime.policies import Policies


class Read:
    """A configuration; `meanwhile` happens while a policy is found in it."""

    def __init__(self, revision: int, meanwhile: Any = None) -> None:
        self.revision = revision
        self._meanwhile = meanwhile

    def policy(self, topic: str) -> TopicPolicy:
        found = TopicPolicy(topic, priority=self.revision)
        if self._meanwhile is not None:
            self._meanwhile()
        return found


def serving(configuration: Read) -> Any:
    return SimpleNamespace(configuration=lambda: configuration)


def test_a_policy_that_was_found_in_an_older_configuration_is_not_kept() -> None:
    policies = Policies()
    newer = serving(Read(2))
    policies.refresh(serving(Read(1, lambda: policies.refresh(newer))))
    assert policies.of("a").priority == 1  # it was asked before
    assert policies.revision == 2
    assert policies.of("a").priority == 2
