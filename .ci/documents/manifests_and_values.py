"""Checks YAML in the documents by its type."""

import json
import subprocess

import jsonschema
import yaml

import helm
import kustomize
from manifests import Strict, unknown, versions

BOOTSTRAP = json.loads((helm.ROOT / "examples" / "bootstrap.schema.json").read_text())


def faults(block, page):
    try:
        documents = [document for document in yaml.load_all(block.text, Loader=Strict) if document is not None]
    except yaml.YAMLError as error:
        return [f"invalid YAML: {error}"]
    if block.name == "values.yaml":
        return values(block.text)
    if block.name == "kustomization.yaml":
        built, found = kustomize.build_text(block.text, {other.name: other.text for other in page if other.language == "yaml"})
        return found + [fault for object in yaml.safe_load_all(built) if object for fault in manifest(object)]
    if block.name in (".gitlab-ci.yml", ".circleci/config.yml", ".buildkite/pipeline.yml"):
        # cargo test checks the program's commands.
        return []
    if block.name.startswith(".github/workflows/"):
        return [fault for document in documents for fault in steps(document)]
    return [fault for document in documents for fault in of_document(document)]


def of_document(document):
    keys = set(document) if isinstance(document, dict) else set()
    if {"generation", "organizations"} <= keys:
        return [error.message for error in jsonschema.Draft202012Validator(BOOTSTRAP).iter_errors(document)]
    if {"apiVersion", "kind"} <= keys:
        return manifest(document)
    if keys == {"environments"} or {"version", "trail"} <= keys or "_schema" in keys:
        # Checked by cargo test.
        return []
    return [f"no check for YAML with the keys {sorted(keys)}"]


def values(text):
    try:
        return [] if helm.render(helm.values(text)) else ["empty render"]
    except helm.Rejected as rejected:
        return [f"the chart rejects the values: {rejected}"]


def manifest(document):
    # Without the oldest version, which lacks native sidecars.
    return list(unknown(document, versions()[1:]))


def steps(document):
    """Checks the steps of a workflow, or a list of steps."""
    if isinstance(document, list):
        jobs = {"": {"steps": document}}
    elif "jobs" in document:
        jobs = document["jobs"]
    else:
        jobs = document
    for name, job in jobs.items():
        for step in job.get("steps") or [{}]:
            if not {"run", "uses"} & step.keys():
                yield f"{name}: step without run and uses: {step}"
            if "run" in step:
                yield from shell(step["run"])


def shell(script):
    """Syntax errors of a shell script."""
    read = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    return [read.stderr.strip()] if read.returncode else []
