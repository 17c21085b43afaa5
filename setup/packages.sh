#!/usr/bin/env bash
# Makes sure that what a group of make targets needs is on this machine.
#
#   setup/packages.sh build   a compiler, make and cargo
#   setup/packages.sh demo    build, and FUSE
#   setup/packages.sh test    build, and what the tests use where they find it
#   setup/packages.sh dist    build, and what makes packages and tries them
#   setup/packages.sh stores  test, and what `make stores` uses: servers that do not start by themselves
#
# Missing Debian or Ubuntu packages are installed when root or sudo without a password allows;
# otherwise they are named, with what to type. Exit 0: go on. Exit 1: it makes no sense to go on.
# Tests skip what they cannot have, so for `test` only the build's needs are such a reason.
set -euo pipefail

PATH=$PATH:/usr/sbin:/sbin:${CARGO_HOME:-${HOME:-}/.cargo}/bin
root=$(cd "$(dirname "$0")/.." && pwd)

# One row each: package, a command that it brings, what goes without it.
build_table='
gcc              cc              everything
make             make            everything
'
demo_table='
fuse3            fusermount3     the demo
'
test_table='
fuse3            fusermount3     tests over a mounted cache
iproute2         ip              tests over several hosts
glusterfs-server glusterd        tests over a GlusterFS volume
glusterfs-client glusterfs       tests over a GlusterFS volume
openmpi-bin      mpirun.openmpi  programs under Open MPI
libopenmpi-dev   mpicc.openmpi   programs under Open MPI
mpich            mpirun.mpich    programs under MPICH
libmpich-dev     mpicc.mpich     programs under MPICH
gfortran         gfortran        programs in Fortran
pkg-config       pkg-config      programs with parallel HDF5
libhdf5-openmpi-dev h5pcc.openmpi programs with parallel HDF5
libhdf5-mpich-dev h5pcc.mpich    programs with parallel HDF5
hdf5-tools       h5diff          programs with parallel HDF5
fio              fio             fio jobs
memcached        memcached       tests over a bank of memcached
python3-venv     python3         exports in PyDarshan, Drishti, DuckDB and pandas
nodejs           node            exports in the engine of Perfetto
sqlite3          sqlite3         SQLite on a mounted cache
git              git             git on a mounted cache
attr             setfattr        extended attributes
acl              setfacl         access control lists
gcc              gcc             programs in C
g++              g++             programs in C++
binutils         nm              the tables of hooks against what programs import
make             make            builds on a mounted cache
tar              tar             tar on a mounted cache
rsync            rsync           rsync on a mounted cache
procps           ps              tests that look at processes
util-linux       nsenter         tests over several hosts
chromium         chromium        the page of a report in a browser
lttng-tools      lttng           LTTng beside the tracer
liblttng-ust-dev lttng-gen-tp    LTTng beside the tracer
libjemalloc-dev  jeprof          an allocator that programs preload
munge            munged          jobs under Slurm
slurmctld        slurmctld       jobs under Slurm
slurmd           slurmd          jobs under Slurm
slurm-client     sbatch          jobs under Slurm
'
dist_table='
binutils         objcopy         every package
python3-venv     python3         the wheel
rpm              rpmbuild        the .rpm
mmdebstrap       mmdebstrap      an empty Debian, on which packages are tried
'
# The servers of these would start at once, and serve nobody.
stores_table='
moosefs-master   mfsmaster       MooseFS
moosefs-chunkserver mfschunkserver MooseFS
moosefs-client   mfsmount        MooseFS
ceph-mon         ceph-mon        CephFS
ceph-mgr         ceph-mgr        CephFS
ceph-osd         ceph-osd        CephFS
ceph-mds         ceph-mds        CephFS
ceph-common      ceph            CephFS
ceph-fuse        ceph-fuse       CephFS
nfs-ganesha-vfs  ganesha.nfsd    NFS
nfs-common       mount.nfs4      NFS
e2fsprogs        mkfs.ext4       ext4
xfsprogs         mkfs.xfs        XFS
btrfs-progs      mkfs.btrfs      btrfs
rocksdb-tools    ldb             RocksDB
postgresql       pg_ctlcluster   PostgreSQL
hdf5-tools       h5dump          HDF5
'

say() { printf 'setup: %s\n' "$*" >&2; }

has() { command -v "$1" >/dev/null; }

# missing TABLE: the packages whose command is not there.
missing() {
    local package command rest
    while read -r package command rest; do
        [ -z "$package" ] || has "$command" || printf '%s\n' "$package"
    done <<<"$1"
}

# as_root CMD...: fails where that is not to be had without a question.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        env "$@"
    else
        has sudo && sudo -n env "$@"
    fi
}

apt_get() { as_root DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" </dev/null >>"$log" 2>&1; }

# install PACKAGE...: all at once, or else one by one, so that one unknown name costs only itself.
install_packages() {
    has apt-get || return 0
    if ! as_root true 2>/dev/null; then
        return 0
    fi
    say "installing $*"
    log=$(mktemp)
    apt_get update || true
    if ! apt_get install -y --no-install-recommends "$@"; then
        local package
        for package in "$@"; do
            apt_get install -y --no-install-recommends "$package" || say "cannot install $package"
        done
        tail -n 5 "$log" >&2
    fi
    rm -f "$log"
}

# provide TABLE: installs what is missing of it and names what is still missing. Fails if any is.
provide() {
    local packages
    mapfile -t packages < <(missing "$1")
    [ ${#packages[@]} = 0 ] && return 0
    install_packages "${packages[@]}"
    hash -r
    mapfile -t packages < <(missing "$1")
    [ ${#packages[@]} = 0 ] && return 0
    say "missing: ${packages[*]}"
    say "  type: sudo apt-get install ${packages[*]}"
    return 1
}

# is_older A B: version A comes before version B.
is_older() { [ "$1" != "$2" ] && [ "$(printf '%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]; }

cargo_is_ready() {
    local need have
    need=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' "$root/Cargo.toml")
    if ! has cargo; then
        say "missing: cargo $need or newer; install it with rustup"
        return 1
    fi
    have=$(cd "$root" && cargo --version | cut -d ' ' -f 2)
    if is_older "$have" "$need"; then
        say "cargo is $have and must be $need or newer; type: rustup update stable"
        return 1
    fi
}

fuse_is_ready() {
    [ -e /dev/fuse ] || as_root modprobe fuse 2>/dev/null || true
    if [ ! -e /dev/fuse ]; then
        say "missing: /dev/fuse (in a container: start it with that device)"
        return 1
    fi
    if [ ! -r /dev/fuse ] || [ ! -w /dev/fuse ]; then
        say "/dev/fuse is not open to this user; type: sudo chmod 666 /dev/fuse"
        return 1
    fi
}

build_is_ready() {
    provide "$build_table" && cargo_is_ready
}

# without TABLE: what will be skipped for want of packages, each once.
without() {
    local package command what
    while read -r package command what; do
        [ -z "$package" ] || has "$command" || printf '%s\n' "$what"
    done <<<"$1" | sort -u
}

offer_tests() {
    provide "$test_table" || true
    without "$test_table" | while read -r what; do say "will be skipped: $what"; done
    fuse_is_ready || say "will be skipped: tests over a mounted cache"
    [ "$(id -u)" = 0 ] || say "will be skipped: tests over several hosts (they need root)"
}

# Runs a command while packages may not start what they bring.
without_services() {
    local policy=/usr/sbin/policy-rc.d made=no status=0
    if as_root true 2>/dev/null && [ ! -e "$policy" ]; then
        as_root sh -c "printf '#!/bin/sh\nexit 101\n' >$policy && chmod 755 $policy" && made=yes
    fi
    "$@" || status=$?
    [ "$made" = no ] || as_root rm -f "$policy"
    return "$status"
}

offer_stores() {
    without_services provide "$stores_table" || true
    # It brings no command.
    /usr/bin/python3 -c 'import h5py' 2>/dev/null || install_packages python3-h5py
    without "$stores_table" | while read -r what; do say "will be skipped: $what"; done
}

case ${1:-} in
    stores) build_is_ready && offer_tests && offer_stores ;;
    build) build_is_ready ;;
    demo) build_is_ready && provide "$demo_table" && fuse_is_ready ;;
    test) build_is_ready && offer_tests ;;
    dist) build_is_ready && provide "$dist_table" ;;
    *)
        say "usage: setup/packages.sh build|demo|test|dist|stores"
        exit 2
        ;;
esac
