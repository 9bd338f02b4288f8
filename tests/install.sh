#!/bin/sh
# Installs what tests/packages.txt lists, and the packages named as arguments, on Debian; touches nothing when all of it
# is there already. Needs root or sudo only when something is missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

missing=
for package in $(cat "$here/packages.txt") "$@"; do
    case $(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true) in
    installed) ;;
    *) missing="$missing $package" ;;
    esac
done
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
