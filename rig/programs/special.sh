# Symbolic links, fifos and hard links: made, removed, renamed over.
# quick

work() {
    mkdir "own$host" && cd "own$host"
    ln -s x l; rm l; ln -s x l; echo a >f; mv f l; [[ $(<l) == a ]]; rm l
    mkfifo q; rm q; mkfifo q; echo a >f; mv f q; ln q r; rm q r
    [[ -z $(ls -A) ]]
    ln -s target link; echo a >one; ln one two; mkfifo pipe
}
check() { each_host one; }
one() { stat -c '%n %F %h' own"$1"/*; readlink "own$1/link"; cat "own$1/two"; }
