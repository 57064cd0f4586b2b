"""What has to be true of every manifest that comes out of the chart."""

import json
import re
from functools import cache
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml

from helm import CHART

CRDS = json.loads((Path(__file__).parent / "crds.json").read_text())
# A StatefulSet's and a CronJob's names go on in those of their pods and jobs, and in labels of these.
LONGEST = {"StatefulSet": 52, "CronJob": 52}


class Strict(yaml.SafeLoader):
    """YAML in which no key stands twice, as the API server wants it."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"twice: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def objects(texts):
    """The objects of a render, in order."""
    found = []
    for path, text in texts.items():
        if path.endswith(".yaml"):
            found += [object for object in yaml.load_all(text, Loader=Strict) if object]
    return found


def identity(object):
    metadata = object["metadata"]
    return object["kind"], metadata.get("namespace"), metadata["name"]


def versions():
    """The oldest that the chart allows, one that many run, and the newest that there is a schema of."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    oldest = re.fullmatch(r">=(1\.\d+)\.0-0", chart["kubeVersion"])[1]
    newest = kubernetes_validate.latest_version()
    every = [kubernetes_validate.utils.major_minor(v) for v in kubernetes_validate.utils.all_versions()]
    assert oldest in every, f"there is no schema of Kubernetes {oldest}"
    return [f"{oldest}.0", "1.32.0", newest]


# It reads megabytes of schema for each object otherwise.
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)


def faults(object):
    """What is wrong with one object of the chart."""
    kind, _, name = identity(object)
    if len(name) > LONGEST.get(kind, 63):
        yield f"the name has {len(name)} letters"
    if object["apiVersion"].startswith("monitoring.coreos.com/"):
        yield from (error.message for error in jsonschema.Draft7Validator(CRDS[kind]).iter_errors(object))
        return
    yield from unknown(object, versions())
    pod = pod_of(object)
    if pod:
        yield from not_restricted(pod["spec"])
        selector = object.get("spec", {}).get("selector", {}).get("matchLabels", {})
        if not selector.items() <= pod.get("metadata", {}).get("labels", {}).items():
            yield "its selector does not select its pods"
        if selector and {key.split("/")[1] for key in selector} != {"name", "instance", "component"}:
            yield f"its selector holds {sorted(selector)}"
        agent = pod["spec"]["containers"][0]["name"] == "agent"
        if pod["spec"].get("automountServiceAccountToken") is not agent:
            yield "its service account's token is mounted without need, or is not"
        if pod["spec"].get("enableServiceLinks") is not False:
            yield "it learns of every Service by variables"


def unknown(object, versions):
    """What these versions of Kubernetes do not know of an object."""
    for version in versions:
        try:
            kubernetes_validate.validate(object, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            yield f"Kubernetes {version}: {error.message}"


def pod_of(object):
    """The pod that an object is, or is a template of."""
    spec = object.get("spec", {})
    match object["kind"]:
        case "Pod":
            return object
        case "CronJob":
            return spec["jobTemplate"]["spec"]["template"]
        case "Deployment" | "StatefulSet" | "Job":
            return spec["template"]
    return None


def not_restricted(pod):
    """What the level "restricted" of Pod Security does not allow, and what we hold to beyond that."""
    context = pod.get("securityContext", {})
    if any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        yield "it shares the node's namespaces"
    if context.get("runAsNonRoot") is not True:
        yield "it may run as root"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "it has no seccomp profile"
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
    for volume in pod.get("volumes", []):
        if not volume.keys() - {"name"} <= allowed:
            yield f"the volume {volume['name']} is of a kind that is not allowed"
    for container in pod.get("initContainers", []) + pod["containers"]:
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
            yield "it may gain privileges"
        if context.get("capabilities") != {"drop": ["ALL"]}:
            yield "it has capabilities"
        if context.get("readOnlyRootFilesystem") is not True:
            yield "its root may be written to"
        if "memory" not in container["resources"]["limits"] or "cpu" not in container["resources"]["requests"]:
            yield "it has no limit of memory, or asks for no CPU"
