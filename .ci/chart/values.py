"""Checks that each value is in the schema and in values.yaml, is documented, and has an effect."""

import copy
import json

import helm_python

from helm import APIS, CHART, Rejected, cases, render
from readme import documented

# Keys that Helm sets for subcharts, or a parent chart as its condition.
FOREIGN = {("global",), ("enabled",)}


def resolved(node, schema):
    while "$ref" in node:
        node = schema["definitions"][node["$ref"].removeprefix("#/definitions/")]
    return node


def of_schema(node, schema, path=()):
    """Paths of a schema, including groups. Lists and free maps are leaves."""
    for key, part in resolved(node, schema).get("properties", {}).items():
        yield (*path, key)
        yield from of_schema(part, schema, (*path, key))


def open_objects(node, path=()):
    """Objects of the schema with named keys that accept others. An object without named keys is a free map."""
    if isinstance(node, dict):
        if "properties" in node and node.get("additionalProperties") is not False:
            yield path
        for key, part in node.items():
            yield from open_objects(part, (*path, key))


def without(values, path):
    """The values without one key, or None if it is not set."""
    values = copy.deepcopy(values)
    inner = values
    for key in path[:-1]:
        inner = inner.get(key)
        if not isinstance(inner, dict):
            return None
    return values if inner.pop(path[-1], without) is not without else None


def does_something(path, given, whole):
    """Whether this value changes the render of a case."""
    for case, values in given.items():
        less = without(values, path)
        if less is None:
            continue
        try:
            if render(less, apis=APIS.get(case, ())) != whole[case]:
                return True
        except Rejected:
            return True
    return False


def faults(whole):
    schema = json.loads((CHART / "values.schema.json").read_text())
    for path in open_objects(schema):
        yield f"the schema accepts unknown keys at {'.'.join(path) or 'the top level'}"
    rows = list(documented())
    there = {path for path, _, _ in rows}
    ends = {path for path, _, default in rows if default is not None}
    known = {path for path in of_schema(schema, schema) if not any(path[:n] in ends for n in range(1, len(path)))}
    for path in sorted(there - known):
        yield f"{'.'.join(path)} is in values.yaml but not in the schema"
    for path in sorted(known - there - FOREIGN):
        yield f"{'.'.join(path)} is in the schema but not in values.yaml"
    given = dict(cases())
    for path, says, default in rows:
        name = ".".join(path)
        if not says or not says.endswith("."):
            yield f"{name} has no comment that ends with a full stop"
        if default is not None and not does_something(path, given, whole):
            yield f"{name}: changes the render of no case"
    with helm_python.Chart.load(CHART) as chart:
        chart.validate_schema({})
