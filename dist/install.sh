#!/bin/sh
# Installs Hearth from its unpacked tarball:
#
#   ./install.sh [PREFIX]       default: ~/.local
#   ./install.sh --remove [PREFIX]
set -eu

here=$(cd "$(dirname "$0")" && pwd)
remove=
[ "${1-}" != --remove ] || { remove=yes; shift; }
case ${1-} in -*) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;; esac
prefix=${1:-${HOME:?it says where the home directory is}/.local}

# Man pages and completions, as names below share.
words=$(cd "$here/share" && find man bash-completion zsh fish -type f)

if [ -n "$remove" ]; then
    rm -rf "$prefix/bin/hearth" "$prefix/lib/hearth" "$prefix/share/doc/hearth"
    (cd "$prefix/share" && rm -f $words)
    echo "removed from $prefix"
    exit
fi
mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/share/doc"
# A file that runs is replaced, not written to.
for file in bin/hearth lib/hearth/libhearth_preload.so lib/hearth/libhearth_mpiio.so; do
    mkdir -p "$(dirname "$prefix/$file")"
    cp "$here/$file" "$prefix/$file.new"
    mv -f "$prefix/$file.new" "$prefix/$file"
done
rm -rf "$prefix/share/doc/hearth"
cp -r "$here/share/doc/hearth" "$prefix/share/doc/"
for file in $words; do
    mkdir -p "$(dirname "$prefix/share/$file")"
    cp "$here/share/$file" "$prefix/share/$file"
done
echo "installed $prefix/bin/hearth"
case :${PATH-}: in
    *":$prefix/bin:"*) echo "next: hearth doctor" ;;
    *) echo "next: export PATH=$prefix/bin:\$PATH; hearth doctor" ;;
esac
