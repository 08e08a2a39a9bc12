#!/bin/sh
# Fuzz the readers of bytes, each for some seconds, two at a time, with stable Rust and nothing installed.
#
#   fuzz/run.sh [SECONDS]          default 30; FUZZ_TARGETS="frame record" for some of them
#
# libFuzzer comes with the crate libfuzzer-sys; the coverage it steers by comes from a pass of LLVM that stable rustc can be told
# to run. Assertions and overflow checks are on, and the targets' allocator ends the run at an allocation larger than the input
# can justify (src/limit.rs). Exits with 1 when a target crashed; its input is then in fuzz/artifacts/.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
seconds=${1:-30}
targets=${FUZZ_TARGETS:-"frame header record batch lenient_json properties sql_filter"}
host=$(rustc -vV | sed -n 's/^host: //p')
target_dir=${CARGO_TARGET_DIR:-$here/target}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"

# --target keeps the flags away from build scripts.
for target in $targets; do set -- "${@:-}" --bin "$target"; done
shift
RUSTFLAGS="--cfg fuzzing $coverage" cargo build --quiet --release --manifest-path "$here/Cargo.toml" \
    --target-dir "$target_dir" --target "$host" "$@"

python3 "$here/seeds.py" "$here/../compat/golden/bytes" "$work/seeds"

start() {
    mkdir -p "$here/corpus/$1" "$here/artifacts/$1"
    # -timeout: an input that takes seconds is as bad as one that crashes. -len_control=0: seeds are long, try long inputs at once.
    # No backtraces: making one allocates more than the limit allows.
    RUST_BACKTRACE=0 "$target_dir/$host/release/$1" -max_total_time="$seconds" -max_len=16384 -len_control=0 -timeout=5 \
        -rss_limit_mb=256 -print_final_stats=1 -artifact_prefix="$here/artifacts/$1/" \
        "$here/corpus/$1" "$work/seeds/$1" >"$work/$1.log" 2>&1 &
    running="$running $1:$!"
}

finish() {
    if wait "${1#*:}"; then result=ok; else result=CRASHED; fi
    echo $result >"$work/${1%:*}.result"
}

running=""
trap 'for job in $running; do kill "${job#*:}" 2>/dev/null || :; done; exit 130' INT TERM
for target in $targets; do
    start "$target"
    # Two at a time: before a third starts, the older of the two must be done.
    set -- $running
    if [ $# -ge 2 ]; then
        finish "$1"
        shift
        running=$*
    fi
done
for job in $running; do finish "$job"; done

printf '\n%-14s %-8s %12s %10s %10s %8s\n' target result runs runs/s edges peak_MB
failed=0
for target in $targets; do
    log=$work/$target.log
    stat() { sed -n "s/^stat::$1: *//p" "$log" | tail -1; }
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -1)
    printf '%-14s %-8s %12s %10s %10s %8s\n' "$target" "$(cat "$work/$target.result")" "$(stat number_of_executed_units)" \
        "$(stat average_exec_per_sec)" "${edges:--}" "$(stat peak_rss_mb)"
    if [ "$(cat "$work/$target.result")" != ok ]; then
        failed=1
        echo "--- last words of $target; the input is in fuzz/artifacts/$target/" >&2
        tail -25 "$log" >&2
    fi
done
exit $failed
