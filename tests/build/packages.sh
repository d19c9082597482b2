#!/bin/sh
# The Debian packages: made from a build, installed into a root of their own, and used there. Where lintian is installed it has no complaint.
# And the container file: what it copies and calls is there. Usage: packages.sh SOURCE_DIR BUILD_DIR CC [PYTHON]   (PYTHON has numpy)
set -eu
source=$1 build=$2 cc=$3 python=${4:-}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset LOCKSTEP_LIBRARY LOCKSTEP_COMMAND PYTHONPATH LD_LIBRARY_PATH DESTDIR
export DPKG_DEB_COMPRESSOR_TYPE=gzip DPKG_DEB_COMPRESSOR_LEVEL=1 # (xz takes half a minute)
"$source/tools/deb" "$build" "$root/deb" > "$root/made"
if command -v lintian > /dev/null; then
    lintian --fail-on error,warning $(cat "$root/made") > "$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }
fi

# Installed by dpkg, which root may do; else unpacked. No two packages have the same file, and all files of `make install` are there.
mkdir -p "$root/sys/var/lib/dpkg/info" "$root/sys/var/lib/dpkg/updates" "$root/sys/var/lib/dpkg/triggers"
: > "$root/sys/var/lib/dpkg/status"
if [ "$(id -u)" = 0 ]; then
    PATH=$PATH:/usr/sbin:/sbin dpkg --root="$root/sys" --force-depends -i $(cat "$root/made") > "$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }
else
    while read -r package; do dpkg-deb -x "$package" "$root/sys"; done < "$root/made"
fi
twice=$(while read -r package; do dpkg-deb -c "$package" | awk '!/^d/ { print $6 }'; done < "$root/made" | sort | uniq -d)
[ -z "$twice" ] || { echo "in two packages: $twice" >&2; exit 1; }
usr=$root/sys/usr
for file in bin/lockstep lib/liblockstep.so.0.1 lib/liblockstep.so lib/liblockstep.a include/lockstep/lockstep.h lib/*/pkgconfig/lockstep.pc \
    lib/cmake/lockstep/lockstepConfig.cmake share/man/man1/lockstep-train.1.gz share/bash-completion/completions/lockstep \
    share/zsh/vendor-completions/_lockstep share/fish/vendor_completions.d/lockstep.fish share/doc/lockstep/docs/library.md \
    share/doc/lockstep/copyright share/doc/liblockstep0.1/copyright lib/python3/dist-packages/lockstep/__init__.py; do
    ls "$usr"/$file > /dev/null || { echo "no package has $file" >&2; exit 1; }
done
for part in mpi mpich; do
    [ ! -e "$build/lockstep-$part.so" ] || [ -e "$usr/lib/lockstep-$part.so" ] || { echo "no package has lockstep-$part.so" >&2; exit 1; }
done
pc=$(ls "$usr"/lib/*/pkgconfig/lockstep.pc)
grep -qx 'prefix=/usr' "$pc" && ! grep -q rpath "$pc" || { cat "$pc" >&2; exit 1; }
if readelf -d "$usr/bin/lockstep" "$usr/lib/liblockstep.so" | grep -E 'RPATH|RUNPATH'; then exit 1; fi

# Every library that is loaded comes from a package that is named.
for package in lockstep liblockstep0.1; do
    depends=$(dpkg-deb -f "$root/deb/${package}"_*.deb Depends)
    for needed in libc6 libjansson4 libpng16-16 libpcre2-8-0 libyaml-0-2; do
        case $depends in *"$needed"*) ;; *) echo "$package does not depend on $needed: $depends" >&2; exit 1 ;; esac
    done
done

cd "$root"
"$usr/bin/lockstep" --version | grep -q '0\.1\.0'
"$usr/bin/lockstep" plan mlp-mnist > /dev/null
"$cc" "$usr/share/doc/lockstep/examples/regression.c" -I"$usr/include" -L"$usr/lib" -llockstep -o in_c
LD_LIBRARY_PATH=$usr/lib ./in_c > c.txt
grep -q '^epoch 40' c.txt
if [ -n "$python" ]; then
    LD_LIBRARY_PATH=$usr/lib PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$usr/lib/python3/dist-packages "$python" "$usr/share/doc/lockstep/examples/regression.py" > python.txt
    diff c.txt python.txt
fi

# The container file: its commands are those of the shell, and its packages have names that the lists of this tree or of tools/deb have.
awk '/^RUN/ { on = 1 } on { line = $0; sub(/^RUN /, "", line); text = text line "\n"; if (line !~ /\\$/) on = 0 } END { printf "%s", text }' "$source/Dockerfile" > run.sh
sh -n run.sh
grep -o '/packages/[a-z-]*_' "$source/Dockerfile" | sort -u | while read -r name; do
    ls "$root/deb/${name#/packages/}"*.deb > /dev/null || { echo "the container file installs $name, which is not made" >&2; exit 1; }
done
grep -o 'lib[a-z0-9-]*-dev' "$source/Dockerfile" | sort -u | while read -r name; do
    grep -qx "$name" "$source/packages.txt" || { echo "the container file installs $name, which packages.txt does not have" >&2; exit 1; }
done
[ -n "$python" ] || { echo "skipped: packages.sh: no Python with numpy here (Debian: python3-numpy)"; exit 77; }
