# run: the gateway.  test: every test; installs what they need if it may.  bench: measures ingest.

.PHONY: run test bench

run:
	cargo run --release

test:
	@.ci/need cc redis-server chromium chromedriver curl
	cargo test

bench:
	cargo bench --bench ingest
