set positional-arguments

# List the recipes
default:
    @just --list

# Run the demo: `just demo --keep`
demo *arguments:
    cargo run -- demo "$@"

# Run the tests that need no other software
test *arguments:
    cargo test "$@"

# Run the gate as root, or some of its steps: `just ci format clippy`
ci *steps:
    bash .ci/run "$@"

# Measure the program as released, or one part of it: `just bench --bench scale -- 10000`
bench *arguments:
    scripts/as-released cargo bench --profile dist "$@"

# The skipped tests need other software, too: docs/reference/testing.md.

# Run the tests that need PostgreSQL, or some of them: `just postgres storage::retention`
postgres *filters:
    bash .ci/postgres cargo test --test it -- --ignored --skip real:: --skip environments::mail --skip faults:: \
        --skip postgres::platform --skip other_implementations "$@"
