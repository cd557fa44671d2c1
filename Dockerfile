# For those who build with Docker, Podman or Buildah: the same files as `cargo xtask image` puts into an image.
#
#   docker build --build-arg SOURCE_DATE_EPOCH="$(git log -1 --format=%ct)" \
#     --build-arg TAMIS_REVISION="$(git rev-parse HEAD)" --tag tamis:0.1.0 .
#
# docs/image.md says what is in it.
ARG RUST=1.95
FROM rust:${RUST}-bookworm AS builder
WORKDIR /src
COPY . .
# The history of the repository is not copied: the commit and its time come from outside.
ARG SOURCE_DATE_EPOCH=0
ARG TAMIS_REVISION=
RUN cargo xtask image --output /image --root /image/root

FROM scratch
ARG TAMIS_REVISION=
COPY --from=builder /image/root /
ENV PATH=/usr/bin
USER 65532:65532
EXPOSE 8080 9090
ENTRYPOINT ["/usr/bin/tamis"]
CMD ["--help"]
LABEL org.opencontainers.image.title="tamis" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.revision="${TAMIS_REVISION}" \
      org.opencontainers.image.licenses="Apache-2.0"
