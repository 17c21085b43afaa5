# Names and inode numbers that are used again at once, and syncs of each.
# quick

work() {
    local k
    mkdir "own$host" && cd "own$host"
    for k in $(seq 20); do
        echo "a$k" >t; sync t; rm t; echo "b$k" >u.tmp; sync u.tmp; mv u.tmp u; [[ $(<u) == "b$k" ]]
    done
}
check() { each_host one; }
one() { cat "own$1/u"; ls "own$1"; }
