#!/bin/bash
# The units of samples/deploy, read by systemd: nothing in them is unknown or wrong, and the service is as closed as it says.
#   units.sh INLAY_SERVE DEPLOY_DIR
#
# Exit code 77: systemd-analyze is not installed, or is older than what this asks of it.
set -euo pipefail
serve=$1 deploy=$2
command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is not installed"; exit 77; }
systemd-analyze --help | grep -q -- --offline || { echo "skipped: systemd-analyze knows no --offline"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "$1"; cat "$tmp/said"; exit 1; }

# The program is not installed where the unit has it.
sed "s#^ExecStart=/usr/bin/inlay-serve #ExecStart=$(realpath "$serve") #" "$deploy/inlay-serve.service" \
    >"$tmp/inlay-serve.service"
cp "$deploy/inlay-serve.socket" "$tmp"
grep -qF "ExecStart=$(realpath "$serve") /" "$tmp/inlay-serve.service" || { echo "the unit starts something else"; exit 1; }
for unit in service socket; do
    systemd-analyze verify --man=no "$tmp/inlay-serve.$unit" >"$tmp/said" 2>&1 || fail "inlay-serve.$unit is refused"
    ! grep -F "inlay-serve.$unit" "$tmp/said" || fail "systemd says something of inlay-serve.$unit"
done
systemd-analyze security --no-pager --offline=true --threshold=25 "$tmp/inlay-serve.service" >"$tmp/said" 2>&1 ||
    fail "the service is more exposed than 2.5"

# What is wrong is seen.
sed -i 's/^PrivateTmp=yes/PrivateTemp=yes/' "$tmp/inlay-serve.service"
systemd-analyze verify --man=no "$tmp/inlay-serve.service" >"$tmp/said" 2>&1 || true
grep -qF "PrivateTemp" "$tmp/said" || fail "a wrong unit is taken"

# Its flags are those of the program: what is missing are the models.
read -r -a flags < <(sed -nE 's#^ExecStart=/usr/bin/inlay-serve [^ ]+ ##p' "$deploy/inlay-serve.service")
"$serve" "$tmp/none" "${flags[@]}" >"$tmp/said" 2>&1 && fail "a server without models"
grep -qF "none: No such file" "$tmp/said" || fail "the unit's flags are not those of the program"
