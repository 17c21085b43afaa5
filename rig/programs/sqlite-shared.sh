# SQLite: one base that all hosts write.
# needs: sqlite3

readonly mode=DELETE
# shellcheck source=rig/programs/sqlite.inc
source "$here/sqlite.inc"

work() { filled all.db; }
check() { asked all.db; }
