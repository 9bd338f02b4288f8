#!/bin/bash
# Builds the image of sdk/packaging/Dockerfile from Debian packages with buildah, and runs it: a model, as user
# nobody, with a folder of a user. The base is the system of chroot.sh, named debian:bookworm-slim here, so that only
# Debian packages are fetched. Prints the size of each layer.
#   image.sh PACKAGES
# PACKAGES is a folder created by deb.sh --suite bookworm. Needs root, buildah, libonnx-testdata, and the network. The last
# line is 'N passed, N failed'.
set -euo pipefail
[ $# = 1 ] && [ -d "$1" ] || { echo "usage: image.sh PACKAGES" >&2; exit 2; }
packages=$(realpath -- "$1")
make=$(dirname "$(dirname "$(dirname "$(realpath -- "$0")")")")/sdk/packaging
export INLAY_CHROOTS=${INLAY_CHROOTS:-${XDG_CACHE_HOME:-$HOME/.cache}/inlay/chroots}
work=$(mktemp -d)
trap 'buildah "${store[@]}" rm --all >/dev/null 2>&1; buildah "${store[@]}" rmi --all --force >/dev/null 2>&1; rm -rf "$work"' EXIT
store=(--root "$work/store" --runroot "$work/run")
export BUILDAH_ISOLATION=chroot
passed=0 failed=0

ok() { # TEXT COMMAND...
    local text=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        echo "ok $text"
        passed=$((passed + 1))
    else
        echo "FAIL $text"
        tail -n 20 "$work/log" | sed 's/^/    /'
        failed=$((failed + 1))
    fi
}
base() {
    local container
    "$make/chroot.sh" bookworm true
    container=$(buildah "${store[@]}" from scratch)
    buildah "${store[@]}" add "$container" "$INLAY_CHROOTS/bookworm" /
    buildah "${store[@]}" commit --rm "$container" debian:bookworm-slim
}
mib() {
    local container root
    container=$(buildah "${store[@]}" from --pull-never "$1")
    root=$(buildah "${store[@]}" mount "$container")
    # Without folders that the Dockerfile clears and that debian:bookworm-slim does not contain.
    du -sxm --exclude="$root/var/lib/apt/*" --exclude="$root/var/cache/apt/*" --exclude="$root/var/log/*" "$root" | cut -f1
    buildah "${store[@]}" rm "$container" >/dev/null
}
image() { buildah "${store[@]}" bud --pull-never -f "$make/Dockerfile" -t "$@" "$packages"; }
# As `docker run --rm -v MODELS:/models [--entrypoint PROGRAM] IMAGE ...`: with the user, variables and folder of the image.
container() {
    local name entry='' status=0
    if [ "$1" = --entrypoint ]; then
        entry=$2
        shift 2
    fi
    name=$(buildah "${store[@]}" from --pull-never "$1")
    [ -n "$entry" ] || entry=$(buildah "${store[@]}" inspect --format '{{index .OCIv1.Config.Entrypoint 0}}' "$name")
    shift
    buildah "${store[@]}" run -v "$work/models:/models:ro" "$name" -- "$entry" "$@" || status=$?
    buildah "${store[@]}" rm "$name" >/dev/null
    return $status
}
says() { # WORDS COMMAND...
    local words=$1
    shift
    "$@" | tee "$work/said" && grep -q -- "$words" "$work/said"
}

mkdir -m 755 "$work/models"
cp /usr/share/libonnx-testdata/data/node/test_relu/model.onnx "$work/models/"
chmod 644 "$work/models/model.onnx"
ok "the base image is created" base
ok "the image is built" image inlay
ok "the image with only the provider reference is built" \
    image small --build-arg PACKAGES="inlay inlay-probe inlay-provider-reference"
ok "it runs a model" says '^y: float\[3, 4, 5\] = ' container inlay run model.onnx --seed 1
ok "it has the provider cpu" says "provider cpu" container inlay providers
ok "its user is nobody" says '^nobody$' container --entrypoint whoami inlay
ok "results of plugin probes are cached" says . container --entrypoint sh inlay -c \
    'inlay run model.onnx --seed 1 >/dev/null && ls -A /var/cache/inlay'
ok "the small image runs the model" says '^y: float\[3, 4, 5\] = ' container small run model.onnx --seed 1
slim=$(mib debian:bookworm-slim)
echo "the image adds $(($(mib inlay) - slim)) MiB, with the provider reference alone $(($(mib small) - slim)) MiB"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
