# Archives unpacked and packed by all hosts.
# quick
# needs: tar

prepare() {
    local d f
    mkdir tree
    for d in a b c; do
        mkdir "tree/$d"
        for f in $(seq 15); do seq "$((f * 100))" >"tree/$d/$f"; done
        ln -s "1" "tree/$d/link"; ln "tree/$d/2" "tree/$d/hard"; chmod 640 "tree/$d/3"
    done
    find tree -exec touch -h -d @1000000000 {} +
    pack tree >tree.tar
}
work() { mkdir "own$host"; tar -C "own$host" -xpf tree.tar; pack "own$host/tree" | cmp - tree.tar; }
check() { each_host one; sha256sum <tree.tar; }
one() { pack "own$1/tree" | sha256sum; digest "own$1"; }
pack() { tar -C "$(dirname "$1")" --sort=name --numeric-owner --format=gnu -cf - tree; }
