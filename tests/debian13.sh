#!/bin/bash
# Runs the two commands of the README, samples/quickstart.sh and tests/run.sh, in a fresh Debian 13. The last line is
# that of tests/run.sh, 'N passed, N failed'; the exit code is 0 only if both commands succeed.
#
#   tests/debian13.sh              both commands
#   tests/debian13.sh COMMAND...   this command instead, in the copy of the tree: tests/debian13.sh tests/run.sh release
#
# Needs root or sudo, debootstrap, about 6 GB of disk space, and the network. sdk/packaging/chroot.sh creates the
# system and prints its location; packages and builds stay in its overlay trixie-tests between runs.
set -euo pipefail
tree=$(dirname "$(dirname "$(realpath -- "$0")")")
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
"$tree/sdk/packaging/tree.sh" "$copy"
[ $# -gt 0 ] || set -- sh -c 'samples/quickstart.sh && tests/run.sh'
# Keep earlier builds.
# shellcheck disable=SC2016
"$tree/sdk/packaging/chroot.sh" --keep tests --bind "$copy:/tree" trixie bash -c '
    set -e
    mkdir -p /root/inlay
    cd /root/inlay
    find . -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    tar -c -C /tree --owner=0 --group=0 . | tar -x
    NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt exec "$@"' debian13 "$@"
