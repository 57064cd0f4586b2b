"""The bootstrap file's schema within that of the values.

Helm takes draft 7, so definitions go where that has them. What differs between the drafts otherwise does not occur.
"""

import json

from helm import CHART, ROOT

SOURCE = ROOT / "examples" / "bootstrap.schema.json"
SCHEMA = CHART / "values.schema.json"


def definitions():
    """Name -> schema: `bootstrap`, and what it refers to."""
    text = SOURCE.read_text().replace('"#/$defs/', '"#/definitions/bootstrap')
    whole = json.loads(text)
    # Helm holds numbers as floating point: above this, one becomes another.
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
    """The schema of the values as it has to be."""
    schema = json.loads(SCHEMA.read_text())
    own = {name: part for name, part in schema["definitions"].items() if not name.startswith("bootstrap")}
    schema["definitions"] = own | definitions()
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
