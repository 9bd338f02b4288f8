#!/bin/sh
# Installs Debian packages from tests/packages.txt: those without a group, and those of the groups named as arguments.
# Changes nothing if all of them are installed; needs the network, and root or sudo, only if packages are missing.
# Prints the names of those that it installs. Starts and enables none of their services.
#   install.sh [GROUP]...
#   install.sh --packages PACKAGE...      these packages of the list alone
set -eu
here=$(cd "$(dirname "$0")" && pwd)

if [ "${1:-}" = --packages ]; then
    shift
    wanted=$*
    for package in $wanted; do
        if ! awk -v name="$package" '$1 == name { found = 1 } END { exit !found }' "$here/packages.txt"; then
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
trap 'exit 143' TERM
quietly() { # COMMAND...: prints its output only if it fails
    # shellcheck disable=SC2024
    if ! $as_root env DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        echo "install.sh: failed: $*" >&2
        exit 1
    fi
}
# Tests start the servers that they need themselves. Installing a package must neither start its service nor add it to
# those that start with the machine.
started_with_machine() {
    find /etc/systemd/system -path '*.wants/*' -type l 2>/dev/null
    find /etc/rc[2-5].d -name 'S*' 2>/dev/null
}
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' | $as_root tee $policy >/dev/null
    $as_root chmod 755 $policy
    trap 'rm -f "$log"; $as_root rm -f $policy' EXIT
fi
before=$(started_with_machine)
quietly apt-get update -q
# shellcheck disable=SC2086
quietly apt-get install -q -y --no-install-recommends --download-only $missing
trap '' TERM # which would leave packages that are not configured
# shellcheck disable=SC2086
quietly apt-get install -q -y --no-install-recommends $missing
started_with_machine | while read -r link; do
    case "
$before
" in
    *"
$link
"*) continue ;;
    esac
    name=${link##*/}
    case $link in
    /etc/rc*) quietly update-rc.d "${name#S[0-9][0-9]}" disable ;;
    *) quietly DPKG_MAINTSCRIPT_PACKAGE="${name%.*}" deb-systemd-helper disable "$name" ;; # as its package would
    esac
done
