#!/bin/sh
# Build the image with whichever engine is at hand, or say that none is.
set -eu
cd "$(dirname "$0")/../.."

version=$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml | head -n 1)
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
tag=${IMAGE:-loopworker:$version}

# A client without its daemon answers to --version, so each is asked for its server.
for engine in docker podman buildah; do
    case $engine in
        docker) docker info >/dev/null 2>&1 || continue ;;
        *) command -v "$engine" >/dev/null 2>&1 || continue ;;
    esac
    echo "Building $tag with $engine"
    set -- --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --tag "$tag"
    [ -z "${BASE:-}" ] || set -- "$@" --build-arg "BASE=$BASE"
    # HEALTHCHECK exists in Docker's format only, which podman and buildah must be asked for.
    [ "$engine" = docker ] || set -- --format docker "$@"
    exec "$engine" build "$@" .
done
echo "No container engine is running here (looked for docker, podman, buildah)." >&2
echo "'make image-check' carries out the Dockerfile's steps without one." >&2
exit 1
