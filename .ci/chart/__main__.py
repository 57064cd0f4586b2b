"""Checks the chart: python .ci/chart [--write]

--write regenerates the files that derive from the chart: the renders in tests/chart, the table in its README, the
bootstrap file's part of its schema, and the plain manifests in deploy. Without it, the files must be up to date.
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
import names
import policy
import readme
import rejections
import snapshots
import values


def drift(renders):
    """Checks that the committed files are up to date."""
    expected = {embed.SCHEMA: embed.expected(), readme.README: readme.expected()}
    expected |= snapshots.expected(renders) | deploy.expected()
    for file in snapshots.FOLDER.iterdir():
        if file not in expected:
            yield f"{file.relative_to(helm.ROOT)} belongs to no case"
    for file, text in expected.items():
        if not file.exists() or file.read_text() != text:
            yield f"{file.relative_to(helm.ROOT)} is outdated: run .ci/chart --write"


def write():
    # Renders depend on the schema.
    embed.SCHEMA.write_text(embed.expected())
    readme.README.write_text(readme.expected())
    snapshots.FOLDER.mkdir(exist_ok=True)
    for file in snapshots.FOLDER.iterdir():
        file.unlink()
    for file, text in (snapshots.expected(snapshots.renders()) | deploy.expected()).items():
        file.write_text(text)
    deploy.write_built()


def image():
    """The image of this version."""
    repository = yaml.safe_load((helm.CHART / "values.yaml").read_text())["image"]["repository"]
    return f"{repository}:{version()}"


def version():
    return tomllib.loads((helm.ROOT / "Cargo.toml").read_text())["package"]["version"]


def versions():
    """Checks that the chart has the version and the image of the program."""
    chart = yaml.safe_load((helm.CHART / "Chart.yaml").read_text())
    for key in ("version", "appVersion"):
        if chart[key] != version():
            yield f"Chart.yaml: {key} is {chart[key]}, but Cargo.toml has {version()}"
    images = yaml.safe_load(chart["annotations"]["artifacthub.io/images"])
    if [entry["image"] for entry in images] != [image()]:
        yield f"Chart.yaml: artifacthub.io/images is not {image()}"
    for key in ("artifacthub.io/changes", "artifacthub.io/links"):
        yaml.safe_load(chart["annotations"][key])


def lint():
    for case, given in helm.cases():
        for message in helm.lint(given):
            yield f"{case}: {message}"


def valid(renders):
    for case, texts in renders.items():
        for object in manifests.objects(texts):
            for fault in manifests.faults(object):
                yield f"{case}: {manifests.identity(object)}: {fault}"


def main():
    if sys.argv[1:] == ["--write"]:
        write()
        return
    try:
        renders = snapshots.renders()
    except helm.Rejected as rejected:
        raise SystemExit(f"the chart rejects a case: {rejected}") from None
    checks = {
        "versions": versions(),
        "helm lint": lint(),
        "drift": drift(renders),
        "rejections": rejections.faults(),
        "manifests": valid(renders),
        "plain manifests": deploy.faults(image()),
        "names": names.faults(),
        "values": values.faults(renders),
        "alerts and dashboards": alerts.faults(renders),
        "policies": policy.faults(),
    }
    failed = False
    for name, faults in checks.items():
        try:
            found = list(faults)
        except (helm.Rejected, ValueError, yaml.YAMLError) as error:
            found = [error]
        print(f"{name}: {'ok' if not found else ''}", flush=True)
        for fault in found:
            failed = True
            print(f"  {fault}")
    objects = sum(len(manifests.objects(texts)) for texts in renders.values())
    print(f"{len(renders)} cases, {objects} objects, Kubernetes {', '.join(manifests.versions())}")
    sys.exit(failed)


main()
