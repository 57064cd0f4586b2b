"""Alerts and dashboards: equal to docs/metrics.md, based on existing metrics, and tested with promtool."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

import promql_parser
import yaml

from helm import CHART, ROOT
from manifests import objects

PAGE = ROOT / "docs" / "metrics.md"
CHAPTERS = {"agent": "The agent", "serve": "The service"}
# Values for Grafana's variables.
GRAFANA = {"$__rate_interval": "5m", "$environment": "prod"}


def page():
    """Chapter -> text."""
    parts = PAGE.read_text().split("\n## ")[1:]
    return {part.split("\n", 1)[0]: part for part in parts}


def metrics():
    """Series names of every metric of the page."""
    names = set()
    for name, kind in re.findall(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text(), flags=re.MULTILINE):
        names |= {f"{name}_{suffix}" for suffix in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    return names


def used(query):
    """The metrics of a query."""
    try:
        promql_parser.parse(query)
    except ValueError as error:
        raise ValueError(f"invalid query {query}: {error}") from error
    words = re.sub(r'"[^"]*"|\[[^]]*\]|\b(by|on|group_left|group_right|ignoring|without) ?\([^)]*\)', "", query)
    return set(re.findall(r"\b(?:supercargo|process)_\w+", words))


def failed_tests():
    """Runs the unit tests of alerts."""
    tests = yaml.safe_load((ROOT / ".ci" / "chart" / "alerts_test.yaml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        for component in CHAPTERS:
            rules = yaml.safe_load((CHART / "alerts" / f"{component}.yaml").read_text())
            groups = {"groups": [{"name": component, "rules": rules}]}
            (Path(folder) / f"{component}.yaml").write_text(yaml.safe_dump(groups))
        file = Path(folder) / "tests.yaml"
        file.write_text(yaml.safe_dump(tests | {"rule_files": [f"{component}.yaml" for component in CHAPTERS]}))
        ran = subprocess.run(["promtool", "test", "rules", file], capture_output=True, text=True)
    if ran.returncode != 0:
        yield f"promtool: {ran.stdout}{ran.stderr}"


def faults(renders):
    yield from failed_tests()
    known = metrics()
    for component, chapter in CHAPTERS.items():
        text = (CHART / "alerts" / f"{component}.yaml").read_text()
        alerts = yaml.safe_load(text)
        block = re.search(r"^```yaml\n(.*?)^```", page()[chapter], flags=re.MULTILINE | re.DOTALL)
        if not block or block[1] != text:
            yield f"the alerts in {PAGE.name}, {chapter}, differ from alerts/{component}.yaml"
        for alert in alerts:
            for name in used(alert["expr"]) - known:
                yield f"the alert {alert['alert']} uses {name}, which {PAGE.name} does not list"
        dashboard = json.loads((CHART / "dashboards" / f"{component}.json").read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                query = target["expr"]
                for variable, value in GRAFANA.items():
                    query = query.replace(variable, value)
                for name in used(query) - known:
                    yield f"the panel {panel['title']} uses {name}, which {PAGE.name} does not list"
        # The case "alerts" sets no value that changes an alert.
        for case in ("alerts", "monitoring"):
            rendered = rules(renders[case], f"supercargo-{component}")
            expected = [a | {"expr": a["expr"].replace("> 300", "> 600")} for a in alerts]
            if rendered != (alerts if case == "alerts" else expected):
                yield f"the rules of the case {case} differ from alerts/{component}.yaml"


def rules(texts, group):
    found = [object for object in objects(texts) if object["kind"] == "PrometheusRule"]
    return next((g["rules"] for o in found for g in o["spec"]["groups"] if g["name"] == group), None)
