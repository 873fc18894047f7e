# Makefile - a thin front for CMake: every rule here is one call of it.
#
#   make            builds build/qkv and the libraries
#   make demo       the tour: every system, small, in at most three minutes after the build
#   make test       builds and runs every test
#   make arm64      builds for 64-bit Arm and runs every test in an emulator (docs/testing.md)
#   make bench      what this machine allows and what qkv reaches of it
#   make lint       the rules of this source tree
#   make install    PREFIX=/usr/local DESTDIR=
#   make clean
#
# PRESET=debug|asan|ubsan|tsan|f64|arm64 builds another flavour, in build-NAME.

PRESET = release
PREFIX = /usr/local
DESTDIR =
JOBS = $(shell nproc 2>/dev/null || echo 2)
build = $(if $(filter release,$(PRESET)),build,build-$(PRESET))
generator = $(if $(shell command -v ninja),-G Ninja)
compile = MAKEFLAGS=--no-print-directory cmake --build $(build) -j $(JOBS)

.PHONY: all demo test arm64 bench lint install clean

all: $(build)/CMakeCache.txt
	@$(compile) --target programs

$(build)/CMakeCache.txt:
	@cmake --preset $(PRESET) $(generator)

demo: all
	@$(build)/qkv tour --minutes 2.75 --source $(CURDIR) --out runs/tour

# Two tests share the cores: a thread that waits must not spin.
test: $(build)/CMakeCache.txt
	@$(compile)
	@OMP_WAIT_POLICY=passive ctest --test-dir $(build) --output-on-failure --no-tests=error -j 2

arm64:
	@tools/arm64-sysroot build-arm64-sysroot
	@$(MAKE) --no-print-directory test PRESET=arm64

bench: all
	@$(build)/qkv bench

lint:
	@tools/lint

install: all
	@DESTDIR='$(DESTDIR)' cmake --install $(build) --prefix '$(PREFIX)'

clean:
	@rm -rf build build-debug build-asan build-ubsan build-tsan build-f64 build-arm64
