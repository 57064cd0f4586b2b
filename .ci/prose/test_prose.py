import unittest

import rules
import sources

START, LENGTH, NAME, CONSTANT, TERM = "sentence-start", "sentence-length", "test-name", "constant", "term"
# A file's name, its text, and the line and rule of each finding.
CASES = [
    ("a.md", "# What it does\n", [(1, START)]),
    ("a.md", "# What does it do?\n\n# How to install\n\nWhat: `a`? Yes.\n", []),
    ("a.md", "It runs. It\nstops. Nobody\nsees it.\n", [(1, START), (2, START)]),
    ("a.md", "A list:\n- who may read\n- **Of two**, one\n", [(2, START), (3, START)]),
    ("a.md", '`What` is code. "Nothing. None" is quoted, e.g. That.\n\n```text\nWhat is fenced\n```\n', []),
    ("a.md", "| what | `a\\|b` |\n|---|---|\n| none | nothing, or [such](x) |\n", [(1, START)]),
    ("a.md", "w " * 35 + "`a b`.\n\n" + "w " * 35 + "[text](x)\n", [(1, LENGTH), (3, LENGTH)]),
    ("a.md", "w " * 34 + "`a b c. d`. " + "W " * 35 + "\n\n| " + "w. " * 40 + "|\n", []),
    ("a.md", "| " + "w " * 41 + "|\n", [(1, "cell-length")]),
    ("a.md", "The warehouse has a floor.\n", [(1, TERM)]),
    ("a.rs", 'let url = "https://a // Of b"; // That is it.\n', [(1, START)]),
    ("a.rs", "/// How to go.\n\n/// Returns\n/// what it reads.\n///\n/// It ends.\n", [(1, START), (6, START)]),
    ("a.rs", "const LONGEST: u8 = 1;\nconst MOST_PODS: u8 = 1;\nconst ALMOST: u8 = 1", [(1, CONSTANT), (2, CONSTANT)]),
    ("a.rs", "struct PodRoster;\nfn judgement() { x.floor() }\n", [(1, TERM)]),
    ("a.rs", "#[test]\n#[ignore]\nfn what_is_read() {}\n\nfn of_a_pod() {}\n", [(3, NAME)]),
    ("a.rs", "super::on_both!(\n  whale,\n  // Slow.\n  so_many_pods,\n  it_ends,\n);\n", [(4, NAME), (5, NAME)]),
    ("a.mjs", "/** A page.\n * what is shown\n */\ntest('nothing is loaded', f);\n", [(4, NAME)]),
    ("a.sql", "-- Whose key it is.\nSELECT 1; -- None\n", [(1, START), (2, START)]),
    ("a.py", '"""What it is."""\ntext = "#What"\t# Those\n', [(1, START), (2, START)]),
    ("charts/alerts/a.yaml", "  summary: What {{ x }} is\n  description: >-\n    Yes.\n    None.\n", [(1, START), (4, START)]),
    ("a.tpl", "{{- " "/* What is\n  rendered. */ -}}\n", [(1, START)]),
    ("values.schema.json", '{\n"description": "Whoever reads \\"it\\""}', [(2, START)]),
    ("NOTES.txt", "{{- if .x }}\nNothing of {{ .y }}\n{{- end }}\n", [(2, START)]),
]


class Prose(unittest.TestCase):
    def test_findings(self):
        for name, text, expected in CASES:
            with self.subTest(name, text=text):
                passages = [(passage, rules.sentences(passage)) for passage in sources.passages(name, text)]
                found = rules.findings(name, text, passages, sources.tests(name, text))
                self.assertEqual(sorted((line, rule) for line, rule, *_ in found), expected)
