#!/bin/sh
# The wheel: made from a build without anything but Python, installed in a folder of its own, and used there without this build.
# Usage: wheel.sh SOURCE_DIR BUILD_DIR PYTHON   (PYTHON has numpy)
set -eu
source=$1 build=$2 python=$3
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
unset LOCKSTEP_LIBRARY LOCKSTEP_COMMAND PYTHONPATH LD_LIBRARY_PATH
export PYTHONDONTWRITEBYTECODE=1 LOCKSTEP_CACHE="$root/cache"

wheel=$("$python" "$source/tools/wheel" "$build" "$root")
case $wheel in
    "$root"/lockstep-0.1.0-py3-none-manylinux_2_[0-9]*_*.whl) ;;
    *) echo "an unusual name: $wheel" >&2; exit 1 ;;
esac
# Its record has the hash of every file, which pip would compare.
"$python" - "$wheel" << 'END'
import base64, hashlib, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
rows = dict(row.rsplit(",", 2)[:2] for row in archive.read("lockstep-0.1.0.dist-info/RECORD").decode().splitlines())
assert sorted(rows) == sorted(archive.namelist()), set(rows) ^ set(archive.namelist())
for name, digest in rows.items():
    found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).rstrip(b"=").decode()
    assert digest == "sha256=" + found or name.endswith("/RECORD"), name
END
if "$python" -m pip --version > /dev/null 2>&1; then
    "$python" -m pip install --quiet --root-user-action=ignore --disable-pip-version-check --no-index --no-deps --target "$root/site" "$wheel"
else # what pip does, but for the script `lockstep`
    "$python" -m zipfile -e "$wheel" "$root/site"
    chmod +x "$root/site/lockstep/native/lockstep"
fi
export PYTHONPATH="$root/site"

# The command and the library load their libraries from the wheel, all but glibc's.
for file in lockstep liblockstep.so.0.1; do
    ldd "$root/site/lockstep/native/$file" > "$root/ldd"
    if grep -vE "$root/site/|linux-vdso|ld-linux|lib(c|m|dl|pthread|rt)[.]so" "$root/ldd" >&2; then echo "$file takes these from the system" >&2; exit 1; fi
    ! readelf -d "$root/site/lockstep/native/$file" | grep 'R.*PATH.*:[]:]' || { echo "$file searches the working folder" >&2; exit 1; }
done
mkdir "$root/user"
cd "$root/user"
cp "$source/tests/build/wheel.py" .
"$python" wheel.py > log 2>&1 || { cat log >&2; exit 1; }
[ "$(tail -n 1 log)" = fine ] || { cat log >&2; exit 1; }
[ "$("$python" -m lockstep --version | head -n 1)" = "$("$build/lockstep" --version | head -n 1)" ]
status=0
"$python" -m lockstep nonsense 2> log || status=$?
[ $status = 2 ] || { echo "the command's exit status is lost: $status" >&2; exit 1; }

# A library of another interface is refused by name; so is a wheel without its library.
sed -i 's/^abi .*/abi 9.8/' "$root/site/lockstep/abi.txt"
if "$python" -c 'import lockstep' 2> log; then exit 1; fi
grep -q 'liblockstep.so.9.8 does not load' log || { cat log >&2; exit 1; }
export LOCKSTEP_LIBRARY="$root/site/lockstep/native/liblockstep.so.0.1"
if "$python" -c 'import lockstep' 2> log; then exit 1; fi
grep -q 'the library is version 0.1.0, and this binding is for 9.8' log || { cat log >&2; exit 1; }
