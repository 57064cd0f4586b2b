"""The kustomizations in deploy, and the examples of a sidecar and a CronJob."""

import subprocess
import tempfile
from pathlib import Path

import manifests
from helm import ROOT

# Directory -> kinds of its objects by namespace.
EXPECTED = {
    "deploy/cluster": {
        None: ["ClusterRole", "ClusterRoleBinding", "Namespace"],
        "supercargo": ["ConfigMap", "Deployment", "ServiceAccount"],
    },
    "deploy/namespace": {"shop": ["ConfigMap", "Deployment", "Role", "RoleBinding", "ServiceAccount"]},
    # An overlay of it for another namespace.
    "moved": {"team-a": ["ConfigMap", "Deployment", "Role", "RoleBinding", "ServiceAccount"]},
    "examples/cronjob": {
        None: ["ClusterRole", "ClusterRoleBinding", "Namespace"],
        "supercargo": ["ConfigMap", "CronJob", "ServiceAccount"],
    },
    "examples/sidecar": {"shop": ["ConfigMap", "ConfigMap", "Job", "Role", "Role", "RoleBinding", "RoleBinding", "ServiceAccount"]},
}


def built(directory):
    """Objects that kustomize builds."""
    with tempfile.TemporaryDirectory(dir=ROOT / "target") as overlay:
        path = overlay if directory == "moved" else ROOT / directory
        (Path(overlay) / "kustomization.yaml").write_text("namespace: team-a\nresources: [../../deploy/namespace]\n")
        command = ["kubectl", "kustomize", path]
        return manifests.objects({".yaml": subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout})


def faults(image):
    """Faults in the output of kustomize, and images of the project other than `image`."""
    for directory, expected in EXPECTED.items():
        objects = built(directory)
        kinds = {}
        for object in sorted(objects, key=lambda object: object["kind"]):
            kinds.setdefault(object["metadata"].get("namespace"), []).append(object["kind"])
            # Native sidecars are on by default from 1.29.
            known = ["1.29.0" if object["kind"] == "Job" else manifests.versions()[0], *manifests.versions()[1:]]
            found = list(manifests.unknown(object, known))
            pod = manifests.pod_of(object)
            if pod:
                found += [*manifests.not_restricted(pod["spec"]), *manifests.not_on_linux(pod["spec"])]
                for container in pod["spec"].get("initContainers", []) + pod["spec"]["containers"]:
                    if "/supercargo:" in container["image"] and container["image"] != image:
                        found.append(f"{container['name']} has {container['image']}, expected {image}")
            # Otherwise the agent has no permissions.
            accounts = {(o["metadata"]["name"], o["metadata"].get("namespace")) for o in objects if o["kind"] == "ServiceAccount"}
            for subject in object.get("subjects", []):
                if (subject["name"], subject.get("namespace")) not in accounts:
                    found.append(f"no service account {subject}")
            yield from (f"{directory}: {manifests.identity(object)}: {fault}" for fault in found)
        if kinds != expected:
            yield f"{directory}: expected {expected}, got {kinds}"
