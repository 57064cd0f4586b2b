"""The rules, and the words that they look for."""

import re
from collections import namedtuple

MAX_SENTENCE_WORDS = 35
MAX_CELL_WORDS = 40

# Words that do not name the subject. Questions may start with them, and headings with "How to".
STARTS = re.compile(
    r"(what(?:ever)?|who(?:m|se|ever)?|whichever|that|of|neither|nobody|nothing|none|no one|such|those"
    r"|(?:so|as) (?:many|much)|how)\b(?!-)",
    re.IGNORECASE,
)
PRONOUNS = re.compile(r"(it|its|they|them|their|he|she|we|which)\b", re.IGNORECASE)
EMPTY_CELL = re.compile(r"(?:none|nothing|nobody)(?=[,;:.(]|$| \()", re.IGNORECASE)
CONSTANT = re.compile(r"(?:\b(?:const|static) |^)((?:MOST|LARGEST|LONGEST)(?:_[A-Z0-9_]+)?)\s*[:=]")

# Terms that were replaced: where they are looked for, the pattern, and the replacement. "anywhere" includes code.
TERMS = [
    ("anywhere", r"witness(?:es|ed)?", "departed pods"),
    ("anywhere", r"came and went", "departed"),
    ("anywhere", r"rosters?", "live set"),
    ("anywhere", r"hindsight", "history coverage"),
    ("anywhere", r"judge(?:s|d)?|judging", "evaluate"),
    ("anywhere", r"vouch(?:es|ed)?", "check freshness, trust"),
    ("prose", r"strangers?", "anonymous user"),
    ("prose", r"(?:the|a) one shot|one shots", "`agent --once`"),
    ("prose", r"in the clear", "unencrypted"),
    ("prose", r"tried again|second tries", "retried"),
    ("prose", r"houses?|floors?|rooms|(?:a|the|each|every|other|another|this) room", "layer, module, space"),
]

Sentence = namedtuple("Sentence", "line text words")

# Characters of code spans and quotations that would split a sentence or a word, and their private stand-ins.
HIDDEN = str.maketrans({mark: chr(0xE000 + ord(mark)) for mark in " .?!:|*[]<>"})
SHOWN = {ord(after): before for before, after in HIDDEN.items()}
END = re.compile(r"""(?<=[.?!])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\bvs\.)["')\]*]*\s+(?=[^a-z\s])""")


def hide(found):
    """Makes one word of a code span or quotation, and keeps the number of lines."""
    return found[0].replace("\n", " ").translate(HIDDEN) + "\n" * found[0].count("\n")


def plain(text):
    """Text as a reader sees it: links by their text, code spans and quotations as one word."""
    text = re.sub(r"(`+).+?\1", hide, text, flags=re.DOTALL)
    text = re.sub(r"!?\[([^]]*)\](?:\([^)]*\)|\[[^]]*\])", r"\1", text)
    text = re.sub(r'"[^"]{1,80}"|“[^”]{1,80}”', hide, text)
    return re.sub(r"\*+|<[^>\s]+>", "", text)


def sentences(passage):
    text = plain(passage.text)
    bounds = [0, *(end.end() for end in END.finditer(text)), len(text)]
    found = []
    for start, end in zip(bounds, bounds[1:]):
        words = text[start:end].split()
        number = sum(bool(re.search(r"[\w…]", word)) for word in words)
        found.append(Sentence(passage.line + text.count("\n", 0, start), " ".join(words).translate(SHOWN), number))
    return found


def findings(name, text, passages, tests):
    """Findings in a file, as (line, rule, message, text)."""
    for passage, sentences in passages:
        yield from prose(passage, sentences)
    for line, test in tests:
        start = STARTS.match(test.replace("_", " ")) or PRONOUNS.match(test.replace("_", " "))
        if start and not test.endswith("?"):
            yield line, "test-name", f'must not start with "{start[0]}", state subject, condition, result', test
    # The word lists of this check are no findings.
    for line, code in enumerate(text.split("\n") if not name.startswith(".ci/prose/") else (), 1):
        for constant in CONSTANT.findall(code):
            yield line, "constant", "limits are called MAX_*", constant
        # The words of identifiers, so that `PodRoster` and `pod_roster` are found, and `judgement` is not.
        yield from terms("anywhere", line, re.sub(r"(?<=[a-z])(?=[A-Z])|[_\W]+", " ", code), code.strip())


def prose(passage, sentences):
    is_cell = passage.kind == "cell"
    if is_cell and (words := sum(sentence.words for sentence in sentences)) > MAX_CELL_WORDS:
        yield passage.line, "cell-length", f"{words} words, at most {MAX_CELL_WORDS}", passage.text
    for line, text, words in sentences:
        start = STARTS.match(text)
        is_guide = passage.kind == "heading" and text.startswith("How to ")
        if start and not (text.endswith("?") or is_guide or (is_cell and EMPTY_CELL.match(text))):
            yield line, "sentence-start", f'must not start with "{start[0]}", name the subject', text
        elif passage.kind == "paragraph" and text == sentences[0].text and re.match(r"It\b", text):
            yield line, "sentence-start", '"It" has no antecedent, name the subject', text
        if words > MAX_SENTENCE_WORDS and not is_cell:
            yield line, "sentence-length", f"{words} words, at most {MAX_SENTENCE_WORDS}", text
        yield from terms("prose", line, re.sub(r"`.*?`", "`…`", text), text)


def terms(scope, line, searched, text):
    for term_scope, term, instead in TERMS:
        if scope == term_scope and (found := re.search(rf"(?<![\w-])(?:{term})(?![\w-])", searched, re.IGNORECASE)):
            yield line, "term", f'"{found[0]}" is now "{instead}"', text
