"""The plain manifests in deploy: three are rendered from the chart, and the sidecar is written by hand."""

import re
import subprocess

import kubernetes_validate
import yaml

import manifests
from helm import ROOT, render, values

FOLDER = ROOT / "deploy"
# Output of kustomize, for tests without kubectl.
BUILT = ROOT / "tests" / "deploy"
# Directory -> namespace.
RENDERED = {"cluster": "supercargo", "namespaced": "shop", "cronjob": "supercargo"}
DIRECTORIES = [*RENDERED, "sidecar-example", "projected-example"]
HEAD_OF_BUILT = "# kubectl kustomize deploy/{}, by .ci/chart --write\n"
# Native sidecars are on by default from 1.29.
SIDECAR_VERSIONS = ["1.29.0", "1.32.0", kubernetes_validate.latest_version()]
HEAD = "# ../../charts/supercargo with values.yaml, by .ci/chart --write\n"
# Labels and annotations for Helm only.
HELMS = re.compile(r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^ +annotations:\n +checksum/config: .*\n", re.MULTILINE)


def expected():
    """File -> content."""
    files = {}
    for directory, namespace in RENDERED.items():
        given = values((FOLDER / directory / "values.yaml").read_text())
        objects = []
        for path, text in render(given, namespace=namespace).items():
            if path == "templates/NOTES.txt" or path.startswith("templates/tests/"):
                continue
            for part in re.split(r"^---\n", text, flags=re.MULTILINE):
                object = yaml.safe_load(part)
                if object and object["kind"] == "ConfigMap":
                    # kustomize generates the ConfigMap, so that a change replaces the pods.
                    files[FOLDER / directory / "environments.yaml"] = HEAD + object["data"]["environments.yaml"].strip() + "\n"
                elif object:
                    objects.append(HELMS.sub("", part).strip() + "\n")
        files[FOLDER / directory / "supercargo.yaml"] = HEAD + "---\n".join(objects)
    return files


def built(directory):
    """Output of kustomize for a directory."""
    command = ["kubectl", "kustomize", FOLDER / directory]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def write_built():
    BUILT.mkdir(exist_ok=True)
    for directory in DIRECTORIES:
        (BUILT / f"{directory}.yaml").write_text(HEAD_OF_BUILT.format(directory) + built(directory))


def faults(image):
    """Faults in the output of kustomize, and images of the project other than `image`."""
    for directory in DIRECTORIES:
        objects = manifests.objects({f"{directory}.yaml": built(directory)})
        kept = BUILT / f"{directory}.yaml"
        if not kept.exists() or manifests.objects({kept.name: kept.read_text()}) != objects:
            yield f"{kept.relative_to(ROOT)} is outdated: run .ci/chart --write"
        print(f"deploy/{directory}: " + ", ".join(f"{o['kind']} {o['metadata']['name']}" for o in objects))
        for object in objects:
            where = f"deploy/{directory}: {manifests.identity(object)}"
            pod = manifests.pod_of(object)
            if directory in RENDERED:
                found = list(manifests.faults(object))
            else:
                found = list(manifests.unknown(object, SIDECAR_VERSIONS))
                found += manifests.not_restricted(pod["spec"]) if pod else []
            for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"] if pod else []:
                if "/supercargo:" in container["image"] and container["image"] != image:
                    found.append(f"{container['name']} has {container['image']}, expected {image}")
            yield from (f"{where}: {fault}" for fault in found)
