# The image contains only the program, certificate authorities, a user and the licenses (scripts/rootfs).
#   scripts/build-image docker buildx build --platform linux/amd64,linux/arm64 …
#   scripts/build-image buildah build …

# Dependabot updates the digest. The provenance of a release names it, too.
ARG RUST=docker.io/library/rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1

# Runs on the build machine's architecture and cross-compiles.
FROM --platform=$BUILDPLATFORM $RUST AS build
ARG TARGETARCH
WORKDIR /supercargo
COPY scripts/as-released scripts/
RUN [ "$TARGETARCH" = "$(dpkg --print-architecture)" ] || { \
        apt-get update && \
        apt-get install --yes --no-install-recommends "crossbuild-essential-$TARGETARCH" && \
        rustup target add "$(scripts/as-released printenv CARGO_BUILD_TARGET)"; \
    }

# Builds the dependencies with an empty program, so that the layer is cached.
COPY .cargo .cargo/
COPY Cargo.toml Cargo.lock ./
COPY crates/agent/Cargo.toml crates/agent/
COPY crates/client/Cargo.toml crates/client/
COPY crates/junit/Cargo.toml crates/junit/
COPY crates/model/Cargo.toml crates/model/
COPY crates/rules/Cargo.toml crates/rules/
COPY crates/runtime/Cargo.toml crates/runtime/
COPY crates/sbom/Cargo.toml crates/sbom/
COPY crates/service/Cargo.toml crates/service/
COPY crates/store/Cargo.toml crates/store/
# A member of the workspace, which is not built.
COPY fuzz/Cargo.toml fuzz/
RUN for crate in . crates/* fuzz; do mkdir "$crate/src" && touch "$crate/src/lib.rs"; done && \
    echo 'fn main() {}' >src/main.rs && \
    scripts/as-released cargo build --locked --profile dist

COPY src src/
COPY crates crates/
COPY examples/pods.json examples/
# cargo compares modification times, and the sources may be older than the build above.
RUN touch src/lib.rs src/main.rs crates/*/src/lib.rs && \
    scripts/as-released cargo build --locked --profile dist

COPY LICENSE ./
COPY scripts/rootfs scripts/third-party scripts/
ARG SOURCE_DATE_EPOCH=0
RUN scripts/rootfs "target/$(scripts/as-released printenv CARGO_BUILD_TARGET)/dist/supercargo" /rootfs

FROM scratch
ARG VERSION REVISION CREATED
LABEL org.opencontainers.image.title="supercargo" \
    org.opencontainers.image.description="Reports which image digests run in a Kubernetes cluster to a supply-chain compliance service" \
    org.opencontainers.image.url="https://github.com/supercargo/supercargo" \
    org.opencontainers.image.source="https://github.com/supercargo/supercargo" \
    org.opencontainers.image.documentation="https://github.com/supercargo/supercargo/blob/v$VERSION/README.md" \
    org.opencontainers.image.version="$VERSION" \
    org.opencontainers.image.revision="$REVISION" \
    org.opencontainers.image.created="$CREATED" \
    org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /rootfs /
USER 65532:65532
ENTRYPOINT ["/supercargo"]
