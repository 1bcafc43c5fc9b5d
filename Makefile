# run: the gateway.  test: every test; installs what they need if it may.  bench: measures ingest.
# openapi-check: schemathesis (from PyPI) against a running gateway; not part of test.

.PHONY: run test bench openapi-check

run:
	cargo run --release

test:
	@.ci/need cc redis-server chromium chromedriver curl
	cargo test

bench:
	cargo bench --bench ingest

openapi-check:
	scripts/openapi-check
