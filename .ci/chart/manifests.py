"""Checks of every manifest that the chart renders."""

import re
from functools import cache

import kubernetes_validate
import yaml

from helm import CHART, cases, render

# The name of a StatefulSet is a prefix of the labels of its pods.
MAX_NAME = {"StatefulSet": 52}


class Strict(yaml.CSafeLoader):
    """YAML without duplicate keys, as the API server requires."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = {key for key in keys if keys.count(key) > 1}
        if twice:
            raise yaml.constructor.ConstructorError(None, None, f"duplicate keys: {twice}", node.start_mark)
        return super().construct_mapping(node, deep)


def objects(texts):
    """Objects of a render, in order."""
    found = []
    for path, text in texts.items():
        if path.endswith(".yaml"):
            found += [object for object in yaml.load_all(text, Loader=Strict) if object]
    return found


def identity(object):
    metadata = object["metadata"]
    return object["kind"], metadata.get("namespace"), metadata["name"]


@cache
def versions():
    """The oldest supported version of Kubernetes, a common one, and the newest with a schema."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    oldest = re.fullmatch(r">=(1\.\d+)\.0-0", chart["kubeVersion"])[1]
    newest = kubernetes_validate.latest_version()
    every = [kubernetes_validate.utils.major_minor(v) for v in kubernetes_validate.utils.all_versions()]
    assert oldest in every, f"no schema for Kubernetes {oldest}"
    return [f"{oldest}.0", "1.32.0", newest]


# Without the cache, each object lists the schemas and reads megabytes of one.
kubernetes_validate.utils.all_versions = cache(kubernetes_validate.utils.all_versions)
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)


def of_cases(renders):
    for case, texts in renders.items():
        for object in objects(texts):
            yield from (f"{case}: {identity(object)}: {fault}" for fault in faults(object))


def of_releases():
    """Checks that the objects of two releases have other names, also if names are shortened."""
    long = "a-release-whose-name-is-as-long-as-helm-allows-it-to"
    # The last pair concatenates to the same text.
    for pair in [((f"{long}1", "one"), (f"{long}2", "one")), (("supercargo", "a-b"), ("supercargo-a", "b"))]:
        for case, values in cases():
            values = {key: value for key, value in values.items() if key not in ("fullnameOverride", "serviceAccount")}
            both = [objects(render(values, name=name, namespace=namespace)) for name, namespace in pair]
            left, right = ({identity(object) for object in rendered} for rendered in both)
            yield from (f"{case}: {pair[0]} and {pair[1]} share {shared}" for shared in left & right)
            yield from (f"{identity(object)}: {fault}" for rendered in both for object in rendered for fault in faults(object))


def faults(object):
    """Faults of one object of the chart."""
    kind, _, name = identity(object)
    if len(name) > MAX_NAME.get(kind, 63):
        yield f"the name has {len(name)} characters"
    # promtool checks the rules of a PrometheusRule.
    if not object["apiVersion"].startswith("monitoring.coreos.com/"):
        yield from unknown(object, versions())
    pod = pod_of(object)
    if pod:
        yield from not_restricted(pod["spec"])
        selector = object.get("spec", {}).get("selector", {}).get("matchLabels", {})
        if not selector.items() <= pod.get("metadata", {}).get("labels", {}).items():
            yield "the selector does not match the pods"
        if selector and {key.split("/")[1] for key in selector} != {"name", "instance", "component"}:
            yield f"unexpected labels in the selector: {sorted(selector)}"
        agent = pod["spec"]["containers"][0]["name"] == "agent"
        if pod["spec"].get("automountServiceAccountToken") is not agent:
            yield "automountServiceAccountToken must be true for the agent and false otherwise"
        yield from not_on_linux(pod["spec"])
        if pod["spec"].get("enableServiceLinks") is not False:
            yield "enableServiceLinks must be false"


def unknown(object, versions):
    """Fields of an object that these versions of Kubernetes do not know."""
    for version in versions:
        try:
            kubernetes_validate.validate(object, version, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.SchemaNotFoundError) as error:
            yield f"Kubernetes {version}: {error.message}"


def pod_of(object):
    """The pod, or the pod template of an object."""
    spec = object.get("spec", {})
    match object["kind"]:
        case "Pod":
            return object
        case "Deployment" | "StatefulSet" | "Job":
            return spec["template"]
        case "CronJob":
            return spec["jobTemplate"]["spec"]["template"]
    return None


def not_on_linux(pod):
    """The image exists for Linux only; a cluster may have nodes with Windows."""
    if pod.get("nodeSelector", {}).get("kubernetes.io/os") != "linux":
        yield "nodeSelector must have kubernetes.io/os: linux"


def not_restricted(pod):
    """Violations of the Pod Security level "restricted" and of additional rules."""
    context = pod.get("securityContext", {})
    if any(pod.get(name) for name in ("hostNetwork", "hostPID", "hostIPC")):
        yield "host namespaces are not allowed"
    if context.get("runAsNonRoot") is not True:
        yield "runAsNonRoot must be true"
    if context.get("seccompProfile", {}).get("type") != "RuntimeDefault":
        yield "seccompProfile must be RuntimeDefault"
    allowed = {"configMap", "emptyDir", "persistentVolumeClaim", "projected", "secret"}
    for volume in pod.get("volumes", []):
        if not volume.keys() - {"name"} <= allowed:
            yield f"type of volume {volume['name']} is not allowed"
    for container in pod.get("initContainers", []) + pod["containers"]:
        context = container.get("securityContext", {})
        if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
            yield "privilege escalation must be disabled"
        if context.get("capabilities") != {"drop": ["ALL"]}:
            yield "all capabilities must be dropped"
        if context.get("readOnlyRootFilesystem") is not True:
            yield "readOnlyRootFilesystem must be true"
        if "memory" not in container["resources"]["limits"] or "cpu" not in container["resources"]["requests"]:
            yield "memory limit or CPU request is missing"
