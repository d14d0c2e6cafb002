#!/bin/sh
# Bring what some tests need beyond Python. A laptop's owner decides what is installed there, so
# packages are added in strict mode only, and only as root; elsewhere those tests are skipped.
set -eu

[ "${STRICT:-}" = 1 ] || [ "${CI:-}" = true ] || exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0

missing=""
command -v mmdebstrap >/dev/null || missing="$missing mmdebstrap"
command -v promtool >/dev/null || missing="$missing prometheus"
[ -n "$missing" ] || exit 0
echo "Installing for the tests:$missing"
apt-get -qq update
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends $missing >/dev/null
