#!/usr/bin/env bash
# Makes packages of the release build that is in the target directory:
#
#   dist/build.sh OUT [KIND]...     KIND: tarball, deb, rpm, wheel; all of them if none is named
#
# Prints the path of each package. What a kind needs is in setup/packages.sh; pip brings the rest of a wheel.
# Files carry the time of the last commit, so that two builds of one commit differ in nothing but what rustc differs in.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
target=${CARGO_TARGET_DIR:-$root/target}
out=$(mkdir -p "${1:?usage: dist/build.sh OUT [KIND]...}" && cd "$1" && pwd)
shift
kinds=${*:-tarball deb rpm wheel}
# The command and both libraries, as `make install` takes them.
programs=("$target/release/hearth")
libraries=("$target/release/libhearth_preload.so" "$target/release/libhearth_mpiio.so")

say() { printf 'dist: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

for file in "${programs[@]}" "${libraries[@]}"; do
    [ -f "$file" ] || fail "no $file: run \`make dist\`"
done
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
machine=$(uname -m)
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct 2>/dev/null || stat -c %Y "$root/Cargo.toml")
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The newest version of the C library that a symbol asks for.
glibc() {
    objdump -T "${programs[@]}" "${libraries[@]}" | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1 | cut -d_ -f2
}

# Without their symbols; the lines of the source for debuggers are beside them in .debug.
"$root/setup/stripped.sh" "$work/built/bin" "${programs[@]}"
"$root/setup/stripped.sh" "$work/built/lib/hearth" "${libraries[@]}"

# stage PREFIX: the files of a package below $work/stage.
stage() {
    local tree=$work/stage$1
    rm -rf "$work/stage"
    install -d "$tree/bin" "$tree/lib/hearth" "$tree/share/doc/hearth"
    install -m 755 "$work"/built/bin/* "$tree/bin"
    install -m 755 "$work"/built/lib/hearth/* "$tree/lib/hearth"
    install -m 644 "$root"/{README.md,CHANGELOG.md,LICENSE-APACHE,LICENSE-MIT,dist/grafana.json} "$tree/share/doc/hearth"
    cp -r --no-preserve=mode "$root/docs" "$tree/share/doc/hearth/docs"
    "$root/setup/words.sh" "$tree/share" "${programs[0]}"
    find "$work/stage" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
}

# filled FILE: the text of a template.
filled() {
    local debian
    debian=$(dpkg --print-architecture 2>/dev/null || true)
    sed -e "s/@VERSION@/$version/g" -e "s|@ROOT@|$root|g" -e "s/@GLIBC@/$(glibc)/g" -e "s/@DEBIAN@/$debian/g" "$here/$1"
}

packed() {
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$1" -czf "$2" "${@:3}"
}

tarball() {
    local name=hearth-$version-$machine-linux
    stage "/$name"
    install -m 755 "$here/install.sh" "$work/stage/$name/install.sh"
    packed "$work/stage" "$out/$name.tar.gz" "$name"
    echo "$out/$name.tar.gz"
    # Debuggers look for these beside the files; unpacked over an installed tree they are there.
    packed "$work/built" "$out/$name-debug.tar.gz" bin/.debug lib/hearth/.debug
    echo "$out/$name-debug.tar.gz"
}

deb() {
    stage /usr
    mkdir "$work/stage/DEBIAN"
    filled control >"$work/stage/DEBIAN/control"
    mv "$work/stage/usr/share/doc/hearth/LICENSE-MIT" "$work/stage/usr/share/doc/hearth/copyright"
    cat "$work/stage/usr/share/doc/hearth/LICENSE-APACHE" >>"$work/stage/usr/share/doc/hearth/copyright"
    rm "$work/stage/usr/share/doc/hearth/LICENSE-APACHE"
    local file=$out/hearth_${version}_$(dpkg --print-architecture).deb
    dpkg-deb --root-owner-group --build "$work/stage" "$file" >/dev/null
    echo "$file"
}

rpm() {
    stage /usr
    filled hearth.spec >"$work/hearth.spec"
    rpmbuild --quiet -bb --define "_topdir $work/rpm" --define "stage $work/stage" "$work/hearth.spec" >"$work/log" 2>&1 ||
        fail "rpmbuild: $(tail -n 3 "$work/log")"
    local file=$out/hearth-$version-1.$machine.rpm
    mv "$work/rpm/RPMS/$machine/"*.rpm "$file"
    echo "$file"
}

# The module is built here: maturin, which pip brings, says how Python wants it.
wheel() {
    stage /wheel
    local tree=$work/stage/wheel
    mkdir -p "$tree/data/data"
    mv "$tree/bin" "$tree/data/scripts"
    mv "$tree/lib" "$tree/data/data/lib"
    install -D -m 644 -t "$tree/python/hearth" "$root"/crates/hearth-python/python/hearth/*.py
    cp "$root"/{README.md,LICENSE-APACHE,LICENSE-MIT} "$tree"
    filled wheel/pyproject.toml >"$tree/pyproject.toml"
    python3 -m venv "$work/venv"
    CARGO_TARGET_DIR=$target MATURIN_PEP517_ARGS="--compatibility manylinux_$(glibc | tr . _)" \
        "$work/venv/bin/pip" wheel --quiet --no-input --no-deps --disable-pip-version-check \
        --wheel-dir "$work/wheels" "$tree" >"$work/log" 2>&1 || fail "pip wheel: $(tail -n 3 "$work/log")"
    local file=$out/$(basename "$work"/wheels/*.whl)
    mv "$work"/wheels/*.whl "$file"
    echo "$file"
}

for kind in $kinds; do
    case $kind in
        tarball | deb | rpm | wheel) "$kind" ;;
        *) fail "no kind of package is called $kind: tarball, deb, rpm or wheel" ;;
    esac
done
