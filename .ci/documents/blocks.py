"""Fenced blocks of the documents."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ["docs", "deploy", "charts"]


@dataclass
class Block:
    place: str
    language: str
    text: str

    @property
    def name(self):
        """The file name in the first line, without the comment after it: `# values.yaml: comment`."""
        first = self.text.split("\n", 1)[0]
        return first.removeprefix("# ").split(":")[0].split(" ")[0] if first.startswith("# ") else ""


def files():
    return [ROOT / "README.md", *(file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.md")))]


def pages():
    """Blocks of each page."""
    for file in files():
        yield list(of_page(file.relative_to(ROOT), file.read_text()))


def of_page(page, text):
    lines = iter(enumerate(text.split("\n"), start=1))
    for number, line in lines:
        if not line.lstrip().startswith("```"):
            continue
        indent = len(line) - len(line.lstrip())
        inner = []
        for _, inner_line in lines:
            if inner_line.strip() == "```":
                break
            inner.append(inner_line[indent:])
        yield Block(f"{page}:{number}", line.strip().removeprefix("```"), "\n".join(inner) + "\n")


def errors(check, text):
    """Message of a check that raises an error."""
    try:
        check(text)
    except (ValueError, SyntaxError) as error:
        return [str(error)]
    return []
