"""The table of values in the chart's README, from values.yaml and the comments in it."""

import json
import re

import yaml

from helm import CHART

README = CHART / "README.md"
BEGIN, END = "<!-- values: made by .ci/chart --write -->", "<!-- /values -->"
# Kubernetes' own maps are shown whole.
WHOLE = {"resources", "podSecurityContext", "securityContext", "labels"}


def documented():
    """Path, comment, default (None for a group) of each key of values.yaml, in order."""
    text = (CHART / "values.yaml").read_text()
    lines = text.splitlines()

    def comment(line, column):
        said = []
        while line > 0 and re.fullmatch(rf" {{{column}}}# ?(.*)", lines[line - 1]):
            line -= 1
            said.insert(0, lines[line].strip().removeprefix("#").strip())
        return " ".join(said)

    def walk(node, path):
        for key, value in node.value:
            here = (*path, key.value)
            says = comment(key.start_mark.line, key.start_mark.column)
            is_group = isinstance(value, yaml.MappingNode) and value.value and key.value not in WHOLE
            if is_group:
                yield here, says, None
                yield from walk(value, here)
            else:
                yield here, says, (yaml.load(yaml.serialize(value), yaml.SafeLoader),)

    yield from walk(yaml.compose(text), ())


def table():
    rows = ["| value | what | default |", "|---|---|---|"]
    for path, says, default in documented():
        shown = "" if default is None else f"`{json.dumps(default[0])}`"
        rows.append(f"| `{'.'.join(path)}` | {says.replace('|', chr(92) + '|')} | {shown} |")
    return "\n".join(rows)


def expected():
    text = README.read_text()
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"
