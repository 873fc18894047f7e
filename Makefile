# Makefile - a thin front for CMake: every rule here is one call of it.
#
#   make            builds build/qkv and the libraries
#   make demo       the tour: every system, small, in at most three minutes after the build
#   make test       builds and runs every test
#   make arm64      builds for 64-bit Arm and runs every test in an emulator (docs/testing.md)
#   make bench      qkv, what this machine allows, and the peers that are installed, in one table:
#                   ROWS='gpt2*,decode-*' PEERS=none|NAMES ROUNDS=3 QUICK=1 TEXT=FILES PYTHON=…
#   make lint       the rules of this source tree
#   make wheel      a wheel for Python in dist: pip install dist/qkv-*.whl (docs/python.md)
#   make install    PREFIX=/usr/local DESTDIR=
#   make clean
#
# PRESET=debug|asan|ubsan|tsan|f64|arm64 builds another flavour, in build-NAME.

PRESET = release
PREFIX = /usr/local
DESTDIR =
PYTHON = python3
JOBS = $(shell nproc 2>/dev/null || echo 2)
build = $(if $(filter release,$(PRESET)),build,build-$(PRESET))
generator = $(if $(shell command -v ninja),-G Ninja)
compile = MAKEFLAGS=--no-print-directory cmake --build $(build) -j $(JOBS)

.PHONY: all demo test arm64 bench lint wheel install clean

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

# Without Python there is qkv's own table.
bench: all
	@if command -v $(PYTHON) >/dev/null; then \
	    $(PYTHON) bench/compare.py --qkv $(build)/qkv --folder $(build)/peers \
	        --out $(build)/bench.json --rows '$(ROWS)' --peers '$(PEERS)' \
	        $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(QUICK),--quick) $(if $(TEXT),--text $(TEXT)); \
	else $(build)/qkv bench; fi

lint:
	@tools/lint

wheel: all
	@$(PYTHON) python/make_wheel.py --build $(build) --out dist

install: all
	@DESTDIR='$(DESTDIR)' cmake --install $(build) --prefix '$(PREFIX)'

clean:
	@rm -rf dist build build-debug build-asan build-ubsan build-tsan build-f64 build-arm64
