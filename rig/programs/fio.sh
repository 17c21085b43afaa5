# fio writes at random and verifies what it reads.
# quick
# needs: fio

work() {
    fio --name="own$host" --filename="own$host" --size=8m --bs=4k --rw=randwrite --ioengine=psync --verify=crc32c \
        --do_verify=1 --verify_fatal=1 --randseed="$((host + 7))" --fsync=64 --thread --output="out$host" ||
        { tail -n 3 "out$host" >&2; return 1; }
}
check() { each_host one; }
one() {
    fio --name="own$1" --filename="own$1" --size=8m --bs=4k --rw=randwrite --ioengine=psync --verify=crc32c \
        --verify_only=1 --verify_fatal=1 --randseed="$(($1 + 7))" --thread --output=/dev/null
    stat -c %s "own$1"
}
