"""Checks the language of documents, chart texts, comments and test names: python3 .ci/prose [--count] [FILE…]

Prints `path:line: rule: message: text` for each finding and exits with 1 if there is one. A FILE may be a folder.
`rules.py` has the rules and the words, `sources.py` the files. `textlint.json` configures textlint, which checks
spelling and repeated words in documents.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.dont_write_bytecode = True

import rules
import sources

parser = argparse.ArgumentParser(prog="python3 .ci/prose")
parser.add_argument("--count", action="store_true", help="print totals instead of findings")
parser.add_argument("--root", type=Path, default=Path(__file__).parents[2], help="source tree to check")
parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="check only these files and folders")
arguments = parser.parse_args()
root, only = arguments.root.resolve(), {path.resolve() for path in arguments.files}
files = [path for path in sources.files(root) if not only or only & {path, *path.parents}]
if not files:
    parser.error("no file to check")

found, words, starts, tests = Counter(), Counter(), Counter(), 0
for path in files:
    name, text = path.relative_to(root).as_posix(), path.read_text()
    group = "documents" if name.endswith((".md", ".yaml", ".tpl", ".txt", ".json")) else "comments"
    passages = [(passage, rules.sentences(passage)) for passage in sources.passages(name, text)]
    findings = sorted(rules.findings(name, text, passages, sources.tests(name, text)))
    words[group] += sum(sentence.words for _, sentences in passages for sentence in sentences)
    starts[group] += sum(rule == "sentence-start" for _, rule, *_ in findings)
    tests += len(sources.tests(name, text))
    found.update(rule for _, rule, *_ in findings)
    for line, rule, message, sentence in findings if not arguments.count else ():
        print(f"{name}:{line}: {rule}: {message}: {sentence}")

if arguments.count:
    for rule in sorted(found):
        print(f"{rule:16} {found[rule]:6}")
    for group in words:
        rate = 1000 * starts[group] / max(words[group], 1)
        print(f"{group}: {starts[group]} sentence starts in {words[group]} words, {rate:.2f} per 1,000 words")
    print(f"test names: {found['test-name']} of {tests}, {100 * found['test-name'] / max(tests, 1):.1f} %")
sys.exit(not arguments.count and bool(found))
