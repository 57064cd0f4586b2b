"""Renders the chart with Helm's engine."""

import json
from pathlib import Path

import helm_python
from helm_python import _native

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "supercargo"
RELEASE = NAMESPACE = "supercargo"
# Additional APIs of the cluster, by case.
APIS = {"existing": ["security.openshift.io/v1"]}


class Rejected(Exception):
    """The schema or a template rejects the values."""


def values(text):
    """Values as Helm reads them from a file."""
    return helm_python.values_from_yaml(text) if text.strip() else {}


def render(given, *, name=RELEASE, namespace=NAMESPACE, apis=()):
    """Template -> text, without empty renders."""
    options = {"name": name, "namespace": namespace, "api_versions": list(apis)}
    try:
        with helm_python.Chart.load(CHART) as loaded:
            loaded.validate_schema(given)
            # The package's `render` has no parameter for the available APIs.
            rendered = _native.call_string(
                "helm_render", loaded._raw(), json.dumps(given), json.dumps(options)
            )
    except helm_python.HelmError as error:
        raise Rejected(str(error)) from error
    texts = {path.split("/", 1)[1]: text.strip() for path, text in json.loads(rendered).items()}
    return {path: text for path, text in sorted(texts.items()) if text}


def cases():
    """Name and values of each case."""
    for file in sorted(CHART.glob("ci/*-values.yaml")):
        yield file.name.removesuffix("-values.yaml"), values(file.read_text())


def lint(given):
    """Warnings and errors of `helm lint --strict`."""
    report = helm_python.lint(CHART, given, strict=True)
    messages = [f"{message['path']}: {message['error']}" for message in report["messages"] if message["severity"] >= 2]
    return messages + report["errors"]
