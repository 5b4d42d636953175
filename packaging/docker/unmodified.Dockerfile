# A program for the kernel's SCTP in an image of its own: anabranch is one more layer.
#   docker build -t anabranch .
#   docker build -t stp -f packaging/docker/unmodified.Dockerfile packaging/docker
#   docker run -p 9899:9899/udp stp
FROM debian:12-slim
RUN apt-get update && apt-get install -y --no-install-recommends osmo-stp && rm -rf /var/lib/apt/lists/*
COPY --from=anabranch /anabranch /usr/local/bin/anabranch
COPY --from=anabranch /lib/anabranch/libanabranch-preload.so /usr/local/lib/anabranch/
USER 65534:65534
# The engine ends with the program, and passes signals on to it.
ENTRYPOINT ["anabranch", "run", "--"]
CMD ["osmo-stp", "-c", "/etc/osmocom/osmo-stp.cfg"]
