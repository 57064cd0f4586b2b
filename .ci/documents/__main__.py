"""Validates what stands in the fenced blocks of the documents: python .ci/documents

What is the program's own in them (its commands, environments files, queries) is run by cargo test, in
tests/it/documents. This is the rest: values of the chart, manifests, other programs' commands.
"""

import json
import re
import sys
import tomllib
from pathlib import Path

sys.dont_write_bytecode = True
# How the chart is rendered, and what a manifest has to be.
sys.path.append(str(Path(__file__).resolve().parents[1] / "chart"))

import promql_parser

import blocks
import commands
import manifests_and_values


def python(text):
    compile(text, "a document", "exec")


CHECKS = {
    "console": commands.faults,
    "yaml": manifests_and_values.faults,
    "json": lambda block, page: blocks.said(json.loads, block.text),
    "python": lambda block, page: blocks.said(python, block.text),
    "promql": lambda block, page: blocks.said(promql_parser.parse, block.text),
    "toml": lambda block, page: blocks.said(tomllib.loads, block.text),
    # By cargo test.
    "sql": lambda block, page: [],
    # What the program says.
    "text": lambda block, page: [],
}


# A version of ours, wherever a page has one.
VERSION = re.compile(r"(?:ghcr\.io/supercargo/[\w/]+:|\?ref=v|refs/tags/v|--version |supercargo[- ])(\d+\.\d+\.\d+)")


def other_versions():
    version = tomllib.loads((blocks.ROOT / "Cargo.toml").read_text())["package"]["version"]
    for file in blocks.files():
        for number, line in enumerate(file.read_text().split("\n"), start=1):
            for said in VERSION.findall(line):
                if said != version:
                    yield f"{file.relative_to(blocks.ROOT)}:{number}: it says {said}, and this is {version}"


# Where a link or a picture leads that is not elsewhere.
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def dead_links():
    for file in blocks.files():
        for number, line in enumerate(file.read_text().split("\n"), start=1):
            for target in LINK.findall(line):
                if not (file.parent / target).exists():
                    yield f"{file.relative_to(blocks.ROOT)}:{number}: {target} is not there"


def main():
    failed, checked = False, {}
    for fault in (*other_versions(), *dead_links()):
        failed = True
        print(fault)
    for page in blocks.pages():
        for block in page:
            checked[block.language] = checked.get(block.language, 0) + 1
            check = CHECKS.get(block.language)
            for fault in check(block, page) if check else ["no check knows such a block"]:
                failed = True
                print(f"{block.place}: {fault}")
    print(", ".join(f"{count} {language}" for language, count in sorted(checked.items())))
    sys.exit(failed)


main()
