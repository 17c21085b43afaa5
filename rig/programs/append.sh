# Lines that every host appends to a file of its own, and to a common one under flock.
# quick
# needs: flock

work() {
    local k
    for k in $(seq 30); do
        echo "$host $k" >>"own$host"
        flock common.lock bash -c "echo $host $k >>common"
    done
}
check() { sort common | sha256sum; wc -l <common; each_host one; }
one() { wc -l <"own$1"; tail -n 1 "own$1"; }
