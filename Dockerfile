# Builds Rondo with the scripts of the README and keeps the archive of scripts/package.sh: docs/containers.md.
#
#   docker build --tag rondo .
#   docker build --tag rondo:cuda --build-arg PRESET=cuda --build-arg PACKAGE_FLAGS=--cuda-libraries .

FROM debian:12-slim AS build
ARG PRESET=cpu
WORKDIR /src
# Set-up needs these before it can install the rest.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git python3 python3-pip
COPY . .
RUN if [ "$PRESET" = cuda ]; then scripts/setup.sh --cuda; else scripts/setup.sh; fi
RUN scripts/build.sh "$PRESET" rondo rondo-worker
ARG PACKAGE_FLAGS=
RUN scripts/package.sh $PACKAGE_FLAGS "$PRESET" /package && mkdir /rondo && tar -C /rondo --strip-components=1 -xzf /package/rondo-*.tar.gz

FROM debian:12-slim
COPY --from=build /rondo /opt/rondo
RUN ln -s /opt/rondo/bin/rondo /usr/local/bin/rondo && rondo --version
# NVIDIA's container runtime reads these; without it they have no effect.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /work
ENTRYPOINT ["rondo"]
CMD ["--help"]
