# SQLite with journal mode WAL: a base of each host's own.
# needs: sqlite3

readonly mode=WAL
# shellcheck source=rig/programs/sqlite.inc
source "$here/sqlite.inc"

work() { filled "own$host.db"; }
check() { each_host one; }
one() { asked "own$1.db"; }
