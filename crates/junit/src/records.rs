//! What the files of an attestation say, flat, for the decision in `decide`: 32 bytes for each test case.

use std::hash::{BuildHasher, RandomState};
use std::ops::{Index, IndexMut, Range};
use std::path::{Component, Path, PathBuf};

use super::case::{Case, CaseOutcome, Marks, PerKind};
use super::decisions::Doubt;
use super::suite::{Declared, Start};
use model::{JunitResult, Text};

/// The files read so far.
#[derive(Debug, Default)]
pub(super) struct Records {
    hasher: RandomState,
    pub(super) files: Vec<FileRecord>,
    /// Each suite before those inside it.
    pub(super) suites: PerSuite<SuiteRecord>,
    /// In the order of their ends, so that the cases of a suite are adjacent.
    pub(super) cases: Vec<CaseRecord>,
    /// Names and times of the outermost suites; the numbers are filled in by the decision.
    pub(super) results: Vec<JunitResult>,
    /// Distinct reasons for errors.
    pub(super) doubts: Vec<Doubt>,
}

#[derive(Debug)]
pub(super) struct FileRecord {
    pub(super) folder: PathBuf,
    /// Hash of the content.
    pub(super) content: u64,
    /// Names results without a name.
    pub(super) stem: Text,
    /// Name and time of the root element.
    pub(super) root: JunitResult,
}

#[derive(Debug)]
pub(super) struct SuiteRecord {
    pub(super) file: u32,
    /// `None` for the root of a file.
    pub(super) parent: Option<SuiteId>,
    /// Index in `Records::results`. The root of a file gets one only if it has cases or errors of its own.
    pub(super) result: Option<u32>,
    /// Hash of the name.
    pub(super) key: u64,
    /// Its test cases, with those of the suites inside it.
    pub(super) cases: Range<usize>,
    pub(super) declared: Declared,
    /// Failures of its own test cases that do not count.
    pub(super) uncounted: PerKind<u32>,
    pub(super) start: Option<Start>,
    /// Hash of the name of the host.
    pub(super) host: Option<u64>,
}

#[derive(Debug)]
pub(super) struct CaseRecord {
    /// Hash of class and name.
    pub(super) key: u64,
    /// Seconds, or NaN.
    pub(super) duration: f64,
    pub(super) suite: SuiteId,
    pub(super) outcome: CaseOutcome,
    pub(super) failing_elements: PerKind<u8>,
    pub(super) sign: Sign,
    pub(super) flags: Flags,
}

/// Why a test case is an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    Clear,
    /// Index in `Records::doubts`.
    Doubt(u8),
}

/// Marks, whether the case has a name, and whether it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags(u8);

impl Flags {
    const SKIPPED: u8 = 1;
    const FLAKY: u8 = 2;
    const RERUN: u8 = 4;
    const NAMED: u8 = 8;
    const DROPPED: u8 = 16;
    const FAILED_BY_STATUS: u8 = 32;

    fn new(case: &Case) -> Self {
        let Marks { is_skipped, is_flaky, is_rerun } = case.marks;
        let bits = [
            (is_skipped, Self::SKIPPED),
            (is_flaky, Self::FLAKY),
            (is_rerun, Self::RERUN),
            (case.is_named(), Self::NAMED),
            (case.is_failed_by_status(), Self::FAILED_BY_STATUS),
        ];
        Self(bits.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, bit)| all | bit))
    }

    fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

impl CaseRecord {
    /// The case counts: it is neither an earlier attempt nor a copy.
    pub(super) fn counts(&self) -> bool {
        !self.flags.has(Flags::DROPPED)
    }

    pub(super) fn drop(&mut self) {
        self.flags.0 |= Flags::DROPPED;
    }

    pub(super) fn is_unsuccessful(&self) -> bool {
        self.outcome >= CaseOutcome::Failed
    }

    pub(super) fn is_named(&self) -> bool {
        self.flags.has(Flags::NAMED)
    }

    /// Whether totals can excuse the case: it is marked, and its status does not say that the last attempt failed.
    pub(super) fn is_excusable(&self) -> bool {
        self.flags.has(Flags::SKIPPED | Flags::FLAKY | Flags::RERUN)
            && !self.flags.has(Flags::FAILED_BY_STATUS)
    }

    pub(super) fn is_rerun(&self) -> bool {
        self.flags.has(Flags::RERUN)
    }

    /// The outcome of a case whose failure the producer does not count.
    pub(super) fn excused(&self) -> CaseOutcome {
        if self.flags.has(Flags::SKIPPED) { CaseOutcome::Skipped } else { CaseOutcome::Passed }
    }
}

/// The size of the records, to return to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mark {
    files: usize,
    suites: usize,
    cases: usize,
    results: usize,
    doubts: usize,
}

/// Limit for distinct reasons; further ones are recorded as the last.
const MAX_DOUBTS: usize = 100;

impl Records {
    pub(super) fn mark(&self) -> Mark {
        Mark {
            files: self.files.len(),
            suites: self.suites.0.len(),
            cases: self.cases.len(),
            results: self.results.len(),
            doubts: self.doubts.len(),
        }
    }

    pub(super) fn truncate(&mut self, mark: Mark) {
        self.files.truncate(mark.files);
        self.suites.0.truncate(mark.suites);
        self.cases.truncate(mark.cases);
        self.results.truncate(mark.results);
        self.doubts.truncate(mark.doubts);
    }

    pub(super) fn add_file(&mut self, path: &Path, bytes: &[u8]) -> u32 {
        let parent = path.parent().unwrap_or(Path::new("")).components();
        let folder = parent.filter(|component| *component != Component::CurDir).collect();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        self.files.push(FileRecord {
            folder,
            content: self.hasher.hash_one(bytes),
            stem: Text::new(stem).unwrap_or_default(),
            root: JunitResult::default(),
        });
        index(self.files.len() - 1)
    }

    pub(super) fn hash(&self, class: &str, name: &str) -> u64 {
        self.hasher.hash_one((class, name))
    }

    /// Identifies a test. Without a class, the suite distinguishes tests of one name.
    pub(super) fn case_key(&self, case: &Case, suite: &str) -> u64 {
        self.hash(if case.class.is_empty() { suite } else { &case.class }, &case.name)
    }

    pub(super) fn add_case(&mut self, case: &Case, suite: SuiteId, key: u64) {
        let (outcome, doubt) = case.outcome();
        let sign = doubt.map_or(Sign::Clear, |doubt| Sign::Doubt(self.doubt(doubt)));
        self.cases.push(CaseRecord {
            key,
            duration: case.duration.unwrap_or(f64::NAN),
            suite,
            outcome,
            failing_elements: case.failing_elements,
            sign,
            flags: Flags::new(case),
        });
    }

    /// The case at a position of `cases`.
    #[expect(clippy::indexing_slicing, reason = "positions are those of the same records")]
    pub(super) fn case(&self, position: usize) -> &CaseRecord {
        &self.cases[position]
    }

    pub(super) fn file(&self, suite: &SuiteRecord) -> Option<&FileRecord> {
        self.files.get(at(suite.file))
    }

    fn doubt(&mut self, doubt: Doubt) -> u8 {
        let known = self.doubts.iter().position(|known| *known == doubt);
        let at = known.unwrap_or_else(|| {
            if self.doubts.len() < MAX_DOUBTS {
                self.doubts.push(doubt);
            }
            self.doubts.len() - 1
        });
        u8::try_from(at).unwrap_or(u8::MAX)
    }

    /// The index of a new result. From the 2,000th on, results are summed into the last one, so that a service can
    /// store and show them.
    pub(super) fn add_result(&mut self, result: JunitResult) -> u32 {
        const MAX_RESULTS: usize = 2_000;

        let is_full = self.results.len() >= MAX_RESULTS;
        match self.results.last_mut() {
            Some(last) if is_full => {
                last.add(&result);
                last.name = Text::new("all other suites").unwrap_or_default();
            }
            _ => self.results.push(result),
        }
        index(self.results.len() - 1)
    }
}

/// A position in 32 bits. No file of results has more elements.
fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

pub(super) fn at(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// Identifies a suite in the records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SuiteId(u32);

/// A value for each suite.
#[derive(Debug, Clone)]
pub(super) struct PerSuite<T>(Vec<T>);

impl<T> Default for PerSuite<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> PerSuite<T> {
    pub(super) fn push(&mut self, value: T) -> SuiteId {
        self.0.push(value);
        SuiteId(index(self.0.len() - 1))
    }

    /// Outer suites before those inside them.
    pub(super) fn ids(&self) -> impl DoubleEndedIterator<Item = SuiteId> + use<T> {
        (0..index(self.0.len())).map(SuiteId)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.iter()
    }

    /// Another value for each suite.
    pub(super) fn each<U: Clone>(&self, value: U) -> PerSuite<U> {
        PerSuite(vec![value; self.0.len()])
    }
}

#[expect(clippy::indexing_slicing, reason = "an identifier is used with the records that it is from")]
impl<T> Index<SuiteId> for PerSuite<T> {
    type Output = T;

    fn index(&self, suite: SuiteId) -> &T {
        &self.0[at(suite.0)]
    }
}

#[expect(clippy::indexing_slicing, reason = "an identifier is used with the records that it is from")]
impl<T> IndexMut<SuiteId> for PerSuite<T> {
    fn index_mut(&mut self, suite: SuiteId) -> &mut T {
        &mut self.0[at(suite.0)]
    }
}

/// For each suite, the innermost one around it, or itself, whose totals decide; the root if none does.
pub(super) fn deciding(
    suites: &PerSuite<SuiteRecord>,
    decides: impl Fn(&SuiteRecord) -> bool,
) -> PerSuite<SuiteId> {
    let mut deciding = PerSuite::default();
    for suite in suites.ids() {
        let outer = suites[suite].parent.filter(|_| !decides(&suites[suite])).map(|outer| deciding[outer]);
        deciding.push(outer.unwrap_or(suite));
    }
    deciding
}
