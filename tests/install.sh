#!/bin/sh
# Installs Debian packages from tests/packages.txt: those without a group, and those of the groups named as arguments.
# Touches nothing when all of it is there already; needs root or sudo only when something is missing.
#   install.sh [GROUP]...
set -eu
here=$(cd "$(dirname "$0")" && pwd)

wanted=$(awk -v groups=" $* " '/^#/ || NF == 0 { next } NF == 1 || index(groups, " " $2 " ") { print $1 }' \
    "$here/packages.txt")
missing=
for package in $wanted; do
    case $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) in
    installed) ;;
    *) missing="$missing $package" ;;
    esac
done
# Node.js brings its own npm when it does not come from Debian.
if command -v npm >/dev/null; then
    missing=$(printf '%s' "$missing" | sed -E 's/ (npm|nodejs)\b//g')
fi
[ -n "$missing" ] || exit 0

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "install.sh: these packages are missing, and only root can install them:$missing" >&2; exit 1; }
    as_root=sudo
fi
echo "installing:$missing"
$as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $missing
