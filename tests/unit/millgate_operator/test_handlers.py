"""What is watched, and by which labels."""

from __future__ import annotations

import kopf

from millgate_operator.canary import Canary
from millgate_operator.desired import worker_objects
from millgate_operator.handlers import CHILDREN, configure
from millgate_operator.names import LABEL_MANAGED, LABEL_QUEUE
from millgate_operator.spec import parse_task_queue
from support.clock import FakeClock
from support.manifests import a_task_queue, workers


def test_pods_are_watched_whatever_an_overlay_makes_of_their_labels() -> None:
    settings = kopf.OperatorSettings()
    configure(settings, Canary(None, FakeClock(), "system", "canary"))  # type: ignore[arg-type]
    selectors = list(settings.watching.label_selectors.values())
    overlay = {"metadata": {"labels": {LABEL_MANAGED: "Helm"}}}
    made = worker_objects(parse_task_queue(a_task_queue(workers=workers(template=overlay))))
    labels = made[-1]["spec"]["template"]["metadata"]["labels"]
    assert labels[LABEL_MANAGED] == "Helm"
    assert selectors == [LABEL_QUEUE] * len(CHILDREN)
    assert LABEL_QUEUE in labels
