# loopworker as a container: two stages from one base, so that the environment which the first
# one fills runs unchanged in the second, which holds no compiler, no pip and no package lists.
#
#   docker build --build-arg VERSION=0.1.0 --build-arg REVISION=$(git rev-parse HEAD) -t loopworker .
#   docker run --read-only -v loopworker:/data -p 9464:9464 loopworker
#
# Any base with Debian's packages and Python >= 3.11 will do. Pin yours by digest.
ARG BASE=debian:trixie-slim

FROM ${BASE} AS build
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends ca-certificates python3 python3-venv \
    && apt-get clean && rm -rf /var/lib/apt/lists/*
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /build
# Dependencies first: they change seldom, and the layer is kept until their lock does.
COPY requirements.lock requirements-build.lock ./
RUN python3 -m venv --without-pip /opt/loopworker \
    && python3 -m venv /opt/builder \
    && /opt/builder/bin/pip install --quiet --require-hashes --no-deps -r requirements-build.lock \
    && /opt/builder/bin/pip --python /opt/loopworker/bin/python install --quiet --no-compile \
        --require-hashes --no-deps --only-binary :all: -r requirements.lock
COPY pyproject.toml LICENSE README.md ./
COPY worker/ worker/
# Bytecode is made once, here: the running worker may not write any, and a file's date says
# nothing about a layer, so it is not compared.
RUN /opt/builder/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir wheels . \
    && /opt/builder/bin/pip --python /opt/loopworker/bin/python install --quiet --no-compile \
        --no-deps wheels/*.whl \
    && /opt/loopworker/bin/python -m compileall -q -j 0 --invalidation-mode unchecked-hash \
        /opt/loopworker/lib

FROM ${BASE}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="loopworker" \
      org.opencontainers.image.description="A production worker for LLM tool-calling loops" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# A numeric user, so that Kubernetes can prove runAsNonRoot. It owns /data and nothing else.
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends ca-certificates python3 \
    && apt-get clean && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 loopworker \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data \
        --shell /usr/sbin/nologin loopworker \
    && install -d -o 10001 -g 10001 -m 0750 /data
COPY --from=build /opt/loopworker /opt/loopworker
ENV LOOPWORKER_ADMIN=0.0.0.0:9464 \
    LOOPWORKER_QUEUE_URL=sqlite:////data/loopworker.db \
    PATH=/opt/loopworker/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/app \
    PYTHONUNBUFFERED=1 \
    TMPDIR=/data
WORKDIR /app
# Last, because they are yours: this layer, or a volume over it, is all that a new tool changes.
COPY tools/ tools/
VOLUME ["/data"]
EXPOSE 9464
USER 10001:10001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=15s --retries=3 \
    CMD ["loopworker", "health"]
# Exec form: the worker is the process that gets the signal, with no shell in between.
ENTRYPOINT ["loopworker"]
CMD ["run"]
