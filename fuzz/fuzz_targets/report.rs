#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| supercargo_fuzz::report(bytes));
