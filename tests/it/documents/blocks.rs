//! Fenced blocks of the documents.

use std::path::{Path, PathBuf};

/// A block of a document.
#[derive(Debug, Clone)]
pub struct Block {
    /// Path from the root of the package.
    pub page: PathBuf,
    pub line: usize,
    pub language: String,
    pub text: String,
}

impl Block {
    pub fn position(&self) -> String {
        format!("{}:{}", self.page.display(), self.line)
    }
}

/// Documents for users, by their paths from the root of the package.
pub fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let files =
        ["docs", "deploy", "charts"].into_iter().flat_map(|folder| walkdir::WalkDir::new(root.join(folder)));
    let files = files.filter_map(Result::ok).map(walkdir::DirEntry::into_path);
    let mut pages: Vec<_> = files.filter(|path| path.extension().is_some_and(|end| end == "md")).collect();
    pages.push(root.join("README.md"));
    pages.sort();
    pages.iter().map(|page| page.strip_prefix(root).unwrap().to_owned()).collect()
}

/// All blocks of all documents.
pub fn blocks() -> Vec<Block> {
    pages()
        .into_iter()
        .flat_map(|page| {
            let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(&page)).unwrap();
            blocks_of(&page, &text)
        })
        .collect()
}

fn blocks_of(page: &Path, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        let Some(language) = line.trim_start().strip_prefix("```") else { continue };
        let mut block = Block {
            page: page.to_owned(),
            line: number + 1,
            language: language.to_owned(),
            text: String::new(),
        };
        loop {
            let (_, line) = lines.next().unwrap_or_else(|| panic!("{} has no end", block.position()));
            if line.trim() == "```" {
                break;
            }
            block.text.push_str(line.get(indent..).unwrap_or_default());
            block.text.push('\n');
        }
        blocks.push(block);
    }
    blocks
}

#[test]
fn blocks_have_their_position_and_no_indentation() {
    let text = "a\n```yaml\nb: 1\n```\n- c\n  ```console\n  $ d\n    e\n\n  ```\n```\n```\n";
    let found = blocks_of(Path::new("p.md"), text);
    let found: Vec<_> = found.iter().map(|b| (b.position(), b.language.as_str(), b.text.as_str())).collect();
    assert_eq!(
        found,
        [
            ("p.md:2".to_owned(), "yaml", "b: 1\n"),
            ("p.md:6".to_owned(), "console", "$ d\n  e\n\n"),
            ("p.md:11".to_owned(), "", ""),
        ]
    );
}
