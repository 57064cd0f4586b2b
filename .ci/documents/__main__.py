"""Validates the fenced blocks of the documents: python .ci/documents

cargo test runs the program's commands, environments files and queries (tests/it/documents). This program checks the
rest: chart values, manifests, commands of other programs, versions, links, and the example of a card for Teams.
"""

import json
import re
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

sys.dont_write_bytecode = True
# Modules to render the chart and to check manifests.
sys.path.append(str(Path(__file__).resolve().parents[1] / "chart"))

import jsonschema
import promql_parser

import blocks
import commands
import manifests_and_values


def python(text):
    compile(text, "a document", "exec")


CHECKS = {
    "console": commands.faults,
    "yaml": manifests_and_values.faults,
    "json": lambda block, page: blocks.errors(json.loads, block.text),
    "python": lambda block, page: blocks.errors(python, block.text),
    "promql": lambda block, page: blocks.errors(promql_parser.parse, block.text),
    "toml": lambda block, page: blocks.errors(tomllib.loads, block.text),
    # Checked by cargo test.
    "sql": lambda block, page: [],
    # Output of the program.
    "text": lambda block, page: [],
}


# Versions of the project in the documents.
VERSION = re.compile(r"(?:ghcr\.io/supercargo/[\w/]+:|\?ref=v|refs/tags/v|--version |supercargo[- ])(\d+\.\d+\.\d+)")


def other_versions():
    version = tomllib.loads((blocks.ROOT / "Cargo.toml").read_text())["package"]["version"]
    for file in blocks.files():
        for number, line in enumerate(file.read_text().split("\n"), start=1):
            for found in VERSION.findall(line):
                if found != version:
                    yield f"{file.relative_to(blocks.ROOT)}:{number}: version {found}, expected {version}"


# Targets of relative links and images.
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def dead_links():
    for file in blocks.files():
        for number, line in enumerate(file.read_text().split("\n"), start=1):
            for target in LINK.findall(line):
                if not (file.parent / target).exists():
                    yield f"{file.relative_to(blocks.ROOT)}:{number}: {target} does not exist"


def card_faults():
    """Faults of the cards in the Teams example, by Microsoft's schema of their version."""
    example = blocks.ROOT / "examples/notification.teams.json"
    for attachment in json.loads(example.read_text())["attachments"]:
        card = attachment["content"]
        schema = files("adaptive_cards") / f"schemas/schema-{card['version']}.json"
        for error in jsonschema.Draft6Validator(json.loads(schema.read_text())).iter_errors(card):
            yield f"{example.name}: {jsonschema.exceptions.best_match([error]).message}"


def main():
    failed, checked = False, {}
    for fault in (*other_versions(), *dead_links(), *card_faults()):
        failed = True
        print(fault)
    for page in blocks.pages():
        for block in page:
            checked[block.language] = checked.get(block.language, 0) + 1
            check = CHECKS.get(block.language)
            for fault in check(block, page) if check else [f"no check for blocks of type \"{block.language}\""]:
                failed = True
                print(f"{block.place}: {fault}")
    print(", ".join(f"{count} {language}" for language, count in sorted(checked.items())))
    sys.exit(failed)


main()
