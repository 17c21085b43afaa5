# RocksDB: loaded, read back, compacted and checked by every host in a base of its own.
# needs: ldb db_bench

work() {
    db_bench --benchmarks=fillseq,overwrite,readrandom,compact --num=3000 --value_size=100 --threads=1 \
        --compression_type=none --db="own$host" --wal_dir="own$host" --sync=0 >"bench$host.out" 2>&1 || {
        tail -n 3 "bench$host.out" >&2; return 1; }
    for k in $(seq 5); do ldb --db="base$host" --create_if_missing put "k$k" "v$host$k" >/dev/null; done
}
check() { each_host one; }
one() { ldb --db="base$1" --secondary_path="/tmp" scan 2>/dev/null || ldb --db="base$1" scan; ldb --db="own$1" --hex scan 2>/dev/null | wc -l; ldb --db="own$1" checkconsistency; }
