#!/bin/bash
# systemd checks the units of samples/deploy: they are valid, and the exposure of the service is at most 2.5 of 10.
#   units.sh INLAY_SERVE DEPLOY_DIR
#
# Exit code 77: systemd-analyze is not installed, or too old.
set -euo pipefail
serve=$1 deploy=$2
command -v systemd-analyze >/dev/null || { echo "skipped: systemd-analyze is not installed"; exit 77; }
systemd-analyze --help | grep -q -- --offline || { echo "skipped: systemd-analyze has no option --offline"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
fail() { echo "$1"; cat "$tmp/said"; exit 1; }

# The program is not installed at the unit's path.
sed "s#^ExecStart=/usr/bin/inlay-serve #ExecStart=$(realpath "$serve") #" "$deploy/inlay-serve.service" \
    >"$tmp/inlay-serve.service"
cp "$deploy/inlay-serve.socket" "$tmp"
grep -qF "ExecStart=$(realpath "$serve") /" "$tmp/inlay-serve.service" || { echo "the unit starts another program"; exit 1; }
for unit in service socket; do
    systemd-analyze verify --man=no "$tmp/inlay-serve.$unit" >"$tmp/said" 2>&1 || fail "inlay-serve.$unit is refused"
    ! grep -F "inlay-serve.$unit" "$tmp/said" || fail "systemd reports on inlay-serve.$unit"
done
systemd-analyze security --no-pager --offline=true --threshold=25 "$tmp/inlay-serve.service" >"$tmp/said" 2>&1 ||
    fail "the service is more exposed than 2.5"

# An invalid unit must be detected.
sed -i 's/^PrivateTmp=yes/PrivateTemp=yes/' "$tmp/inlay-serve.service"
systemd-analyze verify --man=no "$tmp/inlay-serve.service" >"$tmp/said" 2>&1 || true
grep -qF "PrivateTemp" "$tmp/said" || fail "an invalid unit is accepted"

# The program accepts the unit's flags: the only error is the missing models.
read -r -a flags < <(sed -nE 's#^ExecStart=/usr/bin/inlay-serve [^ ]+ ##p' "$deploy/inlay-serve.service")
unshare -m true 2>/dev/null || { echo "skipped: namespaces are not permitted"; exit 77; }
"$serve" "$tmp/none" "${flags[@]}" >"$tmp/said" 2>&1 && fail "the server started without models"
grep -qF "none: No such file" "$tmp/said" || fail "the program rejects the unit's flags"

# The command of the unit reads /etc/inlay/serve.yaml and /etc/inlay/inlay.yaml: each setting of the template, and each place
# of a mistake, is that of the files there.
mkdir "$tmp/etc"
in_etc() { # COMMAND...: with these files as /etc/inlay
    # shellcheck disable=SC2016
    unshare -m --propagation private sh -c 'mount -t tmpfs tmpfs /etc/inlay 2>/dev/null ||
        { mkdir -p /etc/inlay && mount -t tmpfs tmpfs /etc/inlay; }; cp "$0"/* /etc/inlay/; exec "$@"' "$tmp/etc" "$@"
}
run_unit() { # prints what the unit's command says, which ends because the models are missing
    in_etc "$serve" "$tmp/none" "${flags[@]}" >"$tmp/said" 2>&1 || true
}
sed -E 's/^#([a-z_]+:)/\1/' "$deploy/serve.yaml" >"$tmp/etc/serve.yaml"
run_unit
grep -qF "settings: /etc/inlay/serve.yaml" "$tmp/said" || fail "the unit does not read /etc/inlay/serve.yaml"
grep -qF "none: No such file" "$tmp/said" || fail "the unit refuses the template"
while read -r name; do
    printf '%s: [no, text]\n' "$name" >"$tmp/etc/serve.yaml"
    run_unit
    grep -q "/etc/inlay/serve.yaml" "$tmp/said" && ! grep -qF "none: No such file" "$tmp/said" ||
        fail "the unit does not read $name"
done < <(sed -nE 's/^#([a-z_]+):.*/\1/p' "$deploy/serve.yaml" | head -n 5)
rm "$tmp/etc/serve.yaml"
echo "unknown_option: 1" >"$tmp/etc/inlay.yaml"
run_unit
grep -q "/etc/inlay/inlay.yaml.*unknown_option" "$tmp/said" || fail "the unit does not read /etc/inlay/inlay.yaml"
