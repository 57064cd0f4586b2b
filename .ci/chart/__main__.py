"""Checks the chart: python .ci/chart [--write]

--write regenerates the files that derive from the chart: the renders in tests/chart and deploy/cluster, and the bootstrap
file's part of the schema of the values. Without it, the files must be up to date.
"""

import sys
import tomllib

import yaml

# Before the imports of the checks, to write no bytecode beside them.
sys.dont_write_bytecode = True

import alerts
import deploy
import embed
import helm
import manifests
import rejections
import snapshots
import values


def drift(renders):
    """Checks that the committed files are up to date."""
    expected = {embed.SCHEMA: embed.expected()} | snapshots.expected(renders)
    for file in snapshots.FOLDER.iterdir():
        if file not in expected:
            yield f"{file.relative_to(helm.ROOT)} belongs to no case"
    for file, text in expected.items():
        if not file.exists() or file.read_text() != text:
            yield f"{file.relative_to(helm.ROOT)} is outdated: run .ci/chart --write"


def write():
    # Renders depend on the schema.
    embed.SCHEMA.write_text(embed.expected())
    for file in snapshots.FOLDER.iterdir():
        file.unlink()
    for file, text in snapshots.expected(snapshots.renders()).items():
        file.write_text(text)


def version():
    return tomllib.loads((helm.ROOT / "Cargo.toml").read_text())["workspace"]["package"]["version"]


def image():
    """The image of this version."""
    return f"{yaml.safe_load((helm.CHART / 'values.yaml').read_text())['image']['repository']}:{version()}"


def versions():
    """Checks that the chart has the version and the image of the program."""
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    for key in ("version", "appVersion"):
        if chart[key] != version():
            yield f"Chart.yaml: {key} is {chart[key]}, but Cargo.toml has {version()}"
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    if [entry["image"] for entry in images] != [image()]:
        yield f"Chart.yaml: artifacthub.io/images is not {image()}"


def lint():
    for case, given in helm.cases():
        for message in helm.lint(given):
            yield f"{case}: {message}"


def main():
    if sys.argv[1:] == ["--write"]:
        write()
    renders = snapshots.renders()
    checks = {
        "versions": versions(),
        "helm lint": lint(),
        "drift": drift(renders),
        "rejections": rejections.faults(),
        "manifests": manifests.of_cases(renders),
        "names": manifests.of_releases(),
        "kustomizations": deploy.faults(image()),
        "values": values.faults(renders),
        "alerts and dashboards": alerts.faults(),
    }
    failed = False
    for name, faults in checks.items():
        found = list(faults)
        failed |= bool(found)
        print("\n  ".join([f"{name}: {'' if found else 'ok'}", *map(str, found)]), flush=True)
    objects = sum(len(manifests.objects(texts)) for texts in renders.values())
    print(f"{len(renders)} cases, {objects} objects, Kubernetes {', '.join(manifests.versions())}")
    sys.exit(failed)


main()
