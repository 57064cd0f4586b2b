"""The committed renders: a file of manifests and a file of notes for each case."""

import re

from helm import APIS, ROOT, cases, render

FOLDER = ROOT / "tests" / "chart"


def text(case, texts):
    """A render as one file."""
    parts = [f"# charts/supercargo with charts/supercargo/ci/{case}-values.yaml, by .ci/chart --write"]
    for path, rendered in texts.items():
        if path.endswith(".yaml"):
            for part in re.split(r"^---\n", rendered, flags=re.MULTILINE):
                if part.strip():
                    parts.append(f"# {path}\n{part.strip()}")
    return "\n---\n".join(parts) + "\n"


def renders():
    """Case -> template -> text."""
    return {case: render(values, apis=APIS.get(case, ())) for case, values in cases()}


def expected(all_renders):
    """File -> content."""
    files = {}
    for case, texts in all_renders.items():
        files[FOLDER / f"{case}.yaml"] = text(case, texts)
        files[FOLDER / f"{case}.txt"] = texts["templates/NOTES.txt"] + "\n"
    return files
