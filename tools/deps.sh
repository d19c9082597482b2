#!/bin/sh
# deps.sh [build|test] - installs the Debian packages of packages.txt that are missing: as root, or through sudo; otherwise says what to install.
# build: only those that building the command and downloading data need.
# test: all of them but services, which Debian would start, and the cross compiler. Where they cannot be installed, it fails only if one is missing that
# the suite cannot be built without; tests that need one of the others are skipped. On another system than Debian, CMake finds out what is missing.
# packages.txt has the names of Debian 12; other_names has those of Ubuntu 24.04 that differ.
set -eu
cd "$(dirname "$0")/.."

# a section of packages.txt is a comment, names, and an empty line
section() { sed -n "/^# $1/,/^\$/p" packages.txt | sed 's/#.*//'; }
other_names() { # Ubuntu has Chromium as a snap only, and PMIx under another name
    if is_system ubuntu; then sed 's/ chromium / /; s/libpmix2/libpmix2t64/'; else cat; fi
}
is_system() { [ "$(sed -n 's/^ID=//p' "$release" 2> /dev/null)" = "$1" ]; }
release=${LOCKSTEP_OS_RELEASE:-/etc/os-release}
all=$(sed 's/#.*//' packages.txt | xargs | other_names)
case ${1-} in
    build) needed=$({ section 'to build$'; section 'to download'; } | xargs | other_names) others= ;;
    test) needed=$({ section 'to build$'; section 'to test: the unit tests$'; } | xargs | other_names) others=$(sed '/^# services/,/^$/d; /^# to cross-build/,/^$/d; s/#.*//' packages.txt | xargs | other_names) ;;
    *) needed=$all others= ;;
esac
if ! command -v dpkg-query > /dev/null; then
    [ "${1-}" != test ] || exit 0
    echo "lockstep: this is not a Debian system. Install these packages, then build with make, which names optional parts that are missing:" >&2
    if command -v dnf > /dev/null; then
        echo "    dnf install gcc make cmake ninja-build pkgconf-pkg-config zlib-devel libpng-devel jansson-devel libyaml-devel xxhash-devel pcre2-devel \
        utf8proc-devel libcmocka-devel libcurl-devel hwloc-devel libjpeg-turbo-devel hdf5-devel gcc-gfortran openmpi-devel mpich-devel" >&2
    elif command -v pacman > /dev/null; then
        echo "    pacman -S --needed base-devel cmake ninja zlib libpng jansson libyaml xxhash pcre2 libutf8proc cmocka curl hwloc libjpeg-turbo hdf5 \
        gcc-fortran openmpi" >&2
    else
        echo "    what matches these packages of Debian: ${needed:-$all}" >&2
    fi
    exit 1
fi
missing() { # PACKAGE...: those that are not installed
    for package; do
        [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || printf ' %s' "$package"
    done
}
# shellcheck disable=SC2086 # lists
needed=$(missing $needed) others=$(missing $others)
[ -n "$needed$others" ] || exit 0

if [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo > /dev/null && { { [ -t 0 ] && [ -n "$needed" ]; } || sudo -n true 2> /dev/null; }; then
    as_root=sudo
else
    echo "lockstep: packages are missing and only root may install them. Run:" >&2
    echo "    apt-get install --no-install-recommends${others:-$needed}" >&2
    [ -z "$needed" ] || exit 1
    echo "Without them, tests are skipped." >&2
    exit 0
fi
run() { $as_root env DEBIAN_FRONTEND=noninteractive "$@"; }
install() {
    echo "installing:$*"
    run apt-get install -y -q --no-install-recommends "$@" || {
        run apt-get update -q
        run apt-get install -y -q --no-install-recommends "$@"
    }
}
# shellcheck disable=SC2086 # lists
[ -z "$needed" ] || install $needed
# shellcheck disable=SC2086,SC2046 # lists
others=$(missing $others)
[ -z "$others" ] || install $others || for package in $others; do # one that this release lacks keeps back no other
    install "$package" || echo "lockstep: $package is not installed: tests that need it are skipped" >&2
done
