#!/usr/bin/env bash
# Installs each package of a directory on an empty Debian, and uses it there as a newcomer does:
#
#   dist/try.sh OUT             as root; prints a line for each package
#
# The empty Debian comes from the package archive (mmdebstrap), once, and is kept as OUT/debian.tar. It has what any
# Debian has, and of other things only the tool that installs the package. Each package gets a copy of its own, in
# namespaces of its own. Exit 0: all packages did what they must.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
out=$(cd "${1:?usage: dist/try.sh OUT}" && pwd)
system=$out/debian.tar

say() { printf 'dist: %s\n' "$*" >&2; }

# How a package comes and goes. Words of the rooms' own shells.
declare -A installs=(
    [deb]='apt-get -qq update; apt-get -qq install -y /package/*.deb'
    [rpm]='rpm --install --nodeps --force-debian /package/*.rpm'
    [tar.gz]='runuser -u newcomer -- sh -ec "cd; tar -xzf /package/*.tar.gz; hearth-*/install.sh"'
    [whl]='runuser -u newcomer -- sh -ec "python3 -m venv ~/.local; ~/.local/bin/pip -q install --no-index /package/*.whl"'
)
declare -A removals=(
    [deb]='apt-get -qq purge -y hearth'
    [rpm]='rpm --erase --nodeps --force-debian hearth'
    [tar.gz]='runuser -u newcomer -- sh -ec "~/hearth-*/install.sh --remove; rm -r ~/hearth-*"'
    [whl]='runuser -u newcomer -- sh -ec "~/.local/bin/pip -q uninstall -y hearth-cache"'
)

# What a newcomer does. Without fuse3 a mount must be refused with the package's name; a job needs none.
read -r -d '' newcomer <<'WORDS' || true
cd; PATH=$HOME/.local/bin:$PATH
mkdir store; echo data >store/in
hearth --version
hearth run --store store --report -- sh -c 'cat store/in >store/out; grep -q libhearth_preload /proc/self/maps' 2>report ||
    { cat report; exit 1; }
cmp store/in store/out
# 1: something is missing that a job can do without.
hearth doctor >doctor 2>&1 || [ $? = 1 ] || { cat doctor; exit 1; }
grep "library for programs: /" doctor
# Of a wheel, the module too.
if [ -x ~/.local/bin/python ]; then
    ~/.local/bin/python -c 'import hearth
with hearth.Session("store") as session: assert session.read("in") == b"data\n"'
fi
mkdir mnt
if command -v fusermount3 >/dev/null; then
    hearth up --store store --at mnt
    echo more >mnt/in; cat mnt/in; hearth down
    cmp store/in - <<<more
else
    if hearth up --store store --at mnt 2>said; then exit 1; fi
    grep fuse3 said
fi
WORDS

# in_room DIR SCRIPT: runs a script as root of the system in DIR, with processes of its own.
in_room() {
    unshare --mount --pid --fork --kill-child bash -euc '
        mount --bind "$1" "$1"
        mount -t proc proc "$1/proc"
        mount -t tmpfs tmpfs "$1/dev"
        mkdir "$1/dev/shm"
        chmod 1777 "$1/dev/shm"
        # As udev makes it, everybody may use FUSE.
        for node in "null 1 3" "zero 1 5" "random 1 8" "urandom 1 9" "tty 5 0" "fuse 10 229"; do
            set -- "$1" "$2" $node
            mknod -m 666 "$1/dev/$3" c "$4" "$5"
        done
        ln -s /proc/self/fd "$1/dev/fd"
        mount -t tmpfs tmpfs "$1/tmp"
        ln -sf /proc/mounts "$1/etc/mtab"
        cp -L /etc/resolv.conf "$1/etc/resolv.conf" 2>/dev/null || true
        cd "$1"
        mkdir -p old
        pivot_root . old
        umount -l /old
        exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive \
            bash -euo pipefail -c "$2"
    ' room "$1" "$2" </dev/null
}

try() {
    local package=$1 kind=$2 room=$work/room log=$work/log
    mkdir -p "$room" "$work/upper" "$work/work"
    mount -t overlay overlay -o "lowerdir=$work/system,upperdir=$work/upper,workdir=$work/work" "$room"
    mkdir "$room/package"
    cp "$package" "$room/package"
    printf '%s\n' "$newcomer" >"$room/package/newcomer"
    local status=0
    in_room "$room" "
        useradd --create-home --shell /bin/bash newcomer
        ${installs[$kind]}
        runuser -u newcomer -- bash -eu /package/newcomer
        ${removals[$kind]}
        ! find / -xdev -path /package -prune -o \( -name hearth -o -name 'libhearth*' \) -print | grep .
    " >"$log" 2>&1 || status=$?
    umount "$room"
    rm -rf "$work/upper" "$work/work"
    if [ "$status" != 0 ]; then
        cat "$log" >&2
        say "$(basename "$package"): does not do what it must"
        return 1
    fi
    echo "$(basename "$package"): installed, used, removed"
}

work=$(mktemp -d)
mount -t tmpfs tmpfs "$work"
trap 'umount -l "$work"; rmdir "$work"' EXIT
[ -f "$system" ] || mmdebstrap --quiet --variant=minbase --include=rpm,python3-venv bookworm "$system"
mkdir "$work/system"
tar -xf "$system" -C "$work/system"

failed=0
for package in "$out"/*; do
    case $package in
        *-debug.tar.gz) ;;
        *.deb) try "$package" deb || failed=1 ;;
        *.rpm) try "$package" rpm || failed=1 ;;
        *.tar.gz) try "$package" tar.gz || failed=1 ;;
        *.whl) try "$package" whl || failed=1 ;;
    esac
done
exit "$failed"
