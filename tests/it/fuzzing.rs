//! Runs the fuzz targets on committed inputs and on variants that a seed determines.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use walkdir::{DirEntry, WalkDir};

/// Default seed of the variants; `PROPTEST_RNG_SEED` overrides it.
const SEED: u64 = 10;

/// An input; `Debug` formats it as a byte string, for a test.
#[derive(Clone)]
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.0.escape_ascii())
    }
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// Inserts a piece of a committed input.
    Splice(Index, Index, usize, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let at = any::<Index>;
    // Bytes with a meaning in most formats, and arbitrary ones.
    let byte =
        || prop_oneof![proptest::sample::select(&b"\0\n\"'\\&<>/:@-.,{}[]09a\x7f\xff"[..]), any::<u8>()];
    prop_oneof![
        3 => (at(), byte()).prop_map(|(place, byte)| Edit::Set(place, byte)),
        2 => (at(), vec(byte(), 1..9)).prop_map(|(place, bytes)| Edit::Insert(place, bytes)),
        2 => (at(), 1..65_usize).prop_map(|(place, length)| Edit::Remove(place, length)),
        3 => (at(), at(), 1..65_usize, at()).prop_map(|(other, from, length, to)| Edit::Splice(other, from, length, to)),
    ]
}

fn apply(input: &mut Vec<u8>, edit: &Edit, corpus: &[Vec<u8>]) {
    // The end is a valid position.
    let position = |place: &Index, length: usize| place.index(length + 1);
    let (to, inserted) = match edit {
        Edit::Set(place, byte) => {
            let place = position(place, input.len());
            if let Some(set) = input.get_mut(place) {
                *set = *byte;
            }
            return;
        }
        Edit::Remove(place, length) => {
            let from = position(place, input.len());
            input.drain(from..(from + length).min(input.len()));
            return;
        }
        Edit::Insert(to, bytes) => (to, bytes.clone()),
        Edit::Splice(other, from, length, to) => {
            let other = other.get(corpus);
            let from = from.index(other.len() + 1);
            (to, other[from..(from + length).min(other.len())].to_vec())
        }
    };
    let to = position(to, input.len());
    input.splice(to..to, inserted);
}

/// Committed inputs of a target, with their paths: its corpus, and its folder of fixtures, if it has one.
fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["fuzz/corpus", "tests/fixtures"].map(|folder| root.join(folder).join(name));
    let files = folders.into_iter().flat_map(|folder| WalkDir::new(folder).sort_by_file_name());
    let files = files.filter_map(Result::ok).filter(|file| file.file_type().is_file());
    files.map(DirEntry::into_path).map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

/// Factor for the number of variants. The nightly job runs ten times as many as `cargo test`.
fn variants_factor() -> u32 {
    match std::env::var("SUPERCARGO_TEST_FUZZ_FACTOR") {
        Ok(factor) => factor.parse().expect("SUPERCARGO_TEST_FUZZ_FACTOR must be an integer"),
        Err(_) => 1,
    }
}

/// Runs a target on its corpus, and on `variants` times the factor.
#[expect(clippy::print_stdout, reason = "shown if the test fails")]
fn run(name: &str, target: fn(&[u8]), variants: u32) {
    let corpus = corpus(name);
    assert!(!corpus.is_empty());
    for (path, input) in &corpus {
        println!("{}", path.display());
        target(input);
    }
    let corpus: Vec<_> = corpus.into_iter().map(|(_, input)| input).collect();
    let config =
        Config { cases: variants * variants_factor(), failure_persistence: None, ..Config::default() };
    let rng_seed = match config.rng_seed {
        RngSeed::Random => RngSeed::Fixed(SEED),
        given @ RngSeed::Fixed(_) => given,
    };
    println!("variants of seed {rng_seed:?}");
    let mut runner = TestRunner::new(Config { rng_seed, ..config });
    let of = corpus.clone();
    let variant = (any::<Index>(), vec(edit(), 1..6)).prop_map(move |(one, edits)| {
        let mut input = one.get(&of).clone();
        for edit in &edits {
            apply(&mut input, edit, &of);
        }
        Input(input)
    });
    let outcome = runner.run(&variant, |Input(input)| {
        target(&input);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

macro_rules! targets {
    ($($name:ident: $variants:literal,)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), supercargo_fuzz::$name, $variants);
        })*
    };
}

// Number of variants in `cargo test`, by the runtime of one.
targets! {
    image: 2_500,
    junit: 3_000,
    policy: 1_000,
    report: 3_000,
    watch: 2_500,
}
