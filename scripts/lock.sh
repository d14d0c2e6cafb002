#!/bin/sh
# Write the lock files: for every Python >= 3.11 and platform, with hashes, naming no index.
# The runtime lock is resolved first and constrains the others, so that they agree.
set -eu
cd "$(dirname "$0")/.."

python=$(scripts/python.sh)
[ -x .venv-lock/bin/uv ] || {
    "$python" -m venv .venv-lock
    .venv-lock/bin/python -m pip install -qq uv
}

compile() {
    .venv-lock/bin/uv pip compile --quiet --universal --python-version 3.11 \
        --generate-hashes --no-emit-index-url --no-header "$@"
}

compile pyproject.toml --all-extras --output-file requirements.lock
compile pyproject.toml --all-extras --group dev \
    --constraints requirements.lock --output-file requirements-dev.lock
compile --group build --constraints requirements-dev.lock --output-file requirements-build.lock
echo "Wrote requirements.lock, requirements-dev.lock and requirements-build.lock."
