#!/bin/bash
# Runs the two commands of the README, samples/quickstart.sh and tests/run.sh, in a fresh Debian 13. The last line is
# that of tests/run.sh, 'N passed, N failed'; the exit code is 0 only when both commands succeed.
#
#   tests/debian13.sh              both commands
#   tests/debian13.sh COMMAND...   this command instead, in the copy of the tree: tests/debian13.sh tests/run.sh release
#
# Needs root or sudo, some 6 GB of disk, and the network. debootstrap makes the system once, from the Debian mirror among
# this machine's apt sources (or INLAY_DEBIAN_MIRROR); packages and builds stay in it from run to run. It lies in
# INLAY_DEBIAN13, by default ~/.cache/inlay/debian13 (XDG_CACHE_HOME); remove that folder to start afresh.
set -euo pipefail
self=$(realpath -- "$0")
tree=$(dirname "$(dirname "$self")")
suite=trixie

fail() {
    echo "debian13.sh: $*" >&2
    exit 1
}

# Everything below runs as root, in a mount namespace and a process namespace of its own: however it ends, nothing stays
# mounted and no process is left.
if [ "${INLAY_DEBIAN13_INSIDE:-}" != yes ]; then
    export INLAY_DEBIAN13=${INLAY_DEBIAN13:-${XDG_CACHE_HOME:-$HOME/.cache}/inlay/debian13}
    [[ $INLAY_DEBIAN13 == /?* ]] || fail "INLAY_DEBIAN13 is '$INLAY_DEBIAN13', which is no absolute path"
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "only root can make a Debian in a folder, and there is no sudo"
        as_root=(sudo --preserve-env="INLAY_DEBIAN13,INLAY_DEBIAN_MIRROR,http_proxy,https_proxy,no_proxy")
    fi
    exec "${as_root[@]}" env INLAY_DEBIAN13_INSIDE=yes \
        unshare --mount --propagation private --pid --fork --kill-child "$self" "$@"
fi
root=$INLAY_DEBIAN13

# The mirror of the machine's own Debian.
find_mirror() {
    if [ -n "${INLAY_DEBIAN_MIRROR:-}" ]; then
        echo "$INLAY_DEBIAN_MIRROR"
        return
    fi
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' |
        awk '$1 == "Debian" && !n++ { print $2 }'
}

make_debian() {
    local mirror
    mirror=$(find_mirror)
    [ -n "$mirror" ] || fail "no Debian mirror among apt's sources; INLAY_DEBIAN_MIRROR=URL names one"
    if ! command -v debootstrap >/dev/null; then
        apt-get install -q -y --no-install-recommends debootstrap >/dev/null ||
            fail "debootstrap is missing and could not be installed"
    fi
    echo "making a Debian 13 in $root"
    rm -rf "$root.new"
    mkdir -p "$(dirname "$root")"
    if ! debootstrap --variant=minbase --include=ca-certificates "$suite" "$root.new" "$mirror" >"$root.log" 2>&1; then
        tail -n 20 "$root.log" >&2
        fail "debootstrap failed (the log is $root.log)"
    fi
    mv "$root.new" "$root" # only one that is whole is found again
}

# How this machine reaches others: names, and certificates that its owner added.
copy_network() {
    local own=/usr/local/share/ca-certificates
    cp --dereference --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
    if compgen -G "$own/*.crt" >/dev/null; then
        mkdir -p "$root$own"
        cp --dereference "$own"/*.crt "$root$own/"
        chroot "$root" update-ca-certificates >/dev/null 2>&1 || fail "the machine's own certificates are refused"
    fi
}

# The files of the tree that belong to it; what was built there before stays.
copy_tree() {
    local to=$root/root/inlay
    mkdir -p "$to"
    find "$to" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
    if git -c safe.directory="$tree" -C "$tree" rev-parse >/dev/null 2>&1; then
        (cd "$tree" && git -c safe.directory="$tree" ls-files -z --cached --others --exclude-standard --deduplicate |
            xargs -0 ls -d 2>/dev/null | tar -c -T -) | tar -x -C "$to"
    else
        tar -c -C "$tree" --exclude='./build*' . | tar -x -C "$to"
    fi
    chown -R root:root "$to"
}

[ -d "$root" ] || make_debian
copy_network
copy_tree
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"

inside() {
    env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt ${http_proxy:+http_proxy="$http_proxy"} \
        ${https_proxy:+https_proxy="$https_proxy"} ${no_proxy:+no_proxy="$no_proxy"} \
        chroot "$root" sh -c 'cd /root/inlay && exec "$@"' sh "$@"
}

if [ $# -gt 0 ]; then
    inside "$@"
    exit
fi
inside samples/quickstart.sh
inside tests/run.sh
