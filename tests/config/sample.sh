#!/bin/bash
# samples/inlay.yaml is valid, also with every key enabled, and contains every option.
#   sample.sh INLAY SAMPLE
set -u
inlay=$1
sample=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

sed -E 's/^#([a-z_.]+:|  - |    [a-z]+:|      [a-z]+:)/\1/' "$sample" >"$work/all.yaml"
for file in "$sample" "$work/all.yaml"; do
    "$inlay" config check "$file" || failed=1
done
for name in $("$inlay" config --no-config --json | jq -r '.settings[].name' | sort -u); do
    grep -q "^#$name:" "$sample" || {
        echo "samples/inlay.yaml does not list option '$name'"
        failed=1
    }
done
# The values in the sample are the library's defaults.
"$inlay" config --no-config --config "$work/all.yaml" --json | jq -r '.settings[] | select(.source == "file") |
    [.name, .value] | @tsv' >"$work/set"
"$inlay" config --no-config --json | jq -r '.settings[] | [.name, .value] | @tsv' >"$work/defaults"
grep -vxFf "$work/defaults" "$work/set" | cut -f 1 | sort -u | tr '\n' ' ' >"$work/others"
wanted='adapter cpu.pack_bytes dim error_table forbid isolate max_error memory_limit model_limits pin plugin_dirs power_watts providers reduce reference.preview require sizes state trust '
[ "$(cat "$work/others")" = "$wanted" ] || {
    echo "these keys have another value than the default: $(cat "$work/others"), not $wanted"
    failed=1
}
exit $failed
