#!/usr/bin/env bash
# Runs one test program and ends it when it takes longer than any does:
#
#   setup/bounded.sh PROGRAM ARGUMENT...
#
# TEST_SECONDS_MAX is the limit, 1200 s if it is not said. The exit status is the program's own, 137
# if it was ended. A process that waits for a mount which it serves itself does not even die of
# SIGKILL before that mount is cut off; as root, mounts of FUSE that came since the start are.
set -uo pipefail
set -m

limit=${TEST_SECONDS_MAX:-1200}
connections=/sys/fs/fuse/connections

list_connections() { ls "$connections" 2>/dev/null | sort; }

cut_off_new_mounts() {
    [ "$(id -u)" = 0 ] || return 0
    mountpoint -q "$connections" || mount -t fusectl none "$connections" || return 0
    local connection
    for connection in $(comm -13 <(printf '%s\n' "$before") <(list_connections)); do
        echo 1 >"$connections/$connection/abort"
    done
}

end_overdue() {
    printf '%s: ended after %d s, which no test takes\n' "$name" "$limit" >&2
    kill -KILL -- "-$program"
    cut_off_new_mounts
}

[ "$(id -u)" != 0 ] || mountpoint -q "$connections" || mount -t fusectl none "$connections" 2>/dev/null
before=$(list_connections)
name=$(basename "$1")
# A script that starts this in its background has made it deaf to interrupts, and `nohup` to hangups. Programs
# to which tests send those signals would be deaf, too.
env --default-signal=HUP,INT,QUIT "$@" &
program=$!
trap 'kill -TERM -- "-$program"; exit 130' INT TERM

(
    trap 'kill "$nap" 2>/dev/null; exit 0' TERM
    sleep "$limit" &
    nap=$!
    wait "$nap" && end_overdue
) &
watch=$!

wait "$program"
status=$?
kill -TERM "$watch" 2>/dev/null
exit "$status"
