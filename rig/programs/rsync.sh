# A tree copied with rsync -a, twice; the second finds nothing to do.
# needs: rsync

prepare() {
    mkdir tree; mkdir tree/{a,b}
    for k in $(seq 30); do seq "$((k * 77))" >"tree/a/$k"; cp "tree/a/$k" "tree/b/$k"; done
    ln -s a/1 tree/link; chmod 604 tree/a/5; find tree -exec touch -h -d @1000000000 {} +
}
work() {
    rsync -a tree/ "own$host/"
    [[ -z $(rsync -ai --checksum tree/ "own$host/") ]]
    echo changed >>"own$host/a/3"
    [[ $(rsync -ai tree/ "own$host/") == *a/3 ]]
}
check() { each_host one; }
one() { digest "own$1"; rsync -ain --checksum tree/ "own$1/"; }
