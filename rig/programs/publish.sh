# One host renames new versions over a name that all others read: whole versions, none after a newer one.
# quick

prepare() { publish 0; }
work() {
    local k
    if ((host == 0)); then
        for k in $(seq 40); do publish "$k"; done
    else
        /usr/bin/python3 - "$PWD/version" <<'PY'
import sys, time
last, end = -1, time.monotonic() + 3
while time.monotonic() < end:
    with open(sys.argv[1]) as file:
        words = file.read().split()
    assert len(words) == 500 and len(set(words)) == 1, f"{len(words)} words, {sorted(set(words))}"
    assert int(words[0]) >= last, f"{words[0]} after {last}"
    last = int(words[0])
PY
    fi
}
publish() { for _ in $(seq 500); do echo "$1"; done >"new.$1"; mv "new.$1" version; }
check() { sort -u version; }
