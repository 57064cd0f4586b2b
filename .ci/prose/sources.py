"""Finds the files, and the passages and test names in them."""

import re
from collections import namedtuple
from pathlib import PurePath

# deploy/cluster is rendered from the chart.
SCOPE = """
*.md docs/*.md deploy/*.md charts/**/*.md tests/*.md tests/fixtures/README.md
charts/**/*.yaml charts/**/*.tpl charts/**/NOTES.txt charts/**/values.schema.json charts/**/dashboards/*.json
deploy/namespace/*.yaml deploy/sidecar/*.yaml examples/**/*.yaml .github/**/*.yaml *.toml .config/*.toml Dockerfile
src/**/*.rs tests/**/*.rs benches/**/*.rs fuzz/fuzz_targets/*.rs migrations/*.sql tests/browser/*.mjs
.ci/* .ci/**/*.py scripts/*
""".split()

# A Rust string or character, or (group 2) a comment. Strings come first, since they may contain slashes.
RUST = re.compile(r"""\bb?r(#*)".*?"\1|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])'|(//[^\n]*)""", re.DOTALL)
MARKERS = {".sql": "--+", ".mjs": "//"}
DIRECTIVE = re.compile(r" (?:shellcheck |zizmor:|syntax=)")
BLOCK_COMMENT = re.compile(r'(?:^|\{\{-?) *(?:/\*+|"""(?=[\w`])) ?(.*?)(?:\*/|""")', re.MULTILINE | re.DOTALL)
ALERT_TEXT = re.compile(r"^( *)(?:summary|description): (?:>-\n)?(.+\n?(?:\1 +.+\n?)*)", re.MULTILINE)
JSON_TEXT = re.compile(r'"(?:description|title)": "((?:\\.|[^"\\])*)"')

TEST = re.compile(r"#\[(?:tokio::)?test\b[^\n]*\n(?:\s*(?:#\[|//)[^\n]*\n)*\s*(?:pub )?(?:async )?fn (\w+)")
TEST_LIST = re.compile(r"\bon_(?:both|sqlite)!\s*[({]([^)}]*)[)}]")
MJS_TEST = re.compile(r"\b(?:test|person)\(\s*(['\"`])(.*?)\1")


# A "paragraph", "heading", list "item" or table "cell", with the line breaks of the file.
Passage = namedtuple("Passage", "kind line text")


def files(root):
    found = {path for glob in SCOPE for path in root.glob(glob) if path.is_file()}
    return sorted(path for path in found if path.suffix != ".txt" or path.name == "NOTES.txt")


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def passages(name, text):
    for line, block in blocks(name, text):
        yield from markdown(enumerate(block.split("\n"), line))


def blocks(name, text):
    """Texts in Markdown without comment markers, as (first line, text)."""
    suffix = PurePath(name).suffix
    if suffix == ".md":
        yield 1, text
    elif suffix == ".txt":
        yield 1, without_actions(text)
    elif suffix == ".json":
        for found in JSON_TEXT.finditer(text):
            yield line_of(text, found.start()), found[1].replace('\\"', '"')
    else:
        for found in BLOCK_COMMENT.finditer(text) if suffix not in (".rs", ".sql") else ():
            yield line_of(text, found.start(1)), re.sub(r"^ *(?:\*(?!\S))? ?", "", found[1], flags=re.MULTILINE)
        for found in ALERT_TEXT.finditer(text) if "/alerts/" in name else ():
            lines = [line.strip(" \"'") for line in without_actions(found[2]).split("\n")]
            yield line_of(text, found.start(2)), "\n".join(lines)
        yield from line_comments(suffix, text)


def without_actions(text):
    """Template text with code spans for actions. A line of actions becomes empty."""
    return re.sub(r"\{\{.*?\}\}", "`…`", re.sub(r"^\{\{.*\}\}$", "", text, flags=re.MULTILINE))


def line_comments(suffix, text):
    """Joins consecutive comment lines with the same column and marker."""
    marked = re.compile(rf"()(?:^|(?<=\s))({MARKERS.get(suffix, '#')}(?: .*)?)$", re.MULTILINE)
    lines, before, first = [], None, 0
    for found in (RUST if suffix == ".rs" else marked).finditer(text):
        if not found[2]:
            continue
        line, start = line_of(text, found.start(2)), text.rfind("\n", 0, found.start(2)) + 1
        marker, words = re.match(r"(#+|--+|//[/!]?)(.*)", found[2]).groups()
        indent = text[start : found.start(2)]
        if (line, indent, marker) != before or indent.strip():
            yield first, "\n".join(lines)
            lines, first = [], line
        lines.append("" if DIRECTIVE.match(words) else words.removeprefix(" "))
        before = (line + 1, indent, marker)
    yield first, "\n".join(lines)


def markdown(lines):
    """Passages of Markdown. Skips fenced and indented code, lines of HTML, rules and link definitions."""
    kind, paragraph, fence, blank = "paragraph", [], None, True
    for line, text in [*lines, (0, "")]:
        bare = text.strip().removeprefix("> ")
        mark = re.match(r"(#{1,6}|[-*+]|\d{1,3}[.)])\s+(?=\S)", bare)
        is_code = fence or (blank and text.startswith("    ")) or re.match(r"```|~~~|<|\[[^]]+\]: |[-=─]{3}", bare)
        if paragraph and (not bare or mark or is_code or bare[0] == "|"):
            yield Passage(kind, paragraph[0][0], "\n".join(words for _, words in paragraph))
            kind, paragraph = "paragraph", []
        if bare[:3] in ("```", "~~~"):
            fence = None if fence else bare[:3]
        elif bare and not is_code and bare[0] == "|":
            for cell in re.split(r"(?<!\\)\|", bare.strip("|")):
                if re.search(r"\w", cell):
                    yield Passage("cell", line, cell.strip())
        elif bare and not is_code:
            if mark:
                kind = "heading" if mark[1][0] == "#" else "item"
            paragraph.append((line, bare[mark.end() :] if mark else bare))
        blank = (blank and is_code) or not bare


def tests(name, text):
    """Names of tests, as (line, name)."""
    found = []
    if name.endswith(".mjs"):
        found = [(test.start(), test[2]) for test in MJS_TEST.finditer(text)]
    elif name.endswith(".rs"):
        found = [(test.start(1), test[1]) for test in TEST.finditer(text)]
        for names in TEST_LIST.finditer(text):
            only_names = re.sub(r"//.*|#\[.*?\]", lambda other: " " * len(other[0]), names[1])
            found += [(names.start(1) + test.start(), test[0]) for test in re.finditer(r"\w+", only_names)]
    return [(line_of(text, start), test) for start, test in found]
