#!/bin/bash
# Runs a command as root in a clean Debian system, and discards its changes.
#   chroot.sh [--keep NAME] [--bind FROM:TO]... SUITE COMMAND...
#
# SUITE is bookworm, trixie or sid, or one of them with an architecture, such as bookworm:arm64, whose programs the
# kernel has to be able to start: on another machine by qemu-user-static, registered with binfmt_misc. The system
# (debootstrap's minbase) is created once, from the Debian mirror in this machine's apt sources (or
# INLAY_DEBIAN_MIRROR), and never changes: changes are written to an overlay. With --keep, the overlay has a name and is
# used again by later calls, one at a time. Systems and overlays are stored in INLAY_CHROOTS, by default
# ~/.cache/inlay/chroots (XDG_CACHE_HOME); remove that folder to start from scratch. --bind mounts a folder of this
# machine inside. Needs root or sudo, and the network until the packages of an overlay are installed.
set -euo pipefail
self=$(realpath -- "$0")

fail() {
    echo "chroot.sh: $*" >&2
    exit 1
}

# Everything runs in a separate mount namespace and process namespace, so that no mount and no process remains, even
# if this script is killed.
if [ "${INLAY_CHROOT_INSIDE:-}" != yes ]; then
    export INLAY_CHROOTS=${INLAY_CHROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/inlay/chroots}
    [[ $INLAY_CHROOTS == /?* ]] || fail "INLAY_CHROOTS is '$INLAY_CHROOTS', which is not an absolute path"
    as_root=()
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || fail "only root can make a Debian in a folder, and there is no sudo"
        as_root=(sudo --preserve-env="INLAY_CHROOTS,INLAY_DEBIAN_MIRROR,http_proxy,https_proxy,no_proxy")
    fi
    exec "${as_root[@]}" env INLAY_CHROOT_INSIDE=yes \
        unshare --mount --propagation private --pid --fork --kill-child "$self" "$@"
fi

keep='' binds=()
while [ $# -gt 0 ]; do
    case $1 in
    --keep) keep=$2 && shift 2 ;;
    --bind) binds+=("$2") && shift 2 ;;
    *) break ;;
    esac
done
[ $# -ge 2 ] || fail "usage: chroot.sh [--keep NAME] [--bind FROM:TO]... SUITE COMMAND..."
suite=${1%%:*} architecture=
[[ $1 != *:* ]] || architecture=${1##*:}
shift
base=$INLAY_CHROOTS/$suite${architecture:+-$architecture}

find_mirror() {
    if [ -n "${INLAY_DEBIAN_MIRROR:-}" ]; then
        echo "$INLAY_DEBIAN_MIRROR"
        return
    fi
    # shellcheck disable=SC2016
    apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' |
        awk '$1 == "Debian" && !n++ { print $2 }'
}

make_base() {
    local mirror own=/usr/local/share/ca-certificates
    mirror=$(find_mirror)
    [ -n "$mirror" ] || fail "no Debian mirror among apt's sources; INLAY_DEBIAN_MIRROR=URL names one"
    command -v debootstrap >/dev/null || fail "debootstrap is not installed (Debian: debootstrap)"
    echo "making a Debian ($suite) in $base" >&2
    rm -rf "$base.new"
    mkdir -p "$INLAY_CHROOTS"
    if ! debootstrap --variant=minbase ${architecture:+--arch="$architecture"} --include=ca-certificates "$suite" \
        "$base.new" "$mirror" >"$base.log" 2>&1; then
        tail -n 20 "$base.log" >&2
        fail "debootstrap failed (the log is $base.log)"
    fi
    # Copy certificates that the owner of this machine added, so that the network is reachable.
    if compgen -G "$own/*.crt" >/dev/null; then
        mkdir -p "$base.new$own"
        cp --dereference "$own"/*.crt "$base.new$own/"
        chroot "$base.new" update-ca-certificates >/dev/null 2>&1 || fail "the machine's own certificates are refused"
    fi
    # Services must not start in a chroot.
    printf '#!/bin/sh\nexit 101\n' >"$base.new/usr/sbin/policy-rc.d"
    chmod 755 "$base.new/usr/sbin/policy-rc.d"
    mv "$base.new" "$base" # last, so that $base is always a complete system
}

[ -d "$base" ] || make_base
if [ -n "$keep" ]; then
    layer=$base-$keep
    mkdir -p "$layer"
    exec {lock}<"$layer"
    flock --nonblock "$lock" || fail "$layer is in use: another call with --keep $keep is running"
else
    layer=$(mktemp -d "$base.XXXXXX")
    trap 'umount -R "$layer/root" 2>/dev/null; rm -rf "$layer"' EXIT
fi
mkdir -p "$layer/upper" "$layer/work" "$layer/root"
root=$layer/root
mount -t overlay overlay -o "lowerdir=$base,upperdir=$layer/upper,workdir=$layer/work" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
cp --dereference --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
for bind in "${binds[@]}"; do
    mkdir -p "$root${bind#*:}"
    mount --bind "${bind%%:*}" "$root${bind#*:}"
done

inside() {
    env -i HOME=/root TERM="${TERM:-dumb}" LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
        PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
        ${no_proxy:+no_proxy="$no_proxy"} chroot "$root" "$@"
}
# A call that was killed while it installed packages leaves some unconfigured, or without packages that they need, and
# apt-get refuses to go on.
repair() {
    inside dpkg --configure -a || inside apt-get -q -y --fix-broken install || fail "$layer has broken packages"
}
[ -z "$keep" ] || repair >&2 </dev/null
inside "$@"
