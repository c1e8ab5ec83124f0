# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#
# A wrapper: kmod/ is built by the kernel's kbuild, tools/ by their own
# makefiles, and everything else is a script in selftests/ or bench/.

# A release, or a series (6.1, 6.12): the newest kernel of it with headers; or
# "newest": sid's, of the folder that selftests/deps.sh makes.
KVER ?= $(shell uname -r)
override KVER := $(shell selftests/kernels.sh krel '$(KVER)' 2>/dev/null || echo '$(KVER)')
KDIR ?= /lib/modules/$(KVER)/build
# The folder in which modules for that kernel are built, by chroot, if not here.
KROOT ?= $(shell selftests/kernels.sh kroot '$(KVER)')
in_root = $(if $(KROOT),selftests/roots.sh run $(KROOT))

# One object tree per kernel, so that builds for several do not meet.  It
# holds links to the sources.
BUILD ?= build/$(KVER)

PREFIX ?= /usr
INSTALL_MOD_PATH ?= $(DESTDIR)
export INSTALL_MOD_PATH
RATE ?= 25mbit
KERNELS ?= 6.1 6.12
export RATE KERNELS

all: modules tools

help:
	@echo 'make modules [KVER=...]   the kernel module, for the running kernel, a release or a series'
	@echo 'make tools                the rdma-agg tool'
	@echo 'make install [KVER=...]   both, and depmod'
	@echo 'sudo make demo            two guests, four lanes: installs what is missing, builds, measures'
	@echo 'sudo make check           everything below, on KERNELS="$(KERNELS)"; last line: N passed, M failed'
	@echo 'make unit                 tests of the pure files in user space'
	@echo 'make fuzz                 libFuzzer on them, FUZZ_SECONDS=60 each'
	@echo 'make model                the model of lane failover, searched by Spin'
	@echo 'make static               compiler, sparse, checkpatch, kernel-doc, shellcheck, yamllint'
	@echo 'make selftests [T=...]    tests in guests; T: names or paths, e.g. T="basic pingpong"'
	@echo 'sudo make bench           overhead of agg0, and time of a failover, in instruction time'
	@echo 'make clean'

# What kbuild sees: $(BUILD)/kmod with links to the files of kmod/, and
# $(BUILD)/include.  Links to files that are gone go too.
mirror = mkdir -p $(BUILD)/kmod && \
	cp -rsfT $(CURDIR)/kmod $(BUILD)/kmod && \
	ln -sfn $(CURDIR)/include $(BUILD)/include && \
	find $(BUILD)/kmod -xtype l -delete

modules:
	@mkdir -p $(BUILD)
	@$(in_root) test -e $(KDIR)/Makefile || { echo "no headers of $(KVER): $(KDIR) is missing" >&2; exit 1; }
	@flock $(BUILD)/.lock sh -c '$(mirror)'
	+flock $(BUILD)/.lock $(in_root) $(MAKE) -C $(KDIR) M=$(CURDIR)/$(BUILD)/kmod modules

tools:
	$(MAKE) -C tools/rdma-agg

unit:
	$(MAKE) -C selftests/unit check

fuzz:
	$(MAKE) -C selftests/unit -j2 fuzz

model:
	selftests/check.sh model

static:
	selftests/static.sh

selftests:
	selftests/check.sh guests $(T)

check:
	selftests/deps.sh check
	selftests/check.sh all

demo:
	selftests/deps.sh demo
	selftests/demo.sh

bench:
	selftests/deps.sh demo
	bench/overhead.sh
	bench/failover.sh

install: modules tools
	@test -z '$(KROOT)' || { echo "$(KVER) is not installed on this machine" >&2; exit 1; }
	$(MAKE) -C $(KDIR) M=$(CURDIR)/$(BUILD)/kmod INSTALL_MOD_DIR=updates modules_install
	@# kbuild leaves it out where headers come without System.map, as Debian's do.
	$(if $(INSTALL_MOD_PATH),,depmod $(KVER))
	$(MAKE) -C tools/rdma-agg install PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)
	install -D -m 644 include/uapi/rdma/rdma_agg.h $(DESTDIR)$(PREFIX)/include/rdma/rdma_agg.h

clean:
	rm -rf build
	-$(MAKE) -C tools/rdma-agg clean

.PHONY: all help modules tools unit fuzz model static selftests check demo bench install clean
