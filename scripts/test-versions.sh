#!/bin/sh
# Run pytest with the given arguments on every Python >= 3.11 that is present, each in an
# environment of its own, except the one that .venv already covers. With --prepare alone, only make
# those environments: it takes pip the better part of a minute each, on one core.
set -u
cd "$(dirname "$0")/.."

# The Python that .venv has, or will have.
python=.venv/bin/python
[ -x "$python" ] || python=$(scripts/python.sh) || exit 1
covered=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
failed=""
ran=""

# On the PATH, or kept by pyenv beside it.
find_python() {
    for candidate in "python$1" "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1".*/bin/python; do
        "$candidate" -c '' >/dev/null 2>&1 && echo "$candidate" && return
    done
    return 1
}

for version in 3.11 3.12 3.13 3.14 3.15; do
    [ "$version" = "$covered" ] && continue
    python=$(find_python "$version") || continue
    echo "== Python $version"
    ran="$ran $version"
    "$python" scripts/make_venv.py --venv ".venv-$version" || { failed="$failed $version"; continue; }
    if [ "$*" = --prepare ]; then
        scripts/compile-tests.sh ".venv-$version"
    else
        ".venv-$version/bin/python" -m pytest "$@" || failed="$failed $version"
    fi
done
if [ -n "$failed" ]; then
    echo "Failed on Python:$failed" >&2
    exit 1
fi
[ "$*" = --prepare ] || echo "Python versions tested beside $covered:${ran:- none is here}"
