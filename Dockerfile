# The images of Millgate: `--target worker` (also the base for an application's image) and `--target operator`.
#
#   docker build --target worker -t millgate-worker .
#   docker build --target operator -t millgate-operator .
#
# A private package index is handed in, never written down: add `--secret id=pip,src=$HOME/.config/pip/pip.conf`,
# and `--secret id=ca,src=ca.pem` where its certificate needs an authority of your own.
ARG BASE_IMAGE=python:3.13-slim


FROM ${BASE_IMAGE} AS tools
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
RUN { echo 'if [ -s /run/secrets/pip ]; then export PIP_CONFIG_FILE=/run/secrets/pip; fi'; \
      echo 'if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi'; } >/opt/lent
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca \
    . /opt/lent && python3 -m venv /opt/tools \
 && /opt/tools/bin/pip install --quiet hatchling
# libpq and others want a name for their user; the image's last stage runs nothing, so its files are made here
RUN mkdir -p /made/etc /made/app \
 && { grep -v '^millgate:' /etc/passwd; echo 'millgate:x:10001:10001:Millgate:/tmp:/usr/sbin/nologin'; } >/made/etc/passwd \
 && { grep -v '^millgate:' /etc/group; echo 'millgate:x:10001:'; } >/made/etc/group
COPY constraints.txt ./


# Dependencies first, with empty packages in place of ours: a change of our sources fetches nothing again.
FROM tools AS worker-needs
COPY worker/pyproject.toml worker/README.md worker/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca \
    . /opt/lent && mkdir -p worker/src/millgate && touch worker/src/millgate/__init__.py \
 && python3 -m venv /opt/millgate \
 && /opt/millgate/bin/pip install --quiet --no-compile -c constraints.txt './worker[all]'


FROM worker-needs AS operator-needs
COPY operator/pyproject.toml operator/README.md operator/
RUN --mount=type=secret,id=pip --mount=type=secret,id=ca \
    . /opt/lent && mkdir -p operator/src/millgate_operator && touch operator/src/millgate_operator/__init__.py \
 && /opt/millgate/bin/pip install --quiet --no-compile -c constraints.txt ./operator


# Compiled files that no one compares with their sources: the file system of a pod is read-only, and starts are quick.
FROM worker-needs AS build-worker
COPY worker worker
RUN /opt/tools/bin/pip wheel --quiet --no-deps --no-build-isolation --no-index -w /wheels ./worker \
 && /opt/millgate/bin/pip install --quiet --no-compile --no-deps --no-index --force-reinstall /wheels/*.whl \
 && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/millgate/lib


# The Kubernetes client has all its models a second time for asyncio, sixty megabytes that nothing here imports.
FROM operator-needs AS build-operator
COPY worker worker
COPY operator operator
RUN /opt/tools/bin/pip wheel --quiet --no-deps --no-build-isolation --no-index -w /wheels ./worker ./operator \
 && /opt/millgate/bin/pip install --quiet --no-compile --no-deps --no-index --force-reinstall /wheels/*.whl \
 && /opt/millgate/bin/pip uninstall --quiet --yes pip \
 && rm -rf /opt/millgate/lib/python3*/site-packages/kubernetes/aio \
 && python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash /opt/millgate/lib


FROM ${BASE_IMAGE} AS operator
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="millgate-operator" \
      org.opencontainers.image.description="The operator of Millgate, a Kubernetes-native task queue" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
ENV PATH=/opt/millgate/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
COPY --from=build-operator /made/etc /etc
COPY --from=build-operator /opt/millgate /opt/millgate
WORKDIR /tmp
USER 10001:10001
ENTRYPOINT ["millgate-operator"]


# The last stage is what a plain `docker build .` makes. An application's image is this one and its modules under /app.
FROM ${BASE_IMAGE} AS worker
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="millgate-worker" \
      org.opencontainers.image.description="The worker of Millgate, a Kubernetes-native task queue" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"
ENV PATH=/opt/millgate/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONPATH=/app PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 HOME=/tmp
COPY --from=build-worker /made/etc /etc
COPY --from=build-worker /made/app /app
COPY --from=build-worker /opt/millgate /opt/millgate
WORKDIR /app
USER 10001:10001
ENTRYPOINT ["millgate"]
CMD ["worker"]
