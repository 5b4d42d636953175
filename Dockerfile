# The program and nothing else: docker build -t anabranch .
FROM rust:1.95-alpine AS build
RUN apk add --no-cache musl-dev
WORKDIR /src
COPY . .
# The image has the toolchain that the sources ask for.
RUN rm -f rust-toolchain.toml && cargo build --profile dist --locked -p anabranch-cli \
    && mkdir -p /root-of-image/srv && mkdir -m 1777 /root-of-image/tmp \
    && cp target/dist/anabranch /root-of-image/

FROM scratch
COPY --from=build /root-of-image /
# SCTP over UDP needs no privileges.
USER 65534:65534
ENTRYPOINT ["/anabranch"]
CMD ["--help"]
