#!/usr/bin/env bash
# Runs tests and ends with one plain line over all of their programs:
#
#   setup/summary.sh LOG COMMAND...
#   ...
#   N passed, N failed, N skipped
#
# A test that lacks something passes for libtest and prints `skipped: <test>: <reason>`; here it
# counts as skipped and never as passed. A program that ends without a result counts as one failure.
# The exit status is the command's own.
set -uo pipefail

log=$1
shift
mkdir -p "$(dirname "$log")"
"$@" 2>&1 | tee "$log"
status=${PIPESTATUS[0]}

awk -v status="$status" -v path="$log" '
    # libtest may have begun the line with `test <name> ... `.
    match($0, /^(test .* \.\.\. )?skipped: /) {
        line = substr($0, RLENGTH + 1)
        name = line
        sub(/: .*/, "", name)
        if (!((program, name) in seen)) {
            seen[program, name] = 1
            skips[skipped++] = line
        }
    }
    /^running [0-9]+ tests?$/ { program++; open_programs++ }
    /^test result: / {
        open_programs--
        for (i = 1; i < NF; i++) {
            if ($(i + 1) == "passed;") passed += $i
            if ($(i + 1) == "failed;") failed += $i
            if ($(i + 1) == "ignored;") ignored += $i
        }
    }
    END {
        print ""
        if (open_programs > 0) {
            printf "test programs that ended without a result: %d, see %s\n", open_programs, path
            failed += open_programs
        }
        if (status != 0 && failed == 0) {
            printf "the tests did not run to their end, see %s\n", path
            failed = 1
        }
        for (i = 0; i < skipped; i++) print "skipped: " skips[i]
        printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped + ignored
    }
' "$log"

exit "$status"
