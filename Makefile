# run: the gateway.  check: the fast loop, formatting, lints, unit tests and the rules about layers.
# test: every test; installs what they need if it may.  bench: sets Tipcast beside
# nchan, NATS, Mosquitto, ws and Socket.IO, and uWebSockets where UWEBSOCKETS=/path/to/its/sources, and writes
# docs/BENCHMARKS.md; ONLY=idle,quiet measures some parts, PEERS=uWebSockets,nchan beside some peers.
# clients-check: builds the clients in clients/ and tests them against a gateway, and runs generated-check; needs npm,
# python3, go, and mvn with a JDK; says what it skipped because one of them or a registry is not there.
# expo-check: the types of the app for React Native in clients/js/apps/expo; brings 200 MB from npm, and is part of nothing.
# generated-check: clients that are made from /openapi.json for five languages, compiled and run.
# release: what is given to others, in dist/: static binaries, Debian packages, the container image's context, the Helm chart, the clients'
# packages, what the binaries are made of, checksums; release-check installs each of them in an empty place and uses it.
# screenshots: the pictures of README and docs, taken of the real pages with chromium.
# words-check: finds words that docs, pages and error texts have no need of; part of .ci/run.
# sbom-check: what the binary is made of, against CycloneDX's schema.
# dockerfile-check: lints the Dockerfile with hadolint.
# helm-check: lints, renders and validates the Helm chart in packaging/helm, where helm is installed.
# openapi: writes docs/openapi.json and docs/events as the code describes the API, docs/protocol.html as docs/PROTOCOL.md reads (both
# are served), docs/CLI.md and docs/CONFIGURATION.md as the program prints them, and the table of rights in docs/AUTH.md.
# openapi-check: schemathesis (from PyPI) against a running gateway; not part of test.

.PHONY: run check test bench openapi openapi-check clients-check generated-check expo-check release release-check sbom-check dockerfile-check helm-check screenshots words-check

run:
	cargo run --release

check:
	cargo fmt --all --check
	cargo clippy --quiet --workspace --lib --bins -- -D warnings
	cargo test --quiet --workspace --lib
	@.ci/layers

test:
	@.ci/need cc redis-server redis-cli nginx chromium chromedriver curl python3
	@.ci/need-python
	@.ci/need-node
	cargo build --package tipcast-bench --package tipcast-rehearse
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-$$((4 * $$(nproc 2>/dev/null || echo 2)))} cargo test --workspace

export UWEBSOCKETS

bench:
	@.ci/need cc python3
	cargo build --release --workspace --bins
	cargo build --release -p tipcast-bench --example peer_load
	python3 benches/peers/run.py --only "$(ONLY)" --peers "$(PEERS)"

openapi:
	TIPCAST_WRITE_OPENAPI=1 cargo test --quiet --lib -- the_file_that_is_served the_files_of_the_events the_page_about_rights
	TIPCAST_WRITE_OPENAPI=1 cargo test --quiet --test it -- reference::

openapi-check:
	scripts/openapi-check

clients-check:
	cargo build --workspace
	scripts/clients-check

expo-check:
	cd clients/js && npm ci --no-audit --no-fund --loglevel=error && npm run --silent build
	cd clients/js/apps/expo && npm install --ignore-scripts --no-audit --no-fund --loglevel=error && npm run --silent check

generated-check:
	cargo build
	scripts/generated-check

release:
	scripts/release

release-check:
	scripts/release-check

sbom-check:
	scripts/sbom-check

dockerfile-check:
	scripts/dockerfile-check

helm-check:
	cargo build
	scripts/helm-check

screenshots:
	cargo build --release
	scripts/screenshots

words-check:
	scripts/words-check
