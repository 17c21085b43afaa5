# shellcheck shell=bash
# NFS-Ganesha on the first storage host, and the kernel's NFS 4.2 client on every compute host.
#
# Sourced by rig.sh; uses `dir` and the functions of net.sh.

nfs_build() {
    local home=$dir/storage0
    mkdir -- "$home"/{export,run,recovery}
    cat >"$home/ganesha.conf" <<CONF
NFS_CORE_PARAM {
    Protocols = 4;
    NFS_Port = 2049;
    Enable_NLM = false;
    Enable_RQUOTA = false;
    mount_path_pseudo = true;
}
NFSv4 {
    Grace_Period = 5;
    Lease_Lifetime = 10;
    RecoveryRoot = "$home/recovery";
}
EXPORT {
    Export_Id = 1;
    Path = "$home/export";
    Pseudo = "/store";
    Access_Type = RW;
    Squash = No_Root_Squash;
    SecType = sys;
    FSAL { Name = VFS; }
}
LOG { Default_Log_Level = WARN; }
CONF
    compute_run storage0 ganesha.nfsd -f "$home/ganesha.conf" -L "$home/words" -p "$home/run/pid" </dev/null
    wait_until 30 nfs_listens || fail 'NFS-Ganesha does not listen'
}

nfs_listens() { compute_run storage0 bash -c ': </dev/tcp/127.0.0.1/2049' 2>/dev/null; }

nfs_mount() {
    compute_run "$1" mount -t nfs4 -o vers=4.2,hard "$(addr_of storage0):/store" "$dir/$1/store" \
        >>"$dir/$1/words" 2>&1
}
