"""Commands in the documents: runs those that can run, and checks the options of the others."""

import re
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import yaml

import helm
import kustomize
from blocks import ROOT, pages

CHARTS = ["oci://ghcr.io/supercargo/charts/supercargo", "charts/supercargo"]

# Shell builtins and common programs, which are not checked.
ORDINARY = ["cat", "cd", "cp", "echo", "export", "grep", "head", "jq", "less", "mkdir", "printf", "sha256sum", "source", "tail", "tar", "umask"]
# Run by cargo test, or as steps of the gate.
OWN = ["supercargo", "cargo"]
# The options that the documents use of programs that are not here, by the program's and its command's name.
OPTIONS = {
    "helm install": "-f --values --set --namespace -n --version --create-namespace --wait",
    "helm upgrade": "-f --values --set --namespace -n --version --install --create-namespace --wait --reuse-values",
    "helm test": "--namespace -n --logs",
    "helm uninstall": "--namespace -n --wait",
    "cosign verify": "--certificate-identity --certificate-identity-regexp --certificate-oidc-issuer",
    "cosign verify-blob": "--bundle --certificate-identity --certificate-identity-regexp --certificate-oidc-issuer",
    "cosign verify-attestation": "--type --certificate-identity --certificate-identity-regexp --certificate-oidc-issuer",
    "gh attestation": "--repo --owner --predicate-type",
    "docker run": "--rm --volume -v --workdir -w --env -e --user --publish -p --read-only --cap-drop --env-file --network",
    "curl": "-s -f -S -L -o -O -H --fail --silent --show-error --location --cacert --header --output",
    "sqlite3": "",
    "pg_dump": "--host --username --format --file",
    "pg_restore": "--host --username --dbname --clean --if-exists",
    "openssl": None,
}


def faults(block, page):
    for line in lines(block.text):
        read = subprocess.run(["bash", "-n"], input=line, capture_output=True, text=True)
        if read.returncode:
            yield f"{line}: {read.stderr.strip()}"
            continue
        words = [word for command in simple(line) for word in command[:1]]
        if set(words) & {"openssl"}:
            yield from run(line)
        for command in simple(line):
            for fault in of_command(command, block, page):
                yield f"{shlex.join(command)}: {fault}"


def lines(text):
    """Typed lines, joined with their continuation lines."""
    joined = text.replace("\\\n", " ")
    return [line.removeprefix("$ ") for line in joined.split("\n") if line.startswith("$ ")]


def simple(line):
    """The simple commands of a line, without leading variables and redirections."""
    words = shlex.shlex(line, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    commands, is_file = [[]], False
    for word in words:
        if word[0] in "<>":
            is_file = True
        elif is_file:
            is_file = False
        elif set(word) <= set("();|&"):
            commands.append([])
        elif commands[-1] or not re.fullmatch(r"[A-Z_]+=.*", word):
            commands[-1].append(word)
    return [command for command in commands if command]


def run(line):
    """Runs a line in a temporary directory."""
    with tempfile.TemporaryDirectory() as folder:
        for name in re.findall(r"[\w./-]+/", line):
            if not name.startswith("/"):
                (Path(folder) / name).mkdir(parents=True, exist_ok=True)
        ran = subprocess.run(["bash", "-eu", "-c", line], cwd=folder, capture_output=True, text=True)
        return [f"{line}: {ran.stderr.strip()}"] if ran.returncode else []


def of_command(words, block, page):
    program = words[0]
    while program in ("helm", "kubectl") and words[1:2] and words[1] in ("-n", "--namespace"):
        words = [program, *words[3:], *words[1:3]]
    if program in ORDINARY or program in OWN:
        return []
    if program == "kubectl":
        return kubectl(words, page)
    if "/" in program:
        return script(words)
    if program in ("bash", "sh", "sudo"):
        return of_command(words[1:], block, page) if len(words) > 1 else []
    known = next((k for k in (" ".join(words[:2]), program) if k in OPTIONS), None)
    if known is None:
        return ["no check for this command"]
    found = [] if OPTIONS[known] is None else unknown(words, OPTIONS[known].split())
    if known in ("helm install", "helm upgrade"):
        found += installed(words, block, page)
    return found + list(names(words))


def unknown(words, options):
    """Unknown options. Options after the image of `docker run` belong to the program."""
    mine = []
    for word in words[1:]:
        if word.startswith("ghcr.io/supercargo/supercargo:"):
            break
        mine.append(word)
    given = [word.split("=")[0] for word in mine if re.match(r"--?[a-zA-Z]", word)]
    return [f"unknown option {option}" for option in given if option not in options]


def names(words):
    """Checks the names of the project's images and workflows."""
    for word in words:
        for image in re.findall(r"ghcr\.io/supercargo/([\w/-]+):", word):
            if image not in ("supercargo", "charts/supercargo"):
                yield f"unknown image {image}"
        for file in re.findall(r"github\.com/supercargo/supercargo/(\.github/workflows/[\w.-]+)@", word):
            if not (ROOT / file).exists():
                yield f"{file} does not exist"


def script(words):
    """Checks that a script of the repository is executable."""
    file = ROOT / words[0]
    if not file.exists():
        return [f"{words[0]} does not exist"]
    return [] if file.stat().st_mode & 0o111 else [f"{words[0]} is not executable"]


# helm


def option(words, *names):
    """Values of an option."""
    values = [after for word, after in zip(words, words[1:]) if word in names]
    return values + [word.split("=", 1)[1] for word in words if word.split("=")[0] in names and "=" in word]


def installed(words, block, page):
    """Checks that the chart accepts the values of the page."""
    if not set(words) & set(CHARTS):
        return [f"expected one of the charts {CHARTS}"]
    found, texts = [], []
    for file in option(words, "-f", "--values"):
        if (ROOT / file).exists():
            texts.append((ROOT / file).read_text())
            continue
        given = of_name(page, file)
        before = [other for other in given if page.index(other) < page.index(block)]
        # Without values on this page, uses those of another page.
        elsewhere = [other for other_page in pages() for other in of_name(other_page, file)]
        chosen = before[-1:] or given[:1] or elsewhere[:1]
        texts += [other.text for other in chosen]
        if not chosen:
            found.append(f"no block starts with # {file}")
    values = {}
    for text in texts:
        merge(values, helm.values(text))
    for setting in option(words, "--set"):
        key, value = setting.split("=", 1)
        inner = yaml.safe_load(value)
        for part in reversed(key.split(".")):
            inner = {part: inner}
        merge(values, inner)
    try:
        helm.render(values, namespace=(option(words, "--namespace", "-n") or ["default"])[0])
    except helm.Rejected as rejected:
        found.append(f"the chart rejects the values: {rejected}")
    return found


def of_name(page, file):
    return [block for block in page if block.language == "yaml" and block.name == file]


def merge(into, other):
    for key, value in other.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            merge(into[key], value)
        else:
            into[key] = value


# kubectl


@cache
def options_of(*command):
    """Options of a kubectl command, from its help; None if the command does not exist."""
    shown = subprocess.run(["kubectl", *command, "--help"], capture_output=True, text=True).stdout
    if not re.search(rf"^ +kubectl {' '.join(map(re.escape, command))}( |$)", shown, flags=re.MULTILINE):
        return None
    everywhere = subprocess.run(["kubectl", "options"], capture_output=True, text=True).stdout
    found = re.findall(r"^ +(?:(-\w), )?(--[\w-]+)=", shown + everywhere, flags=re.MULTILINE)
    return {name for pair in found for name in pair if name}


@cache
def objects():
    """Kind and name of each object of the chart and of the manifests."""
    found = set()
    for file in [*ROOT.glob("tests/chart/*.yaml"), *ROOT.glob("deploy/*/supercargo.yaml")]:
        for object in yaml.safe_load_all(file.read_text()):
            if object:
                found.add((object["kind"].lower(), object["metadata"]["name"]))
    return found


def kubectl(words, page):
    command, known = [], None
    for word in words[1:4]:
        further = None if word.startswith("-") else options_of(*command, word)
        if further is None:
            break
        command, known = [*command, word], further
    if known is None:
        return [f"unknown kubectl command {words[1]}"]
    mine = words[: words.index("--")] if "--" in words else words
    given = [word.split("=")[0] for word in mine if re.match(r"--?[a-zA-Z]", word)]
    found = [f"unknown option {option}" for option in given if option not in known]
    for word in words:
        if re.fullmatch(r"(deployment|statefulset|cronjob|daemonset)s?/[\w-]+", word) and "supercargo" in word:
            kind, name = word.split("/")
            if (kind.rstrip("s"), name) not in objects():
                found.append(f"no installed object is {word}")
    if command[0] == "create":
        found += created(words)
    if command[0] in ("apply", "kustomize", "diff"):
        found += applied(words, page)
    return found


def created(words):
    """Creates the object with kubectl, without a server."""
    with tempfile.TemporaryDirectory() as folder:
        for given in option(words, "--from-file", "--from-env-file", "--cert", "--key"):
            file = Path(folder) / given.split("=")[-1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("key=value\n")
        if words[2] == "secret" and words[3] == "tls":
            return []
        made = subprocess.run([*words, "--dry-run=client", "-o", "yaml"], cwd=folder, capture_output=True, text=True)
        return [made.stderr.strip()] if made.returncode else []


def applied(words, page):
    """Builds the directory. A directory of the reader must have a block on the page."""
    paths = option(words, "-k", "--kustomize") + (words[2:3] if words[1] == "kustomize" else [])
    for path in paths:
        local = kustomize.REMOTE.sub(r"\1", path)
        if local != "." and (ROOT / local).exists():
            yield from kustomize.build(ROOT / local)[1]
        elif not any(block.name == "kustomization.yaml" for block in page):
            yield f"{path} does not exist, and no block on the page starts with # kustomization.yaml"
    for path in option(words, "-f", "--filename"):
        if path != "-" and not (ROOT / path).exists() and not any(block.name == path for block in page):
            yield f"{path} does not exist, and no block on the page starts with # {path}"
    if not paths and not option(words, "-f", "--filename"):
        yield "no directory or file to apply"
