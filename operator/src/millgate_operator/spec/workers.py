"""The worker pool of a TaskQueue: what its pods run, how they are sized and how many there are. Pure."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from millgate.limits import Ceiling, parse_bytes
from millgate.settings import MAX_CHILDREN, MAX_SLOTS
from millgate_operator.spec.types import (
    Duration,
    Glob,
    MemoryCeiling,
    Model,
    Open,
    PodCount,
    Rule,
    at_least,
    at_most,
)

_PERCENT = "string(self.{0}).endsWith('%')"
_AMOUNT = "quantity(string(self.{0}))"
#: Less than Python itself takes: whoever writes it has left out the unit.
_LEAST = "10Mi"


def _soft_below_hard(memory: Memory) -> bool:
    if memory.max_rss is None or memory.hard_max_rss is None:
        return True
    soft, hard = Ceiling.parse(memory.max_rss), Ceiling.parse(memory.hard_max_rss)
    if soft.share is not None and hard.share is not None:
        return soft.share < hard.share
    if soft.amount is not None and hard.amount is not None:
        return soft.amount < hard.amount
    return True  # compared in the pod, which knows its limit


def _at_least_a_child(field: str, alias: str) -> Rule:
    def holds(memory: Any) -> bool:
        value = getattr(memory, field)
        amount = None if value is None else Ceiling.parse(value).amount
        return amount is None or amount >= parse_bytes(_LEAST)

    return Rule(
        f"!has(self.{alias}) || {_PERCENT.format(alias)} || "
        f"{_AMOUNT.format(alias)}.compareTo(quantity('{_LEAST}')) >= 0",
        f"{alias} must be at least {_LEAST}, as no child has less; write it with its unit, like 400Mi",
        holds,
    )


class Memory(Model):
    """Ceilings for the memory of a child with everything that it started."""

    max_rss: MemoryCeiling | None = Field(
        None,
        alias="maxRSS",
        description="Above this a child is replaced when its present task has ended: an amount (400Mi) or a share of "
        "the container's memory limit (30%). A running task is never stopped by it.",
    )
    hard_max_rss: MemoryCeiling | None = Field(
        None,
        alias="hardMaxRSS",
        description="Above this a child is killed at once, and its task alone fails as MemoryExceeded; the others in "
        "the pod go on. An amount (600Mi) or a share of the container's memory limit (45%).",
    )

    rules = (
        Rule(
            "!has(self.maxRSS) || !has(self.hardMaxRSS) || "
            f"{_PERCENT.format('maxRSS')} != {_PERCENT.format('hardMaxRSS')} || "
            f"({_PERCENT.format('maxRSS')} "
            "? int(string(self.maxRSS).replace('%', '')) < int(string(self.hardMaxRSS).replace('%', '')) "
            f": {_AMOUNT.format('maxRSS')}.isLessThan({_AMOUNT.format('hardMaxRSS')}))",
            "maxRSS must be below hardMaxRSS, or it never acts",
            _soft_below_hard,
        ),
        _at_least_a_child("max_rss", "maxRSS"),
        _at_least_a_child("hard_max_rss", "hardMaxRSS"),
    )


class TopicSelection(Model):
    """Which topics the pool's workers take."""

    include: tuple[Glob, ...] = Field(
        (),
        max_length=64,
        description="Topics to take, as globs (video-*). Empty: all of them. Quote a glob that begins with *.",
    )
    exclude: tuple[Glob, ...] = Field(
        (), max_length=64, description="Topics not to take, as globs; they win over include."
    )
    ordered: bool = Field(
        False,
        description="Serve the entries of include strictly in their order, in place of the topics' priorities: nothing "
        "is taken from a later one while an earlier one has work.",
    )

    rules = (
        Rule(
            "!self.ordered || (has(self.include) && size(self.include) > 0)",
            "ordered needs include, whose order it means",
            lambda self: not self.ordered or bool(self.include),
        ),
    )


class ScaleUp(Model):
    """How fast the pool grows; from zero it goes to the needed size at once."""

    pods: Annotated[int, Field(ge=1, le=10_000)] = Field(
        8, description="Most pods added in each period; the larger of pods and percent counts."
    )
    percent: Annotated[int, Field(ge=1, le=1_000)] = Field(
        100, description="Most pods added in each period, as a percentage of those there."
    )
    period: Duration = Field("15s", description="The period that pods and percent refer to.")

    rules = (at_least("period", "period", "1s"),)


class ScaleIn(Model):
    """How the pool shrinks: workers are fenced first, finish their tasks, and only then leave."""

    percent: Annotated[int, Field(ge=1, le=100)] = Field(
        25,
        description="Most pods that are being emptied at once, as a percentage (at least one pod).",
    )
    paused: bool = Field(False, description="No scale-in; what is being emptied works again.")


class Autoscaling(Model):
    """Who decides the number of pods, and within what bounds."""

    mode: Literal["Auto", "Manual", "External"] | None = Field(
        None,
        description="Auto: the operator sizes the pool from the work that can be claimed. Manual: workers.replicas "
        "pods run. External: something else (an HPA, KEDA) scales the Deployment and the operator leaves its replicas "
        "alone. Default: Manual when workers.replicas is set, otherwise Auto.",
    )
    min: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="Fewest pods. Default 0; 1 with a Local broker, so that a first look shows a worker.",
    )
    max: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="Most pods. Default 10, or min where that is more."
    )
    target_latency: Duration | None = Field(
        None,
        description="How soon a backlog should be worked off; smaller means more pods sooner. Default 30s.",
    )
    idle_after: Duration | None = Field(
        None, description="How long there is no work before the last pod goes (min 0). Default 5m."
    )
    stabilization: Duration | None = Field(
        None,
        description="Shrink only to the largest size that was needed in this time. Default: six times the measured "
        "start of a pod, between 1m and 5m.",
    )
    headroom: Literal["Low", "Normal", "High"] | None = Field(
        None,
        description="Spare capacity for random peaks, growing with the square root of the load. Default Normal.",
    )
    scale_up: ScaleUp | None = Field(None, description="How fast the pool grows.")
    scale_in: ScaleIn | None = Field(None, description="How the pool shrinks.")

    rules = (
        Rule(
            "!has(self.min) || !has(self.max) || self.min <= self.max",
            "min must not be above max",
            lambda self: self.min is None or self.max is None or self.min <= self.max,
        ),
        Rule(
            "!has(self.mode) || self.mode == 'Auto' || !(has(self.min) || has(self.max) || has(self.targetLatency) || "
            "has(self.idleAfter) || has(self.stabilization) || has(self.headroom) || has(self.scaleUp) || "
            "has(self.scaleIn))",
            "only mode Auto reads the other autoscaling fields; remove them or set mode: Auto",
            lambda self: self.mode in (None, "Auto") or self.model_fields_set <= {"mode"},
        ),
        at_least("target_latency", "targetLatency", "1s"),
        at_least("idle_after", "idleAfter", "1s"),
        at_most("stabilization", "stabilization", "24h"),
    )


class Disruption(Model):
    """What voluntary disruptions (node drains) may take."""

    max_unavailable: PodCount = Field(
        "25%",
        description="Pods that may be down at once, a number or a percentage; a PodDisruptionBudget holds it. A pool "
        "that never has more than one pod gets none, so that its node can be drained.",
    )


class EnvVar(Open):
    """An environment variable, as in a container."""

    name: Annotated[str, Field(min_length=1, max_length=253)] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=131_072)] | None = Field(
        None, description='Its value, a text: quote what looks like a number ("8").'
    )


class TemplateContainer(Open):
    """A container of the overlay; the worker's own is named worker."""

    name: Annotated[str, Field(min_length=1, max_length=63)] = Field(
        description="Name of the container; worker is the one that runs tasks."
    )


class TemplatePodSpec(Open):
    """The pod's spec, as in a Deployment."""

    containers: tuple[TemplateContainer, ...] = Field(
        (),
        max_length=16,
        description="Containers; one named worker is merged into the worker's own, others are added.",
    )


class Template(Open):
    """An overlay over the pods' template, merged like a strategic merge patch: lists of named things by name."""

    spec: TemplatePodSpec | None = Field(None, description="The pod's spec, as in a Deployment.")


class Workers(Model):
    """The pods that run the tasks."""

    image: Annotated[str, Field(min_length=1, max_length=512)] = Field(
        description="The image with your code and the package millgate in it."
    )
    app: Annotated[
        str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_.]*$", max_length=253)
    ] = Field(
        description='Where the App is in the image, as package.module:attribute ("hello.tasks:app").'
    )
    children: Annotated[int, Field(ge=1, le=MAX_CHILDREN)] = Field(
        2,
        description="Processes in each pod that run tasks. A task that dies takes only its own process along.",
    )
    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = Field(
        1,
        description="Tasks that each process runs at once: async tasks on its loop, plain ones in threads. A pod runs "
        "children times slots tasks.",
    )
    memory: Memory | None = Field(
        None, description="Ceilings for the memory of a child with everything that it started."
    )
    max_tasks_per_child: Annotated[int, Field(ge=0, le=10_000_000)] = Field(
        0, description="Tasks after which a child is replaced. 0: no bound."
    )
    max_child_lifetime: Duration | None = Field(
        None,
        description="Age at which a child is replaced, after its present task. Default: no bound.",
    )
    preload: bool = Field(
        False,
        description="Import the app once per pod and fork the children from there: faster replacement and shared "
        "memory, for apps that open no connection and start no thread when they are imported.",
    )
    drain_timeout: Duration = Field(
        "10m",
        description="How long a pod that is told to stop lets running tasks go on; then they are given back, "
        "uncharged. The pod's grace period is this plus 30s. At most 168h.",
    )
    topics: TopicSelection | None = Field(
        None, description="Which topics the pool takes. Default: all."
    )
    env: tuple[EnvVar, ...] = Field(
        (), max_length=128, description="Environment variables for your code, as in a container."
    )
    env_from: tuple[dict[str, Any], ...] = Field(
        (),
        max_length=32,
        description="Sources of environment variables (configMapRef, secretRef), as in a container.",
    )
    resources: dict[str, Any] | None = Field(
        None,
        description="Requests and limits of the worker container, as in a container. Default: requests of 100m and "
        "128Mi.",
    )
    template: Template | None = Field(
        None,
        description="An overlay over the pods' template, for everything else that pods can have.",
    )
    replicas: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        None,
        description="A fixed number of pods (mode Manual); `kubectl scale` sets it. Leave it out and the operator "
        "decides.",
    )
    autoscaling: Autoscaling | None = Field(
        None, description="Who decides the number of pods, and within what bounds."
    )
    disruption: Disruption | None = Field(
        None, description="What voluntary disruptions (node drains) may take."
    )

    rules = (
        Rule(
            "!has(self.replicas) || !has(self.autoscaling) || (has(self.autoscaling.mode) && "
            "self.autoscaling.mode == 'Manual')",
            "replicas is for mode Manual; remove replicas, or set autoscaling.mode: Manual and nothing else there",
            lambda self: (
                self.replicas is None
                or self.autoscaling is None
                or self.autoscaling.mode == "Manual"
            ),
        ),
        Rule(
            "!has(self.autoscaling) || !has(self.autoscaling.mode) || self.autoscaling.mode != 'Manual' || "
            "has(self.replicas)",
            "mode Manual needs replicas, the number of pods to run",
            lambda self: (
                self.autoscaling is None
                or self.autoscaling.mode != "Manual"
                or self.replicas is not None
            ),
        ),
        Rule(
            "!has(self.env) || self.env.all(e, !e.name.startsWith('MILLGATE_'))",
            "variables that begin with MILLGATE_ are set by the operator; use the fields of workers instead",
            lambda self: not any(variable.name.startswith("MILLGATE_") for variable in self.env),
        ),
        at_most("drain_timeout", "drainTimeout", "168h"),
        at_least("max_child_lifetime", "maxChildLifetime", "1s"),
    )

    @property
    def capacity(self) -> int:
        """Tasks that one pod runs at once."""
        return self.children * self.slots

    @property
    def mode(self) -> str:
        """Auto, Manual or External, with the default applied."""
        if self.autoscaling is not None and self.autoscaling.mode is not None:
            return self.autoscaling.mode
        return "Manual" if self.replicas is not None else "Auto"
