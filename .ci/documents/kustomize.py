"""Builds kustomizations of the documents beside the committed manifests."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from blocks import ROOT

# Remote URLs of the manifests, in any version.
REMOTE = re.compile(r"(?:https://)?github\.com/supercargo/supercargo//(deploy/[\w-]+)\?ref=v[\d.]+")


def build(folder):
    """Objects of a directory as text, and the errors of kubectl."""
    built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    return (built.stdout, []) if built.returncode == 0 else ("", [built.stderr.strip()])


def build_text(text, files):
    """Builds the text of a kustomization, with files by name, in a directory beside those in `deploy`."""
    with tempfile.TemporaryDirectory() as folder:
        deploy = Path(folder) / "deploy"
        if (ROOT / "deploy").exists():
            shutil.copytree(ROOT / "deploy", deploy)
        own = deploy / "of-the-document"
        own.mkdir(parents=True)
        (own / "kustomization.yaml").write_text(REMOTE.sub(r"../../\1", text))
        for name in re.findall(r"^ *- ([\w-]+\.yaml)$", text, flags=re.MULTILINE):
            # Files of the reader: on the same page, or those of the example.
            (own / name).write_text(files.get(name) or (ROOT / "examples/sidecar" / name).read_text())
        for names in re.findall(r"^ *files: \[(.*)\]$", text, flags=re.MULTILINE):
            for name in names.split(", "):
                (own / name).write_text("something\n")
        built, found = build(own)
        if "/deploy/sidecar?" in text and "restartPolicy: Always" not in built:
            found.append("no workload has the sidecar")
        return built, found
