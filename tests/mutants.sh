#!/bin/sh
# Plants faults in a copy of this tree, one at a time, and reports which of them no test notices. By hand, not in CI.
#
#   tests/mutants.sh [--seed N] [--count N] [--room FOLDER] [--quick] [--json FILE] [--again FILE]
#
# The last line is 'N planted, N noticed, N lived, N did not build'; the exit code is 0 if none lived. See
# tests/mutants/README.md.
PYTHONDONTWRITEBYTECODE=1 exec nice -n 10 python3 "$(dirname "$0")/mutants/mutants.py" "$@"
