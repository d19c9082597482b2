#!/bin/sh
# ONE=aarch64 make test: builds the library for 64-bit ARM with Debian's cross compiler and runs tests of the folders base, device and ops under
# qemu. Needs gcc-aarch64-linux-gnu and qemu-user. The libraries for ARM are fetched as Debian packages and unpacked into build-aarch64/sysroot;
# nothing is installed, and dpkg learns of no other architecture.
#   aarch64.sh         all of these tests, which takes long: base and device 3 minutes of one core, ops.split, kernels and gradients more each
#   aarch64.sh brief   those that take seconds: 2.5 minutes of one core, most of it compiling (CI)
set -eu
cd "$(dirname "$0")/.."
jobs=${JOBS:-$(nproc)}
build=$PWD/build-aarch64
for tool in aarch64-linux-gnu-gcc:gcc-aarch64-linux-gnu qemu-aarch64:qemu-user apt-get:apt; do
    command -v "${tool%%:*}" > /dev/null || { echo "skipped: aarch64: ${tool%%:*} is missing (Debian: ${tool#*:})"; exit 77; }
done

sysroot=$build/sysroot
if [ ! -e "$sysroot/complete" ]; then
    apt=$build/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/debs" "$sysroot"
    : > "$apt/status"
    private="-q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Dir::State::lists=$apt/lists -o Dir::State::status=$apt/status -o Dir::Cache=$apt/cache -o APT::Sandbox::User=root -o Debug::NoLocking=1"
    # shellcheck disable=SC2086 # options
    {
        apt-get $private update
        cd "$apt/debs"
        # (a library has another name in each release: those that the -dev packages depend on)
        dev="libcmocka-dev libjansson-dev libyaml-dev zlib1g-dev libpng-dev libpcre2-dev libutf8proc-dev libxxhash-dev"
        libraries=$(apt-cache $private depends --no-recommends --no-suggests $dev | sed -n 's/^ *Depends: //p' | grep -vE '<|-dev|libc6|pcre2-(16|32|posix)' | sort -u)
        apt-get $private download $dev $libraries
    } > "$apt/log" 2>&1 || { tail -n 5 "$apt/log"; echo "skipped: aarch64: the packages for arm64 cannot be fetched"; exit 77; }
    for package in "$apt"/debs/*.deb; do dpkg-deb -x "$package" "$sysroot"; done
    touch "$sysroot/complete"
    cd "$build/.."
fi
export PKG_CONFIG_SYSROOT_DIR="$sysroot" PKG_CONFIG_LIBDIR="$sysroot/usr/lib/aarch64-linux-gnu/pkgconfig"
ccache=$(command -v ccache || true)
cmake --preset aarch64 -DLS_WERROR="${WERROR:-OFF}" ${ccache:+-DCMAKE_C_COMPILER_LAUNCHER=ccache} > "$build/configure.log" 2>&1 || { cat "$build/configure.log"; exit 1; }

# Not under qemu: device.emulated wants the signal that ends a process, base.affinity the machine's topology, and device cuda is x86-64's here.
left='^(device[.]emulated|device[.]cuda_compiler|base[.]affinity|ops[.]rows)$'
tests='^(base|device|ops)[.]'
[ "${1-}" != brief ] || tests='^(base[.]|device[.](device|queue|math_elements)$|ops[.](cases|dropout|rules|random_shapes)$)'
programs=$(ctest --test-dir "$build" -N -R "$tests" -E "$left" | sed -nE 's/^ *Test +#[0-9]+: ([a-z]+)[.](.*)/\1_test_\2/p')
# shellcheck disable=SC2086 # a list
ninja -C "$build" -j "$jobs" $programs
ctest --test-dir "$build" -R "$tests" -E "$left" --no-tests=error --output-on-failure --timeout 3000 --parallel "$jobs"
