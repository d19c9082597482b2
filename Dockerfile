# A container with the command: docker build -t lockstep . && docker run -v "$PWD:/work" lockstep train my.yaml
# The first stage builds the Debian packages, the second has them and what they need.
FROM debian:bookworm AS build
COPY . /src
WORKDIR /src
RUN apt-get update \
    && tools/deps.sh build \
    && apt-get install -y -q --no-install-recommends libjpeg-dev libhdf5-dev libhwloc-dev openmpi-bin libopenmpi-dev \
    && make deb TESTS=OFF

FROM debian:bookworm-slim
COPY --from=build /src/build/deb /packages
RUN apt-get update \
    && apt-get install -y -q --no-install-recommends /packages/lockstep_*.deb /packages/lockstep-mpi_*.deb \
        ca-certificates libcurl4 libhdf5-103-1 libhwloc15 libopenmpi3 openmpi-bin \
    && rm -rf /var/lib/apt/lists/* /packages
WORKDIR /work
ENTRYPOINT ["lockstep"]
