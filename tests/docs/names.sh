#!/bin/bash
# Names in documents and comments exist: runs names.py on the tree, and on a small tree whose mistakes it must find.
#   names.sh SOURCE_DIR
set -uo pipefail
source=$1
here=$source/tests/docs
failed=0

python3 "$here/names.py" "$source" || { echo "FAIL: names that do not resolve (above)"; failed=1; }

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
mkdir -p "$copy/host/tools/cli" "$copy/sdk/docs/pages"
echo '# The first, step by step' >"$copy/sdk/docs/pages/first.md"
echo '# The second' >"$copy/sdk/docs/pages/second.md"
echo '[a](first.md#the-first-step-by-step), [b](first.md#the-second)' >"$copy/sdk/docs/pages/index.md"
printf 'VERB(run, "")\n' >"$copy/host/tools/cli/verbs.def"
printf '/* See gone.c and plan_gone(), next to plan.c and plan_build(). */\nint plan_build(void);\nint out_dir;\n' >"$copy/host/plan.c"
printf '/* Values: any. See "Values"; see\n * "Threads". */\n' >"$copy/host/parts.h"
# shellcheck disable=SC2016
printf '%s\n' 'Right: `host/plan.c`, `plan.c`, `plan_build()`, `--out-dir`, `inlay run`, `out_dir`, [a](host/plan.c).' \
    'Wrong heading: see "How it goes" in README.md, and "Right: `host" in README.md.' \
    'Wrong: `host/gone.c`, `plan_gone()`, `--gone`, `inlay gone`, `gone_dir`, [a](gone.md), [b](plan.c), `gone/`.' >"$copy/README.md"
out=$(python3 "$here/names.py" "$copy") && { echo "FAIL: mistakes were not noticed"; failed=1; }
expected='README.md:2: there is no heading "How it goes" in README.md
host/parts.h:1: there is no heading "Threads" in this file
sdk/docs/pages/index.md:1: there is no row with a link to second.md
README.md:3: there is no file gone.md
README.md:3: there is no file plan.c
README.md:3: there is no file host/gone.c
README.md:3: there is no function plan_gone
README.md:3: there is no option --gone
README.md:3: there is no verb gone
README.md:3: there is no name gone_dir
README.md:3: there is no file gone/
sdk/docs/pages/index.md:1: there is no heading first.md#the-second
host/plan.c:1: there is no file gone.c
host/plan.c:1: there is no function plan_gone'
[ "$out" = "$expected" ] || { echo "FAIL: names.py said:"; diff <(echo "$expected") <(echo "$out"); failed=1; }
exit $failed
