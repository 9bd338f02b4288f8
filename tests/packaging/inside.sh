#!/bin/bash
# The part of packages_install.sh that runs in a clean Debian. /packages, /tests and /autopkgtests are mounted.
set -uo pipefail
export DEBIAN_FRONTEND=noninteractive
log=/tmp/log

ok() { # TEXT COMMAND...: prints one line, and the command's output if it fails
    local text=$1
    shift
    if "$@" >"$log" 2>&1; then
        echo "ok $text"
    else
        echo "FAIL $text"
        tail -n 30 "$log" | sed 's/^/    /'
    fi
}
get() { apt-get -q -y --no-install-recommends "$@"; }
# Lists installed packages and all files except those that every installation changes.
picture() {
    dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\n' | grep -v ' config-files$\| not-installed$'
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /packages -o -path /tests \
        -o -path /autopkgtests -o -path /var/lib/apt -o -path /var/cache/apt -o -path /var/cache/man -o -path /var/log -o -path /run \
        -o -path /var/lib/dpkg/triggers -o -path '/var/lib/dpkg/*-old' \) -prune -o -print | sort
}
size() { du -sxk --exclude=/var/lib/apt --exclude=/var/cache --exclude=/packages --exclude=/tests \
    --exclude=/autopkgtests / 2>/dev/null | cut -f1; }

get update >"$log" 2>&1 || { cat "$log"; exit 1; }

# ---- the command alone, as in an image
before=$(size)
slim=(/packages/inlay_*.deb /packages/inlay-probe_*.deb /packages/inlay-provider-reference_*.deb)
ok "the command and the provider reference are installed" get install "${slim[@]}"
echo "the command with the provider reference: $((($(size) - before) / 1024)) MiB"
ok "the provider cpu is added" get install /packages/inlay-provider-cpu_*.deb
echo "and with the provider cpu: $((($(size) - before) / 1024)) MiB"
ok "they are purged" get purge --auto-remove inlay inlay-probe 'inlay-provider-*'

# ---- all packages, in addition to the dependencies of their tests
needed=$(sed -n 's/^Depends: //p' /autopkgtests/control | tr ',' '\n' | sed -E 's/ *\[.*\]//; s/ //g' |
    grep -vE '^$|inlay' | sort -u)
# shellcheck disable=SC2086
ok "dependencies of the tests are installed" get install $needed python3-numpy nodejs
picture >/tmp/before
dpkg-query -W -f '${Package}\n' | sort -u >/tmp/packages-before
all=()
for file in /packages/*.deb; do
    [[ $file == *-dbgsym_* ]] || all+=("$file")
done
ok "all ${#all[@]} packages are installed" get install "${all[@]}"
for test in $(sed -n 's/^Tests: //p' /autopkgtests/control); do
    AUTOPKGTEST_TMP=$(mktemp -d)
    export AUTOPKGTEST_TMP
    ok "test $test" "/autopkgtests/$test"
done
names=$(for file in "${all[@]}"; do dpkg-deb -f "$file" Package; done)
# shellcheck disable=SC2086
ok "all files are unchanged" bash -c '[ -z "$(dpkg --verify "$@" | tee /dev/stderr)" ]' verify $names
# Our packages and their dependencies, which would otherwise stay.
came=$(dpkg-query -W -f '${Package}\n' | sort -u | comm -13 /tmp/packages-before -)
# shellcheck disable=SC2086
ok "all is purged" get purge $came
picture >/tmp/after
ok "no file remains" diff /tmp/before /tmp/after

# ---- an older build is upgraded: other plugins, settings and caches remain
older=/tmp/older
mkdir -p $older
for file in "${all[@]}"; do
    case $file in
    */inlay_* | */inlay-probe_* | */libinlay1_* | */inlay-provider-reference_*) ;;
    *) continue ;;
    esac
    dpkg-deb -R "$file" $older/tree
    sed -i -E 's/^Version: (.*)-[^-]*$/Version: \1-0older/' $older/tree/DEBIAN/control
    dpkg-deb -b $older/tree "$older/$(basename "$file")" >/dev/null
    rm -rf $older/tree
done
ok "an older build is installed" get install $older/*.deb
# The sourced file of the tests creates the model, changes into its folder and sets the cache folder.
AUTOPKGTEST_TMP=/tmp/upgrade
mkdir $AUTOPKGTEST_TMP
. /autopkgtests/model
plugins=$(dirname "$(dpkg -L inlay-provider-reference | grep '/inlay-reference\.so$')")
mkdir -p /etc/inlay
echo 'intra_threads: 1' >/etc/inlay/inlay.yaml
ok "the older build runs a model" inlay run model.onnx --seed 1
cp "$plugins/inlay-reference.so" "$plugins/of-the-site.so" # a plugin that belongs to no package
find cache -type f | sort >/tmp/cache-before
mapfile -t new < <(for file in $older/*.deb; do echo "/packages/$(basename "$file")"; done)
ok "it is upgraded" get install "${new[@]}"
ok "no older build is left" bash -c "! dpkg-query -W -f '\${Version}\n' 'inlay*' libinlay1 2>/dev/null | grep older"
ok "a plugin of the site is still there" test -e "$plugins/of-the-site.so"
ok "settings are still there" grep -q intra_threads /etc/inlay/inlay.yaml
rm "$plugins/of-the-site.so" # avoid two providers of one name
ok "the new build runs the model" inlay run model.onnx --seed 1
find cache -type f | sort >/tmp/cache-after
ok "the cache keeps its files" bash -c '[ -s /tmp/cache-before ] && [ -z "$(comm -23 /tmp/cache-before /tmp/cache-after)" ]'
echo finished
