# cp -a of owners, groups, times and rights, compared with the original.
# quick

prepare() {
    mkdir tree; for k in $(seq 20); do seq "$((k * 55))" >"tree/$k"; done
    chgrp 1234 tree/3; chown 1000:1000 tree/4; chmod 2755 tree; ln -s 1 tree/link
    find tree -exec touch -h -d @1000000000 {} +
}
work() { cp -a tree "own$host"; diff -r tree "own$host"; }
check() { each_host one; }
one() { (cd "own$1"; stat -c '%n %F %s %a %u %g %Y' . *); digest "own$1"; }
