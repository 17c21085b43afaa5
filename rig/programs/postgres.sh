# PostgreSQL: initdb, pgbench, a crash, and what is left; a cluster of each host's own.
# needs: pgbench setpriv

bin=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1)
server() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }

work() {
    local sockets
    sockets=$(mktemp -d "/tmp/pg.XXXXXX")
    chown postgres "$sockets"
    mkdir -m 0700 "own$host"; chown postgres: "own$host"
    server "$bin/initdb" -D "$PWD/own$host" -A trust -N >initdb.out"$host" 2>&1 || { tail -n 5 initdb.out"$host" >&2; return 1; }
    started
    pg "$bin/pgbench" -i -s 1 -q postgres >/dev/null 2>&1
    pg "$bin/pgbench" -t 100 -c 2 postgres >/dev/null 2>&1
    server "$bin/pg_ctl" -D "$PWD/own$host" -m immediate stop >/dev/null
    started
    pg "$bin/psql" -Atc 'select count(*) from pgbench_history; select count(*) from pgbench_accounts; select sum(abalance)=(select sum(delta) from pgbench_history) from pgbench_accounts' postgres >"result$host"
    server "$bin/pg_ctl" -D "$PWD/own$host" -m fast stop >/dev/null
    rm -rf -- "$sockets"
}
started() {
    server "$bin/pg_ctl" -D "$PWD/own$host" -w -t 100 -l "$sockets/log" \
        -o "-k $sockets -c listen_addresses= -c shared_buffers=16MB" start >/dev/null || { tail -n 5 "$sockets/log" >&2; return 1; }
}
pg() { server env PGHOST="$sockets" "$@"; }
check() { each_host one; }
one() { cat "result$1"; "$bin/pg_controldata" "own$1" | grep -E 'cluster state'; }
