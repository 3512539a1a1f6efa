# SPDX-License-Identifier: Apache-2.0
# fashim: `make help` lists targets and variables. Each room adds its own rules in ROOM/*.mk.

VERSION := 0.1.0
O       ?= build
PREFIX  ?= /usr/local
DESTDIR ?=
# Where a toolkit is unpacked when the machine has none (tools/setup.sh); sanitised builds share it.
TOOLKIT := $(abspath $(O))/toolkit
CUDA    ?= $(firstword $(wildcard /usr/local/cuda) $(patsubst %/bin/nvcc,%,$(shell command -v nvcc 2>/dev/null)) $(TOOLKIT)/cuda)
NVCC    ?= $(CUDA)/bin/nvcc

ifeq ($(V),1)
  Q :=
  say = @:
else
  Q := @
  say = @printf '  %-8s %s\n' $(1) $(2)
endif

WARNINGS := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wformat=2 \
            -Wpointer-arith -Wwrite-strings -Werror
OPT      ?= $(if $(SAN),-O1,-O2)
CPPFLAGS += -I. -isystem $(CUDA)/include -DFASHIM_VERSION='"$(VERSION)"' -D_GNU_SOURCE
CFLAGS   += -std=gnu11 -g $(OPT) $(WARNINGS) -fno-strict-aliasing
comma    := ,
# What no sanitizer changes, kernels above all, is made once.
PLAIN    := $(O)
ifneq ($(SAN),)
  CFLAGS  += -fsanitize=$(SAN) -fno-omit-frame-pointer -Wno-unknown-warning-option -Wno-maybe-uninitialized -Wno-format-truncation
  LDFLAGS += -fsanitize=$(SAN)
  override O := $(O)/san-$(subst $(comma),-,$(SAN))
endif

# A portable build is linked against the names of an older C library than is here (setup brings zig, which has them).
# LINK: the compiler as linker. What it is made of says nothing of where that was: two builds have the same bits.
GLIBC   ?= 2.28
CFLAGS  += $(if $(PORTABLE),-ffile-prefix-map=$(CURDIR)=.)
LINK     = $(if $(PORTABLE),ZIG_GLOBAL_CACHE_DIR=$(TOOLKIT)/zig-cache $(TOOLKIT)/ziglang/zig cc -target $(shell uname -m)-linux-gnu.$(GLIBC),$(CC))

# All cores where no -j says otherwise. Several goals (make clean all) are made one after the other.
ifeq ($(MAKELEVEL)$(filter -j%,$(MAKEFLAGS))$(word 2,$(MAKECMDGOALS)),0)
  MAKEFLAGS += -j$(shell nproc)
endif

# What building needs is there before anything else is looked at: make brings a file that it includes up to date, and
# then reads all again. For goals that compile nothing it is not asked for.
needs := build$(if $(filter test% lint% %-tests %sanitized races soak faults fuzz%,$(MAKECMDGOALS)),-test)$(if $(PORTABLE),-portable)
ifneq ($(filter-out clean help uninstall format lint-format lint-shell lint-dlsym lint-waits,$(or $(MAKECMDGOALS),all)),)
include $(TOOLKIT)/setup-$(needs).mk
endif
$(TOOLKIT)/setup-%.mk: tools/setup.sh
	@CUDA='$(CUDA)' CC='$(CC)' tools/setup.sh $(TOOLKIT) $*

all: ## the shim and the tool
.DEFAULT_GOAL := all
.PHONY: all demo test test-gpu bench lint format install uninstall clean help setup

include kernels/kernels.mk
include shim/shim.mk
include tools/tools.mk
include tests/simgpu/simgpu.mk
include tests/gpu/gpu.mk
include tests/tests.mk

# Position-independent by default: most C ends in a shared object.
$(O)/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(CFLAGS_$(*F)) -fPIC -MMD -MP -c -o $@ $<

$(O)/%.o: %.S
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) $(CPPFLAGS) -MMD -MP -c -o $@ $<

setup: ; ## install by name what is missing here

clean: ## remove everything built; a toolkit that was fetched stays
	$(Q)[ ! -d $(O) ] || find $(O) -mindepth 1 -maxdepth 1 ! -name toolkit -exec rm -rf {} +

help: ## this text
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n",$$1,$$2}' $(MAKEFILE_LIST)
	@echo; echo "  variables: O=dir V=1 SAN=address,undefined CC=clang ARCHS='80 90a'|native|all CUDA=dir DESTDIR= PREFIX="

-include $(shell find $(O) $(PLAIN)/simgpu -type f -name '*.d' 2>/dev/null)
