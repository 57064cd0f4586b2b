"""Embeds the schema of the bootstrap file in the schema of the values.

Helm uses draft 7, so definitions are moved. Other differences between the drafts do not occur.
"""

import json

from helm import CHART, ROOT

SOURCE = ROOT / "examples" / "bootstrap.schema.json"
SCHEMA = CHART / "values.schema.json"


def definitions():
    """Name -> schema: `bootstrap` and its references."""
    text = SOURCE.read_text().replace('"#/$defs/', '"#/definitions/bootstrap')
    whole = json.loads(text)
    # Helm stores numbers as floating point, which is exact only up to this value.
    for integer in integers(whole):
        integer["maximum"] = 2**53 - 1
    parts = {f"bootstrap{name}": part for name, part in whole.pop("$defs").items()}
    whole.pop("$schema")
    return {"bootstrap": whole, **parts}


def integers(schema):
    if isinstance(schema, dict):
        if "integer" in (schema.get("type"), *(schema["type"] if isinstance(schema.get("type"), list) else [])):
            yield schema
        for inner in schema.values():
            yield from integers(inner)
    elif isinstance(schema, list):
        for inner in schema:
            yield from integers(inner)


def expected():
    """The expected schema of the values."""
    schema = json.loads(SCHEMA.read_text())
    own = {name: part for name, part in schema["definitions"].items() if not name.startswith("bootstrap")}
    schema["definitions"] = own | definitions()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
