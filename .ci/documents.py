"""Validates the links of the documents, and the YAML and Python that readers copy: python .ci/documents.py

Chart values must render, objects must match the schema of Kubernetes, and bootstrap files and the example of a card for
Teams their own schema. Links to files and headings must lead somewhere, also from sources. `cargo test` checks the other
blocks (tests/it/documents).
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections import Counter
from functools import cache, partial
from importlib.resources import files
from pathlib import Path

import helm_python
import jsonschema
import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s:]+)\)")
PAGE = re.compile(r"\bdocs/[\w/-]+\.md(?:#[\w-]+)?")
# Of manifests, and of the workflow that signs a release.
URL = re.compile(r"github\.com/supercargo/supercargo//?((?:\.github|deploy)/[\w./-]+\w)")
BOOTSTRAP = jsonschema.Draft202012Validator(json.loads((ROOT / "examples/bootstrap.schema.json").read_text()))


def blocks():
    """Place, check and text of each block."""
    checks = {"yaml": check_yaml, "python": lambda text, named: compile(text, "a document", "exec")}
    pages = [page for folder in ("charts", "deploy", "docs") for page in (ROOT / folder).rglob("*.md")]
    for page in [ROOT / "README.md", *pages]:
        text = page.read_text()
        # Files that a page names in their first line.
        named = {name: textwrap.dedent(block[3]) for block in BLOCK.finditer(text)
                 for name in re.findall(r"^ *# ([\w-]+\.yaml)\n", block[3])}
        for block in BLOCK.finditer(text):
            if block[2] in checks:
                line = text.count("\n", 0, block.start()) + 1
                check = partial(checks[block[2]], named=named)
                yield f"{page.relative_to(ROOT)}:{line}", check, textwrap.dedent(block[3])


def check_yaml(text, named):
    if text.startswith("# values.yaml"):
        with helm_python.Chart.load(ROOT / "charts/supercargo") as chart:
            chart.validate_schema(helm_python.values_from_yaml(text))
            chart.render(helm_python.values_from_yaml(text), name="supercargo", namespace="supercargo")
    elif text.startswith("# kustomization.yaml"):
        for object in yaml.safe_load_all(kustomize(text, named)):
            kubernetes_validate.validate(object, kubernetes_validate.latest_version(), strict=True)
    else:
        for document in filter(None, yaml.safe_load_all(text)):
            if "organizations" in document:
                BOOTSTRAP.validate(document)
            elif "kind" in document:
                kubernetes_validate.validate(document, kubernetes_validate.latest_version(), strict=True)


def kustomize(text, named):
    """The objects of a kustomization, built with the manifests of this commit, and with the files of its page or of the
    example of a sidecar."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "deploy", folder, dirs_exist_ok=True)
        own = shutil.copytree(ROOT / "examples/sidecar", Path(folder) / "own")
        for name, content in {"environments.yaml": "", "token": "", **named}.items():
            (own / name).write_text(content)
        (own / "kustomization.yaml").write_text(text)
        return subprocess.run(["kubectl", "kustomize", own], stdout=subprocess.PIPE, check=True, text=True).stdout


def check_cards(text):
    """Validates the cards of a message for Teams with Microsoft's schema of their version."""
    for attachment in json.loads(text)["attachments"]:
        version = attachment["content"]["version"]
        schema = files("adaptive_cards") / f"schemas/schema-{version}.json"
        jsonschema.Draft6Validator(json.loads(schema.read_text())).validate(attachment["content"])


def broken_links():
    """Links and URLs of documents, and names of pages in sources, to a file or a heading that does not exist."""
    names = ["git", "ls-files", "*.md", "*.rs", "*.yaml"]
    listed = subprocess.run(names, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout
    for page in map(ROOT.joinpath, listed.splitlines()):
        patterns = [(LINK, page.parent), (URL, ROOT)] if page.suffix == ".md" else [(PAGE, ROOT)]
        for number, line in enumerate(page.read_text().splitlines(), 1):
            for folder, link in [(folder, link) for pattern, folder in patterns for link in pattern.findall(line)]:
                path, _, heading = link.partition("#")
                target = folder / path if path else page
                if not target.exists() or heading and target.suffix == ".md" and heading not in anchors(target):
                    yield f"{page.relative_to(ROOT)}:{number}: {link} does not exist"


@cache
def anchors(page):
    """The anchors that GitHub gives to the headings of a page: repeated ones are numbered."""
    found, seen = set(), Counter()
    for heading in re.findall(r"^#+ (.+)$", BLOCK.sub("", page.read_text()), re.MULTILINE):
        text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        anchor = re.sub(r"[^\w -]", "", text).replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def main():
    failed = False
    examples = {"examples/notification.teams.json": check_cards, "examples/all-in-one.yaml": partial(check_yaml, named={})}
    checks = [*((name, check, (ROOT / name).read_text()) for name, check in examples.items()), *blocks()]
    for place, check, text in checks:
        try:
            check(text)
        except (helm_python.HelmError, jsonschema.ValidationError, kubernetes_validate.ValidationError,
                kubernetes_validate.SchemaNotFoundError, subprocess.CalledProcessError, SyntaxError, yaml.YAMLError) as error:
            failed = True
            print(f"{place}: {getattr(error, 'message', error)}")
    for problem in broken_links():
        failed = True
        print(problem)
    print(f"{len(checks)} examples")
    sys.exit(failed)


main()
