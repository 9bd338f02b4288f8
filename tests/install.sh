#!/bin/sh
# Installs Debian packages from tests/packages.txt: those without a group, and those of the groups named as arguments.
# Changes nothing if all of them are installed; needs the network, and root or sudo, only if packages are missing.
#   install.sh [GROUP]...
#   install.sh --packages PACKAGE...      these packages of the list alone
set -eu
here=$(cd "$(dirname "$0")" && pwd)

if [ "${1:-}" = --packages ]; then
    shift
    wanted=$*
    for package in $wanted; do
        if ! grep -qE "^$package( |\$)" "$here/packages.txt"; then
            echo "install.sh: tests/packages.txt does not list $package" >&2
            exit 2
        fi
    done
else
    wanted=$(awk -v groups=" $* " '/^#/ || NF == 0 { next } NF == 1 || index(groups, " " $2 " ") { print $1 }' \
        "$here/packages.txt")
fi
native=$(dpkg --print-architecture)
missing=
for package in $wanted; do
    case $package in
    *:*) architecture=${package#*:} ;;
    *) architecture=$native ;;
    esac
    case " $(dpkg-query -W -f='${Architecture}=${db:Status-Status} ' "$package" 2>/dev/null || true)" in
    *" $architecture=installed "* | *' all=installed '*) ;;
    *) missing="$missing $package" ;;
    esac
done
# Node.js includes npm unless it comes from Debian.
if command -v npm >/dev/null; then
    missing=$(printf '%s' "$missing" | sed -E 's/ (npm|nodejs)\b//g')
fi
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null; then
        echo "install.sh: these packages are missing, and only root can install them:$missing" >&2
        exit 1
    fi
    as_root=sudo
fi
echo "installing:$missing"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() { # COMMAND...: prints its output only if it fails
    # shellcheck disable=SC2024
    if ! $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "install.sh: failed: $*" >&2
        exit 1
    fi
}
quietly apt-get update -q
# shellcheck disable=SC2086
quietly apt-get install -q -y --no-install-recommends $missing
