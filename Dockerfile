# The program, the library of 'anabranch run', and the notices of what they contain: docker build -t anabranch .
#
# The base image is named by its tag: its digest is not known where this file is written. To build from exactly one
# image, look it up ('docker buildx imagetools inspect rust:1.95-alpine') and pass it:
#   docker build --build-arg BASE=rust@sha256:... -t anabranch .
# The image is built without the repository. To let 'anabranch --version' and results name the commit:
#   docker build --build-arg ANABRANCH_COMMIT=$(git rev-parse HEAD) -t anabranch .
ARG BASE=rust:1.95-alpine
ARG GLIBC_BASE=rust:1.95-slim-bookworm
FROM ${BASE} AS build
RUN apk add --no-cache musl-dev python3
WORKDIR /src
COPY . .
ARG ANABRANCH_COMMIT=
# The image has the toolchain that the sources ask for.
RUN rm -f rust-toolchain.toml && cargo build --profile dist --locked -p anabranch-cli \
    && mkdir -p /root-of-image/srv /root-of-image/licenses && mkdir -m 1777 /root-of-image/tmp \
    && scripts/third-party --notices /root-of-image/licenses/THIRD-PARTY-NOTICES \
        --sbom /root-of-image/licenses/anabranch.cdx.json \
    && cp LICENSE-MIT LICENSE-APACHE /root-of-image/licenses/ \
    && cp target/dist/anabranch /root-of-image/

# The library that 'anabranch run' loads into programs, which use glibc, 2.34 or later.
FROM ${GLIBC_BASE} AS library
WORKDIR /src
COPY . .
RUN rm -f rust-toolchain.toml \
    && cargo rustc --profile dist --locked -p anabranch-preload --crate-type cdylib \
    && install -D -m 644 target/dist/libanabranch_preload.so \
        /root-of-image/lib/anabranch/libanabranch-preload.so

FROM scratch
COPY --from=library /root-of-image /
COPY --from=build /root-of-image /
# SCTP over UDP needs no privileges.
USER 65534:65534
ENTRYPOINT ["/anabranch"]
CMD ["--help"]
