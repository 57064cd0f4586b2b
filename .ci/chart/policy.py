"""checkov's policies, with the exceptions of exceptions.yaml."""

import json
import re
import subprocess
import sys
from pathlib import Path

import yaml

from snapshots import FOLDER

EXCEPTIONS = Path(__file__).parent / "exceptions.yaml"


def failed():
    """Failed checks: identifier, name, and the object as `case Kind/name`."""
    checkov = Path(sys.executable).parent / "checkov"
    arguments = ["--framework", "kubernetes", "--compact", "--quiet", "--skip-download", "--output", "json"]
    ended = subprocess.run([checkov, "--directory", FOLDER, *arguments], capture_output=True, text=True)
    result = json.loads(ended.stdout)
    if result["summary"]["passed"] < 1000 or result["summary"]["parsing_errors"]:
        raise SystemExit(f"checkov did not check the renders: {result['summary']}")
    for check in result["results"]["failed_checks"]:
        case = Path(check["file_path"]).stem
        kind, _, name = check["resource"].split(".", 2)
        yield check["check_id"], check["check_name"], f"{case} {kind}/{name}"


def faults():
    exceptions = yaml.safe_load(EXCEPTIONS.read_text())
    unused = {(exception["check"], exception["of"]) for exception in exceptions}
    for check, name, found in failed():
        excepted = {(e["check"], e["of"]) for e in exceptions if e["check"] == check and re.fullmatch(e["of"], found)}
        unused -= excepted
        if not excepted:
            yield f"{check} ({name}): {found}"
    for check, of in sorted(unused):
        yield f"unused exception of {check} for {of}"
