"""The chart without a cluster: it lints, it renders whatever its values allow, and refuses the rest."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from millgate_operator.settings import PREFIX, OperatorSettings
from node import programs

ROOT = Path(__file__).parents[2]
CHART = ROOT / "charts" / "millgate"


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Any:
    home = tmp_path_factory.mktemp("helm")
    environment = {
        "PATH": f"{programs.folder()}:{os.environ['PATH']}",
        "HELM_CACHE_HOME": str(home / "cache"),
        "HELM_CONFIG_HOME": str(home / "config"),
        "HELM_DATA_HOME": str(home / "data"),
    }

    def run(*arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["helm", *arguments],
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def render(helm: Any, values: dict[str, Any], *arguments: str) -> list[dict[str, Any]]:
    done = helm(
        "template", "mine", str(CHART), "-n", "system", "--kube-version", "1.34.0", "-f", "-", *arguments,
        stdin=json.dumps(values),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [item for item in objects if item["kind"] == kind]


def test_it_lints(helm: Any) -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout + done.stderr


SETS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one namespace": {"watch": {"namespaces": ["system"]}},
    "other namespaces": {"watch": {"namespaces": ["shop", "mail"]}},
    "no definitions": {"crds": {"install": False}},
    "definitions that go": {"crds": {"keep": False}},
    "no rights": {"rbac": {"create": False}},
    "an account of yours": {"serviceAccount": {"create": False, "name": "ours"}},
    "an image by digest": {"image": {"registry": "r.example", "digest": "sha256:" + "a" * 64}},
    "one replica": {"replicaCount": 1},
    "everything measured": {"metrics": {"serviceMonitor": {"enabled": True, "labels": {"a": "b"}}}},
    "a closed network": {"networkPolicy": {"enabled": True}},
    "placed": {
        "nodeSelector": {"a": "b"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "x", "whenUnsatisfiable": "DoNotSchedule"}
        ],
        "priorityClassName": "high",
    },
    "extended": {
        "extraEnv": [{"name": "A", "value": "b"}],
        "extraEnvFrom": [{"secretRef": {"name": "x"}}],
        "extraVolumes": [{"name": "ca", "emptyDir": {}}],
        "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
        "commonLabels": {"team": "x"},
        "podLabels": {"l": "v"},
        "podAnnotations": {"a": "v"},
        "image": {"pullSecrets": ["one", "two"]},
    },
    "no test": {"test": {"enabled": False}},
    "long names": {"fullnameOverride": "m" * 40},
}


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_it_renders(helm: Any, values: dict[str, Any]) -> None:
    objects = render(helm, values)
    [deployment] = of_kind(objects, "Deployment")
    template = deployment["spec"]["template"]
    pod = template["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["containers"][0]["securityContext"]["readOnlyRootFilesystem"]
    chosen = deployment["spec"]["selector"]["matchLabels"]
    assert chosen.items() <= template["metadata"]["labels"].items()
    for item in objects:
        assert item["metadata"]["name"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"wach": {}}, "wach"),
        ({"watch": {"namespace": ["a"]}}, "namespace"),
        ({"replicaCount": -1}, "replicaCount"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"image": {"digest": "sha256:1"}}, "digest"),
        ({"operator": {"resync": "10"}}, "resync"),
        ({"logging": {"level": "loud"}}, "level"),
        ({"watch": {"namespaces": ["A_B"]}}, "namespaces"),
        ({"serviceAccount": {"create": False}}, "serviceAccount.name is needed"),
        (
            {"metrics": {"service": False, "serviceMonitor": {"enabled": True}}},
            "needs metrics.service",
        ),
    ],
)
def test_wrong_values_are_refused(helm: Any, values: dict[str, Any], words: str) -> None:
    done = helm(
        "template",
        "mine",
        str(CHART),
        "--kube-version",
        "1.34.0",
        "-f",
        "-",
        stdin=json.dumps(values),
    )
    assert done.returncode != 0
    assert words in done.stderr


def test_an_older_cluster_is_refused(helm: Any) -> None:
    done = helm("template", "mine", str(CHART), "--kube-version", "1.30.0")
    assert done.returncode != 0
    assert "incompatible" in done.stderr


def test_every_value_has_bounds_and_every_bound_a_value() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    bounds = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    assert set(values) | {"global"} == set(bounds["properties"])
    for name, part in values.items():
        inner = bounds["properties"][name].get("properties")
        if inner is not None:
            assert set(part) == set(inner), name


def test_definitions_are_installed_when_wanted_and_kept_by_default(helm: Any) -> None:
    made = of_kind(render(helm, {}), "CustomResourceDefinition")
    assert {item["metadata"]["name"] for item in made} == {
        "taskqueues.millgate.dev",
        "topics.millgate.dev",
    }
    for item in made:
        assert item["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
        plural = item["spec"]["names"]["plural"]
        ours = yaml.safe_load((ROOT / "crds" / f"{plural}.yaml").read_text(encoding="utf-8"))
        assert item["spec"] == ours["spec"]
    loose = of_kind(render(helm, {"crds": {"keep": False}}), "CustomResourceDefinition")
    assert all("helm.sh/resource-policy" not in item["metadata"]["annotations"] for item in loose)
    assert of_kind(render(helm, {"crds": {"install": False}}), "CustomResourceDefinition") == []


def test_named_namespaces_need_no_right_over_the_cluster(helm: Any) -> None:
    objects = render(helm, {"watch": {"namespaces": ["shop", "mail"]}})
    assert of_kind(objects, "ClusterRole") == []
    assert of_kind(objects, "ClusterRoleBinding") == []
    roles = {item["metadata"]["namespace"]: item["rules"] for item in of_kind(objects, "Role")
             if "hook" not in json.dumps(item["metadata"])}  # fmt: skip
    assert set(roles) == {"shop", "mail", "system"}
    assert {name for rule in roles["system"] for name in rule["resources"]} == {"leases"}


@pytest.mark.parametrize("values", [{}, {"watch": {"namespaces": ["shop", "mail"]}}])
def test_leases_are_written_by_name_and_in_no_more_than_two_namespaces(
    helm: Any, values: dict[str, Any]
) -> None:
    objects = render(helm, values)
    granted = [
        (item["metadata"].get("namespace"), verb, bool(rule.get("resourceNames")))
        for item in objects
        if item["kind"] in ("Role", "ClusterRole")
        for rule in item["rules"]
        if "leases" in rule["resources"]
        for verb in rule["verbs"]
    ]
    assert {verb for _, verb, named in granted if not named} == {"create"}
    written = {place for place, verb, _ in granted if verb not in ("list", "watch")}
    assert written in ({"system"}, {"system", "shop"})


def test_a_version_with_a_plus_makes_good_labels(helm: Any, tmp_path: Path) -> None:
    chart = tmp_path / "millgate"
    shutil.copytree(CHART, chart)
    about = chart / "Chart.yaml"
    about.write_text(about.read_text().replace("ersion: 0.1.0", "ersion: 0.1.0+build.7"))
    done = helm("template", "mine", str(chart), "--kube-version", "1.34.0")
    assert done.returncode == 0, done.stderr
    for item in yaml.safe_load_all(done.stdout):
        for value in (item or {}).get("metadata", {}).get("labels", {}).values():
            assert re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", value), value


@pytest.mark.parametrize("values", [{}, {"watch": {"namespaces": ["shop"]}}])
def test_secrets_are_never_listed_changed_or_deleted(helm: Any, values: dict[str, Any]) -> None:
    rules = [
        rule
        for item in render(helm, values)
        if item["kind"] in ("Role", "ClusterRole")
        for rule in item["rules"]
    ]
    assert not any("*" in rule["verbs"] + rule["resources"] + rule["apiGroups"] for rule in rules)
    for rule in rules:
        if "secrets" in rule["resources"]:
            assert set(rule["verbs"]) <= {"get", "create"}


def test_every_variable_that_the_chart_sets_is_one_that_the_operator_reads(helm: Any) -> None:
    [deployment] = of_kind(render(helm, {}), "Deployment")
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    environ = {item["name"]: item.get("value", "x") for item in container["env"]}
    set_here = {name for name in environ if name.startswith(PREFIX)}
    known = {PREFIX + field.upper() for field in OperatorSettings.__slots__}
    assert set_here <= known
    settings = OperatorSettings.from_env(environ)
    assert settings.resync == 600.0
    assert settings.broker_image == "millgate-operator:0.1.0"


def test_the_versions_are_those_of_the_package() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    project = (ROOT / "operator" / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{chart["version"]}"' in project
    assert chart["appVersion"] == chart["version"]
