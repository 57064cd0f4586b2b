//! Runs the fuzz targets on `fuzz/corpus` and on variants that a seed determines.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::{TARGETS, target};

/// Default seed of the variants; `PROPTEST_RNG_SEED` overrides it.
const SEED: u64 = 10;

/// An input; `Debug` formats it as a `printf` command.
#[derive(Clone)]
struct Input(Vec<u8>);

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "printf '{}'", escaped(&self.0))
    }
}

/// Escapes bytes for `printf`.
fn escaped(bytes: &[u8]) -> String {
    let escape = |byte: &u8| match byte {
        b'%' => "%%".to_owned(),
        b'\\' | b'\'' => format!("\\{byte:03o}"),
        b' '..=b'~' => char::from(*byte).to_string(),
        _ => format!("\\{byte:03o}"),
    };
    bytes.iter().map(escape).collect()
}

/// One change of an input.
#[derive(Debug, Clone)]
enum Edit {
    Set(Index, u8),
    Insert(Index, Vec<u8>),
    Remove(Index, usize),
    /// Copies a piece to another position.
    Copy(Index, usize, Index),
    /// Inserts a piece of another input.
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
        1 => (at(), 1..65_usize, at()).prop_map(|(from, length, to)| Edit::Copy(from, length, to)),
        2 => (at(), at(), 1..65_usize, at()).prop_map(|(other, from, length, to)| Edit::Splice(other, from, length, to)),
    ]
}

/// Up to `length` bytes.
fn piece(of: &[u8], from: Index, length: usize) -> Vec<u8> {
    let from = from.index(of.len() + 1);
    of[from..(from + length).min(of.len())].to_vec()
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
        Edit::Copy(from, length, to) => (to, piece(input, *from, *length)),
        Edit::Splice(other, from, length, to) => {
            (to, piece(&corpus[other.index(corpus.len())], *from, *length))
        }
    };
    let to = position(to, input.len());
    input.splice(to..to, inserted);
}

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz")
}

/// Committed inputs of a target, with their file names.
fn corpus(name: &str) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(fuzz().join("corpus").join(name)).unwrap().map(|file| file.unwrap());
    let mut files: Vec<_> =
        files.map(|file| (file.file_name().into_string().unwrap(), fs::read(file.path()).unwrap())).collect();
    files.sort();
    files
}

/// Factor for the number of variants. The nightly job runs ten times as many as `cargo test`.
fn variants_factor() -> u32 {
    match std::env::var("SUPERCARGO_TEST_FUZZ_FACTOR") {
        Ok(factor) => factor.parse().expect("SUPERCARGO_TEST_FUZZ_FACTOR must be an integer"),
        Err(_) => 1,
    }
}

/// Runs a target on its corpus, and on `variants` times the factor.
fn run(name: &str, variants: u32) {
    let target = target(name);
    let corpus = corpus(name);
    for (file, input) in &corpus {
        println!("fuzz/corpus/{name}/{file}");
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
        panic!("{failure}\nadd the input to fuzz/corpus/{name} under a descriptive name");
    }
}

macro_rules! targets {
    ($($name:ident: $variants:literal,)*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), $variants);
        })*

        #[test]
        fn targets_are_run_by_tests_and_by_libfuzzer() {
            let here = BTreeSet::from([$(stringify!($name)),*]);
            assert_eq!(here, TARGETS.map(|(name, _)| name).into());
            let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).unwrap();
            for name in here {
                assert!(manifest.contains(&format!("name = \"{name}\"")), "{name} is not in fuzz/Cargo.toml");
                let source = fs::read_to_string(fuzz().join(format!("fuzz_targets/{name}.rs"))).unwrap();
                assert!(source.contains(&format!("target(\"{name}\")")), "{name}");
            }
        }
    };
}

// Number of variants in `cargo test`, by the runtime of one.
targets! {
    bootstrap: 1_500,
    configuration: 2_000,
    data_json: 4_000,
    image: 2_500,
    junit: 3_000,
    pods: 500,
    policy: 1_000,
    query: 2_000,
    report: 3_000,
    watch: 2_500,
}

#[test]
fn corpora_stay_small() {
    for (name, _) in TARGETS {
        let corpus = corpus(name);
        let bytes: usize = corpus.iter().map(|(_, input)| input.len()).sum();
        assert!(
            (1..=60).contains(&corpus.len()) && bytes <= 100 * 1024,
            "{name}: {} files, {bytes} bytes",
            corpus.len()
        );
    }
}
