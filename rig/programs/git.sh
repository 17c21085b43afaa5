# Clones of one repository, commits from all hosts pushed back, gc, fsck.
# quick
# needs: git

export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=a \
    GIT_COMMITTER_EMAIL=a@example.org GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_SYSTEM=/dev/null \
    GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' \
    GIT_CONFIG_KEY_1=gc.auto GIT_CONFIG_VALUE_1=0

prepare() {
    git init -q --bare -b main base.git
    git clone -q base.git seed 2>/dev/null; cd seed
    git checkout -q -b main 2>/dev/null || true
    for k in $(seq 4); do seq "$((k * 50))" >"f$k"; done
    git add .; git commit -qm seed; git push -q origin main
}
work() {
    local k
    git clone -q base.git "own$host"; cd "own$host"
    for k in 1 2; do
        echo "$k" >"h$host-$k"; git add .; git commit -qm "h$host $k"
        push || { echo "push $k of $host fails" >&2; return 1; }
    done
    git fsck --strict --no-progress; git gc -q; git fsck --strict --no-progress --no-dangling
}
push() {
    local said=../said$host
    for _ in $(seq 40); do
        git push -q origin main 2>"$said" && return 0
        grep -qE 'rejected|failed to push|lock|fetch first|non-fast' "$said" || { cat "$said" >&2; return 1; }
        git pull -q --rebase origin main 2>"$said" || { cat "$said" >&2; return 1; }
    done
    cat "$said" >&2
    return 1
}
check() {
    git -C base.git fsck --strict --no-progress --no-dangling
    git -C base.git ls-tree -r main
    pushed=$(git -C base.git ls-tree --name-only main | grep -c '^h')
    [[ $pushed == $((hosts * 2)) ]] || { echo "$pushed of $((hosts * 2)) commits are there" >&2; return 1; }
    git -C base.git rev-list --count main
    each_host one
}
one() { git -C "own$1" fsck --strict --no-progress --no-dangling; git -C "own$1" rev-parse main:f4; }
