# SPDX-License-Identifier: Apache-2.0
#
# Short names for what CMake does. Needs make and sh; `make demo`, `make deps` and all that begins
# with `make check` install the rest on Debian.

PREFIX ?= /usr/local
DESTDIR ?=

export DESTDIR

.PHONY: all cuda demo check check-sanitized check-long lint format install uninstall clean deps help
.NOTPARALLEL:

all: build/build.ninja
	cmake --build build

# The kernels for real GPUs, where nvcc is.
cuda: build/build.ninja
	cmake --build build --target cuda

# Only the program, and its kernels where a GPU is: the tests are for those who change it.
demo:
	@tools/install-deps build
	@$(MAKE) --no-print-directory build/build.ninja
	cmake --build build --target weir
	@if [ -e /dev/nvidia0 ]; then cmake --build build --target cuda; fi
	tools/demo

check:
	@tools/install-deps build check
	@tools/check

check-sanitized:
	@tools/install-deps build check
	@CHECK_STEPS='asan tsan' tools/check

check-long:
	@tools/install-deps build check
	@tools/check --long

lint:
	@tools/install-deps check
	@tools/lint

format:
	@tools/lint --format

install: build/build.ninja
	cmake -DCMAKE_INSTALL_PREFIX='$(PREFIX)' build >/dev/null
	cmake --build build --target product
	cmake --install build

uninstall:
	@tools/uninstall '$(PREFIX)'

clean:
	rm -rf build

deps:
	@tools/install-deps build check

build/build.ninja:
	@tools/install-deps --check build
	cmake --preset default

help:
	@echo 'make all      build into build/; the program is build/weir'
	@echo 'make cuda     compile the CUDA kernels into build/, where nvcc is'
	@echo 'make demo     install what is missing, build, run the demonstration'
	@echo 'make check    install what is missing, build, run the tests'
	@echo 'make check-sanitized  the tests under sanitizers, and fuzzers'
	@echo 'make check-long  what of that can go on for ever, for hours'
	@echo 'make lint     linters alone'
	@echo 'make format   format the C sources in place'
	@echo 'make install  install to PREFIX (now $(PREFIX)), below DESTDIR'
	@echo 'make uninstall  remove what that installed'
	@echo 'make clean    remove build/'
	@echo 'make deps     install the Debian packages in tools/packages.txt'
