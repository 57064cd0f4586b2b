"""Kustomizations in the documents, built beside the manifests that are committed."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from blocks import ROOT

# The manifests as others see them, of whichever version.
REMOTE = re.compile(r"(?:https://)?github\.com/supercargo/supercargo//(deploy/[\w-]+)\?ref=v[\d.]+")


def build(folder):
    """The objects of a folder, as text, and what kubectl says against it."""
    built = subprocess.run(["kubectl", "kustomize", str(folder)], capture_output=True, text=True)
    return (built.stdout, []) if built.returncode == 0 else ("", [built.stderr.strip()])


def build_text(text):
    """The same of a kustomization that is to stand in a folder of its own beside those of `deploy`."""
    with tempfile.TemporaryDirectory() as folder:
        deploy = Path(folder) / "deploy"
        if (ROOT / "deploy").exists():
            shutil.copytree(ROOT / "deploy", deploy)
        own = deploy / "of-the-document"
        own.mkdir(parents=True)
        (own / "kustomization.yaml").write_text(REMOTE.sub(r"../../\1", text))
        for name in re.findall(r"^ *- ([\w-]+\.yaml)$", text, flags=re.MULTILINE):
            # What the reader has there.
            shutil.copy(ROOT / "deploy/sidecar-example" / name, own)
        for names in re.findall(r"^ *files: \[(.*)\]$", text, flags=re.MULTILINE):
            for name in names.split(", "):
                (own / name).write_text("something\n")
        built, found = build(own)
        if "/deploy/sidecar?" in text and "restartPolicy: Always" not in built:
            found.append("nothing got the sidecar")
        return built, found
