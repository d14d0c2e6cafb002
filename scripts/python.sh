#!/bin/sh
# Print the Python to build with: $PYTHON if set, else python3 if it is new enough, else the
# newest one that is. A name on the PATH proves nothing (it may be a shim), so each is run.
set -eu

new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

if [ -n "${PYTHON:-}" ]; then
    new_enough "$PYTHON" && echo "$PYTHON" && exit 0
    echo "PYTHON=$PYTHON does not run, or is older than Python 3.11." >&2
    exit 1
fi
for name in python3 python3.15 python3.14 python3.13 python3.12 python3.11; do
    new_enough "$name" && echo "$name" && exit 0
done
echo "loopworker needs Python 3.11 or newer, and none was found." >&2
echo "On Debian 12+ or Ubuntu 24.04+: apt-get install python3 python3-venv" >&2
echo "Or name one: make setup PYTHON=/path/to/python3.12" >&2
exit 1
