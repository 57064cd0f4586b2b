"""Checks that each value is in the schema and in values.yaml, and has an effect."""

import copy
import json

import yaml

from helm import APIS, CHART, Rejected, cases, render

# Keys that Helm sets for subcharts, or a parent chart as its condition.
FOREIGN = {("global",), ("enabled",)}
# Maps of Kubernetes types are one value.
WHOLE = {"resources", "podSecurityContext", "securityContext", "labels"}


def leaves(node, path=()):
    """Paths of values.yaml."""
    for key, value in node.items():
        if isinstance(value, dict) and value and key not in WHOLE:
            yield from leaves(value, (*path, key))
        else:
            yield (*path, key)


def leaves_of_schema(node, path=()):
    for key, part in node["properties"].items():
        if "properties" in part:
            if part.get("additionalProperties") is not False:
                yield (*path, key, "additionalProperties")
            yield from leaves_of_schema(part, (*path, key))
        else:
            yield (*path, key)


def without(values, path):
    """The values without one key, or None if it is not set."""
    values = copy.deepcopy(values)
    inner = values
    for key in path[:-1]:
        inner = inner.get(key)
        if not isinstance(inner, dict):
            return None
    return values if inner.pop(path[-1], without) is not without else None


def has_effect(path, whole):
    """Whether this value changes the render of a case."""
    for case, values in cases():
        less = without(values, path)
        try:
            if less is not None and render(less, apis=APIS.get(case, ())) != whole[case]:
                return True
        except Rejected:
            return True
    return False


def faults(whole):
    documented = set(leaves(yaml.safe_load((CHART / "values.yaml").read_text())))
    known = set(leaves_of_schema(json.loads((CHART / "values.schema.json").read_text()))) - FOREIGN
    for path in sorted(documented ^ known):
        yield f"{'.'.join(path)} is only in {'values.yaml' if path in documented else 'the schema'}"
    for path in sorted(documented):
        if not has_effect(path, whole):
            yield f"{'.'.join(path)} changes the render of no case"
