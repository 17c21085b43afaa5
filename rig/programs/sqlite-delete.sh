# SQLite with journal mode DELETE: a base of each host's own.
# quick
# needs: sqlite3

readonly mode=DELETE
# shellcheck source=rig/programs/sqlite.inc
source "$here/sqlite.inc"

work() { filled "own$host.db"; }
check() { each_host one; }
one() { asked "own$1.db"; }
