#!/bin/bash
# The files of a release: the tarball is the same when it is made twice, its signature holds, and objects that are
# compiled from two copies of it in different folders have the same bytes. Fragments of the changelog become a section.
#   release.sh SOURCE_DIR BUILD_DIR
set -euo pipefail
source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*"; exit 1; }

# A tree of its own, since the working tree may have changes; the parts of it that are needed here.
mkdir "$work/tree" "$work/tree/host"
cp -r "$source"/{CMakeLists.txt,CHANGELOG.md,ops,sdk} "$work/tree/"
cp -r "$source/host/runtime" "$work/tree/host/"
mkdir "$work/tree/providers"
cp -r "$source"/providers/{common,cpu,simd} "$work/tree/providers/"
export XZ_DEFAULTS=-0 GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
(cd "$work/tree" && git init -q && git add -A && git commit -q -m 'all: of a release')
options=()
if command -v gpg >/dev/null; then
    export GNUPGHOME=$work/keys
    mkdir -m 700 "$GNUPGHOME"
    gpg --batch --quiet --passphrase '' --quick-generate-key release@example.com ed25519 sign 2>"$work/log"
    options=(--key release@example.com)
fi
release=$work/tree/sdk/packaging/release.sh

# Without the project's address only a trial is made; the command of the README puts it in.
"$release" --source "$work/trial" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
tail -n 1 "$work/log" | grep -qE '^a trial: .* address in [1-9][0-9]* files$' || fail "$(cat "$work/log")"
"$release" --source --key '' "$work/refused" >"$work/log" 2>&1 && fail "a release without an address was signed"
grep -qE '^release.sh: [0-9]+ files have a placeholder' "$work/log" || fail "$(cat "$work/log")"
command=$(tr -s ' \n' ' ' <"$source/sdk/packaging/README.md" | grep -oE '`git grep -l [^`]*`' | tr -d '`')
(cd "$work/tree" && sh -c "${command/HOST/inlay.test}" && git commit -qam 'all: the address of the project')
"$release" --source --twice "${options[@]}" "$work/out" >"$work/log" 2>&1 || fail "$(cat "$work/log")"
grep -q 'made twice with the same bytes: 1 files' "$work/log" || fail "$(cat "$work/log")"
(cd "$work/out" && sha256sum --quiet -c SHA256SUMS)
if command -v gpg >/dev/null; then
    for file in "$work"/out/*.asc; do gpg --quiet --verify "$file" 2>"$work/log" || fail "$(cat "$work/log")"; done
    gpgconf --kill all
fi
touch "$work/tree/more"
"$release" --source "$work/other" >"$work/log" 2>&1 && fail "a tree with changes was released"
grep -q 'commit the changes first' "$work/log" || fail "$(cat "$work/log")"
rm "$work/tree/more"

# Objects of the library and of plugins, compiled in two folders with names of different lengths.
mkdir "$work/one" "$work/another"
for folder in one another; do tar -x -C "$work/$folder" --strip-components=1 -f "$work"/out/inlay-*.tar.xz; done
export SOURCE_DATE_EPOCH=1700000000
ninja -C "$build" -t compdb 2>/dev/null | jq -r '.[] | select(.output | test("(cpu_region|inlay_kit).dir.*[.]c[.]o$"))
    | .file |= (if startswith("/") then . else "'"$build"'/" + . end) | select(.file | contains("/groups/") | not) | .command' |
    awk 'NR % 60 == 2' | head -n 5 >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 2 ] || fail "no commands of objects"
number=0
while IFS= read -r command; do
    number=$((number + 1))
    for folder in one another; do
        made=$(sed -e "s|$build|@BUILD@|g; s|$source/|$work/$folder/|g; s|@BUILD@|$build|g; s|^ *[^ ]*ccache ||" \
            -e "s|-MF [^ ]*||; s|-MT [^ ]*||; s| -MD||; s| -o [^ ]*| -o $work/$folder-$number.o|" <<<"$command")
        (cd "$build" && sh -c "$made") || fail "$made"
    done
    cmp "$work/one-$number.o" "$work/another-$number.o" || fail "the object depends on its folder: $command"
done <"$work/commands"

# Changes.
changes=$work/tree/sdk/packaging/changes
rm -f "$changes"/*.*.md # those of the next release
echo 'A plugin has to state its version.' >"$changes/plugins.breaking.md"
echo 'Numbers of arrays are rounded, as those of lists.' >"$changes/numbers.fixed.md"
"$work/tree/sdk/packaging/changes.py" --tree "$work/tree" --release 0.2.0 2026-12-31
[ -z "$(find "$changes" -name '*.*.md')" ] || fail "files of changes stay"
diff <(sed -n '/^## 0.2.0/,/^## 0.1.0/p' "$work/tree/CHANGELOG.md" | head -n -1) - <<'END' || fail "the section of a release"
## 0.2.0, 2026-12-31

### Breaking

- A plugin has to state its version.

### Fixed

- Numbers of arrays are rounded, as those of lists.

END
log=$work/tree/CHANGELOG.md # a section that has no date yet: the first release
printf '# Changelog\n\n## 0.1.0, not yet released\n\nThe first version.\n' >"$log"
echo 'More.' >"$changes/more.new.md"
"$work/tree/sdk/packaging/changes.py" --tree "$work/tree" --release 0.1.0 2026-12-31
diff "$log" - <<'END' || fail "the section of the first release"
# Changelog

## 0.1.0, 2026-12-31

The first version.

### New

- More.
END
"$work/tree/sdk/packaging/changes.py" --tree "$work/tree" --release 0.1.0 2026-12-31 >"$work/log" 2>&1 && fail "released twice"
for wrong in 'a.new.md:- a list' 'b.old.md:text' 'c.new.md:'; do
    printf '%s\n' "${wrong#*:}" >"$changes/${wrong%%:*}"
    "$work/tree/sdk/packaging/changes.py" --check >"$work/log" 2>&1 && fail "accepted: $wrong"
    grep -q "^${wrong%%:*}: " "$work/log" || fail "no line for $wrong: $(cat "$work/log")"
    rm "$changes/${wrong%%:*}"
done
echo "ok: tarball, $number objects, changes"
