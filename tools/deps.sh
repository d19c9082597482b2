#!/bin/sh
# deps.sh [build] - installs the Debian packages of packages.txt that are missing: as root, or through sudo; otherwise says what to install.
# build: only those that building the command and downloading data need.
set -eu
cd "$(dirname "$0")/.."

# a section of packages.txt is a comment, names, and an empty line
if [ "${1-}" = build ]; then
    wanted=$(sed -n '/^# to build$/,/^$/p; /^# to download/,/^$/p' packages.txt | sed 's/#.*//' | xargs)
else
    wanted=$(sed 's/#.*//' packages.txt | xargs)
fi
if ! command -v dpkg-query > /dev/null; then
    echo "lockstep: this is not a Debian system; install what matches these packages, then build with make:" >&2
    echo "$wanted" >&2
    exit 1
fi
missing=
for package in $wanted; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null && { [ -t 0 ] || sudo -n true 2> /dev/null; }; then
    as_root=sudo
else
    echo "lockstep: packages are missing and only root may install them. Run:" >&2
    echo "    apt-get install --no-install-recommends$missing" >&2
    exit 1
fi
echo "installing:$missing"
run() { $as_root env DEBIAN_FRONTEND=noninteractive "$@"; }
# shellcheck disable=SC2086 # $missing is a list
run apt-get install -y -q --no-install-recommends $missing || {
    run apt-get update -q
    run apt-get install -y -q --no-install-recommends $missing
}
