"""The plain manifests below deploy/: three that the chart renders, and the sidecar, which is written by hand."""

import re
import subprocess

import kubernetes_validate
import yaml

import manifests
from helm import ROOT, render, values

FOLDER = ROOT / "deploy"
# What kustomize makes of each, for the tests that have no kubectl.
BUILT = ROOT / "tests" / "deploy"
# The directory, and the namespace that it is rendered for.
RENDERED = {"cluster": "supercargo", "namespaced": "shop", "cronjob": "supercargo"}
DIRECTORIES = [*RENDERED, "sidecar-example"]
HEAD_OF_BUILT = "# kubectl kustomize deploy/{}, by .ci/chart --write\n"
# Native sidecars are on by default from 1.29.
SIDECAR_VERSIONS = ["1.29.0", "1.32.0", kubernetes_validate.latest_version()]
HEAD = "# ../../charts/supercargo with values.yaml, by .ci/chart --write\n"
# What only Helm has a use for.
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
                    # kustomize makes it again, so that pods are replaced when it changes.
                    files[FOLDER / directory / "environments.yaml"] = HEAD + object["data"]["environments.yaml"].strip() + "\n"
                elif object:
                    objects.append(HELMS.sub("", part).strip() + "\n")
        files[FOLDER / directory / "supercargo.yaml"] = HEAD + "---\n".join(objects)
    return files


def built(directory):
    """What kustomize makes of a directory, as text."""
    command = ["kubectl", "kustomize", FOLDER / directory]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout


def write_built():
    BUILT.mkdir(exist_ok=True)
    for directory in DIRECTORIES:
        (BUILT / f"{directory}.yaml").write_text(HEAD_OF_BUILT.format(directory) + built(directory))


def faults(image):
    """What is wrong with what kustomize makes of each, and with images of ours that are not `image`."""
    for directory in DIRECTORIES:
        objects = manifests.objects({f"{directory}.yaml": built(directory)})
        kept = BUILT / f"{directory}.yaml"
        if not kept.exists() or manifests.objects({kept.name: kept.read_text()}) != objects:
            yield f"{kept.relative_to(ROOT)} is not what kustomize makes: run .ci/chart --write"
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
                    found.append(f"{container['name']} has {container['image']}, and this is {image}")
            yield from (f"{where}: {fault}" for fault in found)
