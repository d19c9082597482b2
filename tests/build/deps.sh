#!/bin/sh
# tools/deps.sh with imitated dpkg-query, apt-get, sudo and id: what it installs, through whom, and what it says when it may not.
# Usage: deps.sh SOURCE_DIR
set -eu
source=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir "$root/bin"
for tool in sh sed xargs dirname cat env; do
    ln -s "$(command -v $tool)" "$root/bin/$tool"
done

fake() { # NAME BODY: a command that notes its call
    printf '#!/bin/sh\n%s\n' "$2" > "$root/bin/$1"
    chmod +x "$root/bin/$1"
}
run() { # [build]: runs deps.sh, leaves exit status, output and the calls of apt-get
    : > "$root/calls"
    status=0
    LOCKSTEP_OS_RELEASE=$root/release PATH=$root/bin sh "$source/tools/deps.sh" "$@" > "$root/output" 2>&1 < /dev/null || status=$?
}
printf 'ID=debian\nVERSION_ID="12"\n' > "$root/release"
fails() { echo "deps.sh: $1"; echo "status $status, output:"; cat "$root/output"; echo "calls:"; cat "$root/calls"; exit 1; }
expect_calls() { [ "$(cat "$root/calls")" = "$1" ] || fails "expected the calls: $1"; }

all=$(sed 's/#.*//' "$source/packages.txt" | xargs)
missing_one='case "$*" in *cmocka*) printf not-installed ;; *) printf installed ;; esac'
note="echo \"\$(basename \"\$0\") \$*\" >> $root/calls"
ln -s "$(command -v basename)" "$root/bin/basename"

fake echo 'printf "%s\n" "$*"' # for xargs
fake dpkg-query 'printf installed'
fake apt-get "$note"
fake id 'echo 0'
run
[ $status = 0 ] || fails "all installed: must succeed"
expect_calls ""

fake dpkg-query "$missing_one"
run
[ $status = 0 ] || fails "root must install"
expect_calls "apt-get install -y -q --no-install-recommends libcmocka-dev"

fake dpkg-query 'exit 1'
run
expect_calls "apt-get install -y -q --no-install-recommends $all"

# names that other releases have
printf 'ID=ubuntu\nVERSION_ID="24.04"\n' > "$root/release"
run
for package in libpmix2t64 libjpeg-dev python3; do grep -qw -- "$package" "$root/calls" || fails "Ubuntu has $package"; done
for package in libpmix2 chromium; do ! grep -qw -- "$package" "$root/calls" || fails "Ubuntu has no $package"; done
printf 'ID=debian\nVERSION_ID="12"\n' > "$root/release"

# to build: the compiler and the libraries, not what tests need
run build
[ $status = 0 ] || fails "deps.sh build must install"
for package in build-essential cmake libpng-dev libcurl4-openssl-dev ca-certificates; do grep -qw -- "$package" "$root/calls" || fails "build needs $package"; done
for package in clang chromium libcmocka-dev gfortran openmpi-bin codespell libhwloc-dev; do ! grep -qw -- "$package" "$root/calls" || fails "build does not need $package"; done

fake dpkg-query "$missing_one"
run build
expect_calls ""
fake apt-get "$note; case \$1 in install) [ -e $root/updated ] ;; update) : > $root/updated ;; esac"
run
[ $status = 0 ] || fails "old package lists: must update them and try again"
expect_calls "apt-get install -y -q --no-install-recommends libcmocka-dev
apt-get update -q
apt-get install -y -q --no-install-recommends libcmocka-dev"

fake id 'echo 1000'
fake sudo "$note; [ \"\$1\" = -n ] || exec \"\$@\""
run
[ $status = 0 ] || fails "sudo must do"
expect_calls "sudo -n true
sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends libcmocka-dev
apt-get install -y -q --no-install-recommends libcmocka-dev"

fake sudo "$note; exit 1" # wants a password, and there is nobody to ask
run
[ $status != 0 ] || fails "without rights: must fail"
expect_calls "sudo -n true"
grep -q 'apt-get install --no-install-recommends libcmocka-dev$' "$root/output" || fails "must say what to install"
rm "$root/bin/sudo"
run
[ $status != 0 ] && grep -q 'apt-get install --no-install-recommends libcmocka-dev$' "$root/output" || fails "no sudo at all: the same"


# to test: cmocka must be there; what only some tests need may be missing, and nobody is asked for a password for it
all_but() { fake dpkg-query "case \"\$*\" in *$1*) printf not-installed ;; *) printf installed ;; esac"; }
all_but cmocka
run test
[ $status != 0 ] && grep -q 'apt-get install --no-install-recommends libcmocka-dev$' "$root/output" || fails "test without cmocka and without rights: must fail"
all_but gfortran
run test
[ $status = 0 ] && grep -q 'apt-get install --no-install-recommends gfortran$' "$root/output" && grep -q 'tests are skipped' "$root/output" ||
    fails "test without gfortran and without rights: must say so and go on"
fake dpkg-query 'printf installed'
run test
[ $status = 0 ] && [ ! -s "$root/output" ] || fails "test with all packages and without rights: must be quiet"
fake id 'echo 0'
all_but 'cmocka* | *gfortran'
fake apt-get "$note"
run test
[ $status = 0 ] || fails "test must install"
expect_calls "apt-get install -y -q --no-install-recommends libcmocka-dev
apt-get install -y -q --no-install-recommends libcmocka-dev gfortran"
all_but gfortran
fake apt-get "$note; exit 1"
run test
[ $status = 0 ] && grep -q 'gfortran is not installed: tests that need it are skipped' "$root/output" || fails "test: gfortran cannot be had, the suite can"
all_but 'gfortran* | *doxygen' # one that this release lacks keeps back no other
fake apt-get "case \"\$*\" in *gfortran*) exit 1 ;; install*) $note ;; esac"
run test
[ $status = 0 ] || fails "test: doxygen can be had"
expect_calls "apt-get install -y -q --no-install-recommends doxygen"
all_but munge # brings a service
fake apt-get "$note"
run test
[ $status = 0 ] || fails "test without munge"
expect_calls ""
all_but qemu # is for CI
run test
expect_calls ""
fake apt-get "$note; exit 1"
all_but cmocka
run test
[ $status != 0 ] || fails "test: cmocka cannot be had"
fake id 'echo 1000'

rm "$root/bin/dpkg-query"
run test
[ $status = 0 ] || fails "test, not Debian: CMake finds what is missing"
run
[ $status != 0 ] && grep -q "$all" "$root/output" || fails "not Debian: must list the packages"
fake dnf ''
run
[ $status != 0 ] && grep -q 'dnf install .*jansson-devel' "$root/output" || fails "Fedora: must say what to install"
rm "$root/bin/dnf"
fake pacman ''
run build
[ $status != 0 ] && grep -q 'pacman -S .*libutf8proc' "$root/output" || fails "Arch: must say what to install"
