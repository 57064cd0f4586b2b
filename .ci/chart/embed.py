"""Embeds the schema of the bootstrap file in the schema of the values, one definition a line.

Helm uses draft 7, so definitions are moved. Other differences between the drafts do not occur.
"""

import json

from helm import CHART, ROOT

SOURCE = ROOT / "examples" / "bootstrap.schema.json"
SCHEMA = CHART / "values.schema.json"
FIRST = '\n    "bootstrap": '
TEXTS = {"$schema", "title", "description"}


def compact(schema):
    """The schema without texts. Helm stores numbers as floating point, which is exact only up to 2⁵³."""
    if isinstance(schema, list):
        return [compact(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: compact(value) for key, value in schema.items() if not isinstance(value, str) or key not in TEXTS}
    return ({"maximum": 2**53 - 1} if "integer" in str(schema.get("type")) else {}) | inner


def expected():
    """The expected schema of the values."""
    whole = json.loads(SOURCE.read_text().replace('"#/$defs/', '"#/definitions/bootstrap'))
    parts = {f"bootstrap{name}": part for name, part in whole.pop("$defs").items()}
    own = SCHEMA.read_text().split(FIRST)[0]
    lines = [f'"{name}": {json.dumps(compact(part))}' for name, part in ({"bootstrap": whole} | parts).items()]
    return own + "\n    " + ",\n    ".join(lines) + "\n  }\n}\n"
