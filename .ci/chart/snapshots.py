"""The committed renders: a file of manifests and a file of notes for each case."""

import re

import yaml

from helm import APIS, CHART, ROOT, cases, render

FOLDER = ROOT / "tests" / "chart"
# The render of the case "cluster" is a kustomization, without the labels and annotations for Helm.
CLUSTER = ROOT / "deploy" / "cluster"
HELMS = re.compile(r"^ +(helm\.sh/chart|app\.kubernetes\.io/managed-by): .*\n|^ +annotations:\n +checksum/config: .*\n", re.MULTILINE)


def renders():
    """Case -> template -> text."""
    return {case: render(values, apis=APIS.get(case, ())) for case, values in cases()}


def parts(case, texts):
    """Template and text of each object. The pod of `helm test` repeats that of the Deployment; one case shows it."""
    for path, text in texts.items():
        if path.endswith(".yaml") and (case == "everything" or "/tests/" not in path):
            for part in re.split(r"^---\n", text, flags=re.MULTILINE):
                if part.strip():
                    yield path, without_files(part.strip()) + "\n"


def without_files(text):
    """Replaces the text of a dashboard, or of a file of alerts, by its name."""
    for file in [*CHART.glob("dashboards/*.json"), *CHART.glob("alerts/*.yaml")]:
        indent = " " * (4 if file.suffix == ".json" else 8)
        lines = "\n".join(indent + line if line else indent for line in file.read_text().splitlines())
        text = text.replace(lines, f"{indent}{file.parent.name}/{file.name}")
    return text


def expected(all_renders):
    """File -> content."""
    files = {}
    for case, texts in all_renders.items():
        head = f"# charts/supercargo with charts/supercargo/ci/{case}-values.yaml, by .ci/chart --write\n"
        files[FOLDER / f"{case}.txt"] = texts["templates/NOTES.txt"] + "\n"
        if case == "cluster":
            # kustomize generates the ConfigMap, so that a change replaces the pods.
            config, *objects = [HELMS.sub("", part) for _, part in parts(case, texts)]
            files[CLUSTER / "environments.yaml"] = head + yaml.safe_load(config)["data"]["environments.yaml"]
            files[CLUSTER / "supercargo.yaml"] = head + "---\n".join(objects)
        else:
            files[FOLDER / f"{case}.yaml"] = head + "".join(f"---\n# {path}\n{part}" for path, part in parts(case, texts))
    return files
