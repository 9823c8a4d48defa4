"""Lays an overlay over an object as a strategic merge patch would: lists of named things merge by name. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

#: What identifies an item of a list, by the list's name. Lists that are not here are replaced.
_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
}


def merged(base: Mapping[str, Any], overlay: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `overlay` over it; null takes a field away. Neither is changed."""
    out = dict(base)
    for name, value in overlay.items():
        if value is None:
            out.pop(name, None)
        elif isinstance(value, Mapping) and isinstance(out.get(name), Mapping):
            out[name] = merged(out[name], value)
        elif isinstance(value, list | tuple) and name in _KEYS and name in out:
            out[name] = _merged_list(out[name], value, _KEYS[name])
        else:
            out[name] = value
    return out


def _merged_list(base: Sequence[Any], overlay: Sequence[Any], key: str) -> list[Any]:
    if not all(isinstance(item, Mapping) for item in overlay):
        return list(overlay)  # which the API server will say in its own words
    out = list(base)
    where = {item.get(key): position for position, item in enumerate(out)}
    for item in overlay:
        position = where.get(item.get(key))
        if position is None:
            out.append(item)
        else:
            out[position] = merged(out[position], item)
    return out
