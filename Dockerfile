# An image with autosync and both engines, for one machine or for the nodes of a Ray cluster (KubeRay):
#
#     docker build --tag autosync .
#     docker run --rm --shm-size 4g autosync tune --model mlp --framework pytorch --trials 10
#
# THIS FILE WAS NEVER BUILT. Tests lint it, and check that its files and extras exist.
FROM python:3.11-slim-bookworm

# KubeRay asks each node for its health with wget.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends wget && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home autosync

WORKDIR /opt/autosync
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY autosync autosync
COPY search_spaces search_spaces
COPY trials trials
# `gpu` for Keras models on NVIDIA GPUs
ARG EXTRA=tensorflow
RUN python -m pip install --no-cache-dir --constraint constraints.txt ".[${EXTRA}]"

USER 1000
WORKDIR /home/autosync
ENTRYPOINT ["autosync"]
CMD ["--help"]
