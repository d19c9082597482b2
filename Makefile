# What people type. The build itself is CMake's: see CMakeLists.txt and CMakePresets.json.
#   make           build/lockstep          make demo     train, evaluate and look, in about a minute
#   make deps      Debian packages         make demo-resnet  the same with ResNet18 on two ranks
#   make test      the suite        make test-all  the same under the sanitizers, too: what CI runs
#   make bench     speed                   make parity   against a live PyTorch
#   make install PREFIX=/usr/local         make format   white space of changed lines
#   make wheel     for pip install         make deb      Debian packages
#   make soak      random kills            make fuzz     readers of files, a minute each
#   make reference the C API as pages      make gpu-carry   .gpu: what tools/gpu_check.sh needs on a machine with a GPU
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
WERROR ?= OFF
TESTS ?= auto
CONFIGURE = -DLS_WERROR=$(WERROR) -DLS_TESTS=$(TESTS) $(if $(shell command -v ccache),-DCMAKE_C_COMPILER_LAUNCHER=ccache)

# Objects name no folder (-ffile-prefix-map), so clones can share what ccache has compiled.
export CCACHE_BASEDIR ?= $(CURDIR)
export CCACHE_NOHASHDIR ?= 1

all: build-release

# make build-NAME: one preset of CMakePresets.json. Always runs: CMake knows what is up to date, and folders of these names exist.
build-%: FORCE
	@cmake --preset $* $(CONFIGURE) > .build-$*.log 2>&1 || { cat .build-$*.log; rm -f .build-$*.log; echo "if a package is missing: make deps" >&2; exit 1; }
	@rm -f .build-$*.log
	@cat $(if $(filter release,$*),build,build-$*)/generated/parts.txt
	@[ -e $(if $(filter release,$*),build,build-$*)/lockstep ] || echo "building with $(JOBS) jobs: about $$((10 / $(JOBS) + 1)) minutes the first time, without the tests; ccache makes the next ones short"
	cmake --build --preset $* --parallel $(JOBS) $(if $(TARGET),--target $(TARGET))

deps:
	@tools/deps.sh

demo:
	@tools/demo.sh

demo-resnet:
	@tools/demo.sh resnet

test:
	@tools/test.sh

# Release last: it runs most, so its summary is the one to read.
test-all:
	@tools/test.sh all

# ONLY="vit qwen": these rows of the table; or gemm, conv, collectives, caches
bench: build-release
	@tools/bench.sh $(ONLY)

parity: build-release
	@tools/parity.sh

format:
	@command -v git-clang-format >/dev/null || { echo "make format needs git-clang-format: apt-get install clang-format" >&2; exit 1; }
	git clang-format --force --extensions c,h || true # 1: it changed something

install:
	@$(MAKE) --no-print-directory build-release TARGET=lockstep_installed # the tests are not built
	cmake --install build --prefix $(PREFIX)

# for `pip install build/wheel/lockstep-*.whl` (docs/python.md)
wheel:
	@command -v python3 >/dev/null || { echo "make wheel needs python3: apt-get install python3" >&2; exit 1; }
	@$(MAKE) --no-print-directory build-release TARGET=lockstep_installed
	@tools/wheel build build/wheel

# build/deb/*.deb: apt-get install ./build/deb/*.deb (docs/start/install.md)
deb:
	@$(MAKE) --no-print-directory build-release TARGET=lockstep_installed
	@tools/deb build build/deb

clean:
	rm -rf build build-ahead build-dev build-asan build-tsan build-portable build-wide build-fuzz build-mutate

# KILLS=100 WRITE=--write: ranks and hosts are killed at random moments; the figures of docs/reliability.md
soak: build-release
	@tools/soak.sh build/lockstep $(or $(KILLS),20) $(SEED) $(WRITE)

# SECONDS=3600: every reader of files that others wrote, for so long each (clang)
fuzz:
	@$(MAKE) --no-print-directory build-fuzz TARGET="$(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))"
	@tools/fuzz.sh build-fuzz $(or $(SECONDS),60)

# the C API as pages: build/reference/html/index.html
reference:
	@command -v doxygen >/dev/null || { echo "make reference needs doxygen: apt-get install doxygen" >&2; exit 1; }
	@mkdir -p build/reference
	OUT=build/reference doxygen tools/doxygen/Doxyfile

# to a machine with a GPU that has neither a network nor these packages: the working tree with .gpu, where tools/gpu_check.sh checks everything
gpu-carry:
	@$(MAKE) --no-print-directory build-release TARGET="lockstep_command gpu_test_ops gpu_compile_all bench_gpu ls_shims"
	@tools/gpu_carry.sh build

help:
	@sed -n '2,9s/^# *//p' Makefile

FORCE:

.PHONY: FORCE all deps demo demo-resnet test test-all bench parity format install wheel deb clean soak fuzz reference gpu-carry help
