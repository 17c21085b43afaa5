#!/usr/bin/env bash
# Installs programs and libraries without their symbols:
#
#   setup/stripped.sh DIR FILE...
#
# What says to which lines of the source their code belongs goes to DIR/.debug, where debuggers and backtraces of Rust
# look for it. The build itself leaves it in place: cargo's own `strip` would throw it away.
set -euo pipefail

dir=$1
shift
install -d "$dir/.debug"
for file in "$@"; do
    name=$(basename "$file")
    lines=$dir/.debug/$name.debug
    objcopy --only-keep-debug "$file" "$lines"
    chmod 644 "$lines"
    # A file that is being run is replaced, not written to.
    objcopy --strip-all --add-gnu-debuglink="$lines" "$file" "$dir/.$name.new"
    chmod 755 "$dir/.$name.new"
    mv "$dir/.$name.new" "$dir/$name"
done
