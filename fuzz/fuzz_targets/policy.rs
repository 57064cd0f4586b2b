#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| (supercargo::fuzzing::target("policy"))(bytes));
