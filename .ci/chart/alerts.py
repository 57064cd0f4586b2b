"""Alerts and dashboards: based on the metrics of docs/reference/metrics.md, and tested with promtool."""

import json
import re
import subprocess
import tempfile
from pathlib import Path

import promql_parser
import yaml

from helm import CHART, ROOT, render, values
from manifests import objects

PAGE = ROOT / "docs" / "reference" / "metrics.md"
COMPONENTS = ["agent", "serve"]
# Values for Grafana's variables.
GRAFANA = {"$__rate_interval": "5m", "$environment": "prod"}
VALUES = """
environments: [{name: prod}]
compliance: {org: acme, allowHttp: true, token: {existingSecret: token}}
monitoring: {prometheusRule: {enabled: true}}
service: {enabled: true, bootstrap: {generation: 1, organizations: [{name: acme}]}}
"""


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
        rules = [yaml.safe_load((CHART / "alerts" / f"{component}.yaml").read_text()) for component in COMPONENTS]
        groups = [{"name": component, "rules": rules} for component, rules in zip(COMPONENTS, rules)]
        for name, content in {"rules.yaml": {"groups": groups}, "tests.yaml": tests | {"rule_files": ["rules.yaml"]}}.items():
            (Path(folder) / name).write_text(yaml.safe_dump(content))
        ran = subprocess.run(["promtool", "test", "rules", f"{folder}/tests.yaml"], capture_output=True, text=True)
    return [f"promtool: {ran.stdout}{ran.stderr}"] if ran.returncode else []


def faults():
    yield from failed_tests()
    known = metrics()
    for component in COMPONENTS:
        alerts = yaml.safe_load((CHART / "alerts" / f"{component}.yaml").read_text())
        dashboard = json.loads((CHART / "dashboards" / f"{component}.json").read_text())
        queries = [(alert["alert"], alert["expr"]) for alert in alerts]
        queries += [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]
        for name, query in queries:
            for variable, value in GRAFANA.items():
                query = query.replace(variable, value)
            for metric in used(query) - known:
                yield f"{name} uses {metric}, which {PAGE.name} does not list"
        # The chart renders the alerts unchanged, and a higher threshold for reports every two minutes.
        for interval, threshold in (("60s", "> 300"), ("2m", "> 600")):
            expected = [alert | {"expr": alert["expr"].replace("> 300", threshold)} for alert in alerts]
            rendered = objects(render(values(VALUES) | {"agent": {"interval": interval}}))
            groups = [group for o in rendered if o["kind"] == "PrometheusRule" for group in o["spec"]["groups"]]
            if {"name": f"supercargo-{component}", "rules": expected} not in groups:
                yield f"the rules of an interval of {interval} differ from alerts/{component}.yaml"
