#!/bin/sh
# Bring what some tests need beyond Python. A laptop's owner decides what is installed there, so
# packages are added in strict mode only, and only as root; elsewhere those tests are skipped.
set -eu

[ "${STRICT:-}" = 1 ] || [ "${CI:-}" = true ] || exit 0
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0

missing=""
need() { # a package, and the program it brings
    command -v "$2" >/dev/null || missing="$missing $1"
}
need mmdebstrap mmdebstrap
need openssl openssl
need prometheus promtool
need redis-server redis-server
need rabbitmq-server rabbitmq-server
need amqp-tools amqp-publish
# PostgreSQL keeps its programs off the path, below a folder of its version.
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || missing="$missing postgresql"
[ -n "$missing" ] || exit 0
echo "Installing for the tests:$missing"

# The tests start servers of their own: the packages shall neither start one nor make a database.
policy=/usr/sbin/policy-rc.d
[ -e "$policy" ] || {
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod +x "$policy"
    trap 'rm -f "$policy"' EXIT
}
cluster=/etc/postgresql-common/createcluster.conf
[ -e "$cluster" ] || {
    mkdir -p "${cluster%/*}"
    echo "create_main_cluster = false" >"$cluster"
}

apt-get -qq update
# shellcheck disable=SC2086
DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends \
    -o Dpkg::Options::=--force-confold $missing >/dev/null
