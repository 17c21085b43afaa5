# A number that all hosts count up, each time in a new file under a lock's name that is renamed over the old one.
# quick
# needs: python3

readonly TIMES=10

prepare() { echo 0 >number; }
work() {
    /usr/bin/python3 - "$TIMES" <<'PY'
import os, sys, time

def locked():
    while True:
        try:
            return os.open("number.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            time.sleep(0.003)

def number():
    # A client of a store may say for a second that the file is stale.
    for _ in range(1000):
        try:
            return int(open("number").read())
        except OSError as error:
            failed = error
            time.sleep(0.01)
    raise failed

for _ in range(int(sys.argv[1])):
    lock = locked()
    os.write(lock, b"%d\n" % (number() + 1))
    os.close(lock)
    os.rename("number.lock", "number")
    time.sleep(0.03)
PY
}
check() { cat number; [[ $(<number) == $((hosts * TIMES)) ]]; }
