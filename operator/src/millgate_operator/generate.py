"""Writes what the models say: crds/, the chart's copy, docs/reference/. `--check` only tells what is stale."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from millgate_operator import reference
from millgate_operator.schema import KINDS, Kind, definition

_HEAD: Final = (
    "# Written by `make generate` from operator/src/millgate_operator/spec/; edit that.\n"
)
_CHART_HEAD: Final = "{{- if .Values.crds.install }}\n"
_KEEP: Final = "{{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}"
_MARK: Final = "    __keep__: __keep__"


class _Dumper(yaml.SafeDumper):
    """Without anchors, and with lists indented."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 -- PyYAML asks per value
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def to_yaml(data: Any) -> str:
    """YAML as people write it: order kept, lines folded at 110."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
    return text


def crd(kind: Kind) -> str:
    """The file of a kind in crds/."""
    return _HEAD + to_yaml(definition(kind))


def chart_crd(kind: Kind) -> str:
    """The same for the chart: installed when wanted, and kept when the release goes."""
    made = definition(kind)
    made["metadata"]["annotations"]["__keep__"] = "__keep__"
    # braces in descriptions would be taken for the template's own
    text = to_yaml(made).replace("{{", '{{ "{{" }}')
    return _CHART_HEAD + _HEAD + text.replace(_MARK, "    " + _KEEP) + "{{- end }}\n"


def files() -> Mapping[str, str]:
    """Every generated file: path from the top of the repository → text."""
    out: dict[str, str] = {}
    for kind in KINDS:
        out[f"crds/{kind.plural}.yaml"] = crd(kind)
        out[f"charts/millgate/templates/crds/{kind.plural}.yaml"] = chart_crd(kind)
        out[f"docs/reference/{kind.kind.lower()}.md"] = reference.page(kind)
    return out


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files under `--root`, or with `--check` name those that differ and answer 1."""
    parser = argparse.ArgumentParser(
        prog="python -m millgate_operator.generate", description=__doc__
    )
    parser.add_argument("--root", type=Path, default=Path(), help="top of the repository")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; 1 when something is stale"
    )
    options = parser.parse_args(arguments)
    stale = []
    for name, text in files().items():
        path = options.root / name
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not options.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    for name in stale:
        print(("stale: " if options.check else "written: ") + name, file=sys.stderr)  # noqa: T201
    return 1 if options.check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
