#!/usr/bin/env bash
# Makes the Python tools ready that read exported traces, those that `hearth-lab bench programs` runs, and those that the
# Python module is used by; prints the path of their interpreter.
#
#   setup/python.sh DIR       a virtual environment in DIR, made once
#
# Exit 0: ready. Exit 1: cannot be had here; standard error says why.
set -euo pipefail

packages=(
    darshan==3.5.0
    drishti-io==0.8
    duckdb==2.0.0
    fsspec==2026.9.0
    h5py==3.16.0
    pandas==3.1.1
    pyarrow==26.0.1
    viztracer==1.1.1
    zarr==3.1.6
)

say() { printf 'setup: %s\n' "$*" >&2; }

dir=${1:?usage: setup/python.sh DIR}
ready=$dir/ready

# Several tests may ask at once.
mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9

if [ "$(cat "$ready" 2>/dev/null)" != "${packages[*]}" ]; then
    log=$dir/log
    command -v python3 >/dev/null || {
        say "no python3"
        exit 1
    }
    say "making $dir ready (once)"
    if ! { python3 -m venv "$dir" && "$dir/bin/pip" install --quiet --no-input --retries 1 \
        --timeout 10 --disable-pip-version-check "${packages[@]}"; } >"$log" 2>&1; then
        say "cannot install Python packages: $(grep -v '^$' "$log" | tail -n 1)"
        exit 1
    fi
    printf '%s\n' "${packages[*]}" >"$ready"
fi
printf '%s\n' "$dir/bin/python"
