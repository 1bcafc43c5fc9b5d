# syntax=docker/dockerfile:1
# Small (glibc, the binary, nothing else), not root, asks itself whether it lives.
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --bin tipcast && cp target/dist/tipcast /tipcast && mkdir /data

FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /tipcast /usr/local/bin/tipcast
COPY --from=build --chown=nonroot:nonroot /data /data
# Inside a container loopback is nobody's. It refuses to start there without producer keys; see
# docs/DEPLOYING.md.
ENV TIPCAST_HTTP__LISTEN=0.0.0.0:8080 \
    TIPCAST_EMBEDDED__DATA_DIR=/data \
    TIPCAST_LOG__FORMAT=json
VOLUME /data
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["/usr/local/bin/tipcast", "healthcheck"]
ENTRYPOINT ["/usr/local/bin/tipcast"]
