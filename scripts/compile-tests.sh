#!/bin/sh
# Have pytest compile the tests once, for the environment that is named. It rewrites every assert,
# which takes seconds, and of the processes of a first run each would do it for itself.
unset PYTHONDONTWRITEBYTECODE
"$1/bin/python" -m pytest --collect-only -q >/dev/null || true  # told by the run itself
