#!/bin/bash
# Installs the Debian packages in clean systems and uses them: the autopkgtests (sdk/packaging/debian/tests) run the
# main tasks and programs in C, C++, Python and Node. Everything is then purged, after which the system must be as
# before. Finally an older build is upgraded.
#   tests/packages_install.sh PACKAGES [SUITE]...
# PACKAGES is a folder with one folder of packages per suite, as created by
#   sdk/packaging/deb.sh --suite bookworm PACKAGES/bookworm
# Without SUITE, all suites in the folder. Needs root or sudo and the network (sdk/packaging/chroot.sh). The last line
# is 'N passed, N failed'.
set -euo pipefail
tree=$(dirname "$(dirname "$(realpath -- "$0")")")
[ $# -ge 1 ] && [ -d "$1" ] || { echo "usage: packages_install.sh PACKAGES [SUITE]..." >&2; exit 2; }
packages=$(realpath -- "$1")
shift
[ $# -gt 0 ] || for suite in bookworm trixie; do
    [ ! -d "$packages/$suite" ] || set -- "$@" "$suite"
done
[ $# -gt 0 ] || { echo "packages_install.sh: no folder bookworm or trixie in $packages" >&2; exit 2; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for suite in "$@"; do
    echo "== $suite"
    "$tree/sdk/packaging/chroot.sh" --bind "$packages/$suite:/packages" --bind "$tree/tests/packaging:/tests" \
        --bind "$tree/sdk/packaging/debian/tests:/autopkgtests" "$suite" bash /tests/inside.sh | tee -a "$log" || true
done
passed=$(grep -c '^ok ' "$log" || true)
failed=$(grep -c '^FAIL ' "$log" || true)
finished=$(grep -c '^finished$' "$log" || true)
failed=$((failed + $# - finished)) # an incomplete system counts as one failure
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
