#!/bin/sh
# rustc.sh RUSTC ARGUMENTS..: compiles one of our crates so that libFuzzer sees which code an input reaches. Cargo calls it as
# RUSTC_WORKSPACE_WRAPPER; the crates of others are those that the other tests use.
# Sanitizers would find nothing more in parsers without unsafe code, and take several times as long.
set -eu
exec "$@" -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Cllvm-args=-simplifycfg-branch-fold-threshold=0
