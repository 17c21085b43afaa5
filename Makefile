# Everything is built once, in the release profile: the tests run what users run.

export PATH := $(PATH):$(HOME)/.cargo/bin

TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
HEARTH := $(TARGET)/release/hearth
LAB := $(TARGET)/release/hearth-lab
# The command, and the libraries that it loads into programs.
PROGRAMS := -p hearth -p hearth-preload -p hearth-mpiio
LIBRARIES := libhearth_preload.so libhearth_mpiio.so
PREFIX ?= /usr/local
BOUNDED := --config "target.'cfg(unix)'.runner='setup/bounded.sh'"
BENCHES := matmul small-io remote-hit local-hit

DIST := $(TARGET)/dist

.PHONY: help demo test torture unkillable stores install dist check fix miri bench clean build
.DEFAULT_GOAL := help

help: ## Print this
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16

demo: build ## Install what is missing, build, and run a job over the cache on this machine
	@$(HEARTH) demo

test: ## Install what is missing, build, and run every test; ends with a count
	@setup/packages.sh test
	cargo build --release $(PROGRAMS)
	@HEARTH_BIN=$(HEARTH) setup/summary.sh $(TARGET)/test.log \
		cargo test --release --workspace --no-fail-fast $(BOUNDED) -- --show-output

MINUTES ?= 60
torture: build ## Run programs beside sets of agents under faults for MINUTES=60, and check what they saw
	cargo build --release -p hearth-lab
	$(LAB) torture --hearth $(HEARTH) --minutes $(MINUTES) --json

unkillable: build ## Run programs for MINUTES=60 while agents beside them die, stop, leave and come back
	rig/unkillable.py --minutes $(MINUTES)

install: ## Build, and put the command, its libraries, man pages and completions under PREFIX (/usr/local)
	cargo build --release $(PROGRAMS)
	setup/stripped.sh $(DESTDIR)$(PREFIX)/bin $(HEARTH)
	setup/stripped.sh $(DESTDIR)$(PREFIX)/lib/hearth $(addprefix $(TARGET)/release/,$(LIBRARIES))
	setup/words.sh $(DESTDIR)$(PREFIX)/share $(HEARTH)

dist: build ## Make a .deb, an .rpm, a wheel and a tarball in target/dist; as root, try each on an empty Debian
	@setup/packages.sh dist
	@rm -f $(DIST)/hearth*
	dist/build.sh $(DIST)
	@if [ "$$(id -u)" = 0 ]; then dist/try.sh $(DIST); fi

check: ## Format, lints and tidy checks; changes no source
	@setup/packages.sh build
	cargo fmt --all --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	cargo run --release --locked --quiet -p xtask -- tidy

fix: ## Repair what `make check` can repair by itself
	@setup/packages.sh build
	cargo clippy --release --workspace --all-targets --fix --allow-dirty --allow-staged
	cargo fmt --all

miri: ## Run the index of shared memory in an interpreter that sees undefined behaviour (nightly)
	MIRIFLAGS='-Zmiri-disable-isolation -Zmiri-preemption-rate=0.1' \
		cargo +nightly miri test -p hearth-shm --test plain

bench: build ## Run the main benches over a modelled store; as root, one over GlusterFS too
	cargo build --release -p hearth-lab
	@set -e; for name in $(BENCHES); do \
		echo "== bench $$name"; HEARTH_BIN=$(HEARTH) $(LAB) bench $$name; done
	@if [ "$$(id -u)" = 0 ]; then \
		echo "== bench matmul over GlusterFS"; HEARTH_BIN=$(HEARTH) $(LAB) bench matmul --store gluster; fi

stores: ## As root: run programs over real stores, bare and through Hearth, and measure the stores (an hour)
	@setup/packages.sh stores
	cargo build --release $(PROGRAMS)
	HEARTH=$(HEARTH) rig/measure.py --write docs/stores.md
	HEARTH=$(HEARTH) rig/programs.py --json $(TARGET)/stores.jsonl -- --allow-other

clean: ## Remove what was built
	cargo clean

build:
	@setup/packages.sh demo
	cargo build --release $(PROGRAMS)
