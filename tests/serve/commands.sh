#!/bin/bash
# The commands of the manifests in samples/deploy, and that of the image inlay-serve, start a server, unchanged: in a root
# and a network of their own, as an unprivileged user, with a root that cannot be written. It becomes ready, infers, and
# ends with 0 at SIGTERM.
#   commands.sh INLAY_SERVE WRITE_MODELS DEPLOY_DIR CONTAINERFILE
#
# Exit code 77: no permission for namespaces, or a tool is not installed.
set -euo pipefail
# shellcheck source=tests/serve/common.sh
. "$(dirname "$(realpath -- "$0")")/common.sh"
need curl unshare setpriv ip chroot
unshare -mn true 2>/dev/null || skip "namespaces are not permitted"
"$2" "$tmp/models"
/usr/bin/python3 "${0%/*}/commands.py" "$3" "$4" >"$tmp/commands" || { cat "$tmp/commands"; exit 77; }
[ "$(wc -l <"$tmp/commands")" -eq 3 ] || fail "the commands: $(cat "$tmp/commands")"

# The root of the container: the system's /usr, and the server in /usr/local/bin.
root=$tmp/root
mkdir -p "$root"/{usr,proc,dev,tmp,cache,models,mnt/models/1,etc,build} "$tmp/local/bin"
for link in bin lib lib64 sbin; do [ -L /$link ] && ln -s "usr/$link" "$root/$link"; done
cp "$tmp/models/twice.onnx" "$root/mnt/models/1/model.onnx"
chmod -R a+rX "$tmp"
chmod 1777 "$root/tmp" "$root/cache"

# Runs in the namespaces: FILE PORT PATH COMMAND...
cat >"$tmp/inside.sh" <<'INSIDE'
set -eu
root=$1 models=$2 bin=$3 port=$5 path=$6
shift 6
ip link set lo up
mount --bind "$root" "$root"
mount --rbind /usr "$root/usr"
mount --bind "$bin/.." "$root/build" # with the library and the plugins
mount --bind "$models" "$root/models"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount -t tmpfs tmpfs "$root/tmp"
mount -t tmpfs tmpfs "$root/cache"
chmod 1777 "$root/tmp" "$root/cache"
mount -o remount,bind,ro "$root"
command=$1
shift
[ "$command" = inlay-serve ] || exit 3
env LD_LIBRARY_PATH=/build/lib INLAY_PLUGIN_DIRS=/build/lib/inlay/plugins \
    chroot "$root" /usr/bin/setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs --bounding-set -all \
    "/build/bin/$command" "$@" &
server=$!
for i in $(seq 600); do
    curl -sf "http://127.0.0.1:$port$path" >/dev/null && break
    kill -0 "$server" || exit 4
    sleep 0.1
done
name=twice
curl -sf "http://127.0.0.1:$port/v2/models/twice" >/dev/null || name=mlp
curl -sSf -d '{"inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}' \
    "http://127.0.0.1:$port/v2/models/$name/infer" | grep -F '[2.0,4.0,6.0]'
kill "$server"
wait "$server"
INSIDE
bin=$(dirname "$(realpath -- "$1")")
while IFS=$'\t' read -r -a words; do
    timeout 120 unshare -mn --propagation private sh "$tmp/inside.sh" "$root" "$tmp/models" "$bin" "${words[@]}" >"$tmp/said" 2>&1 ||
        fail "${words[*]}: exit code $?"
    echo "${words[0]}: ${words[*]:3}"
done <"$tmp/commands"
