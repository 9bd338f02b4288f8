#!/bin/bash
# Compares both policies on the same providers, model by model: whether the choice by cost is slower than the first
# provider that can run a node, and where it is faster.
#   policy.sh [--inlay FILE] [--providers LIST] [--plugin-dirs DIRS] [--rounds N] [--seconds S] [--threads N]
#             [--stat median|min|cpu] [--calibrate] [--tune] [--cache DIR] [--slow-link] [--option P.NAME=VALUE]...
#             DIR|MODEL.onnx...
# Models are those below each DIR. --slow-link puts a fast device with a slow link first, the simulated device of
# tests/abi; --calibrate measures the machine first, so that costs of links are known, and --tune each model. Both
# write into the cache folder, a temporary one unless --cache names it.
#
# The policies alternate, N rounds of S seconds each. For each round the median run (or the minimum, or the CPU time
# of a run, for busy machines) counts, and the medians over rounds are compared. The noise of a model is half of the
# relative spread of one policy's rounds, at least 2%. `plan` states whether both policies choose the same regions on
# the same providers; a difference counts only if they do not and if it exceeds the noise.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
inlay=$root/build/release/bin/inlay
providers='openblas?,reference' dirs='' rounds=5 seconds=0.3 threads=1 stat=median calibrate='' slow='' tune='' cache=''
options=() models=()

while [ $# -gt 0 ]; do
    case $1 in
    --inlay) inlay=$2; shift ;;
    --providers) providers=$2; shift ;;
    --plugin-dirs) dirs=$2; shift ;;
    --rounds) rounds=$2; shift ;;
    --seconds) seconds=$2; shift ;;
    --threads) threads=$2; shift ;;
    --stat) stat=$2; shift ;;
    --option) options+=(--option "$2"); shift ;;
    --calibrate) calibrate=1 ;;
    --tune) tune=1 ;;
    --cache) cache=$2; shift ;;
    --slow-link) slow=1 ;;
    -*) sed -n '2,8s/^# *//p' "$0"; exit 2 ;;
    *) models+=("$1") ;;
    esac
    shift
done
[ -x "$inlay" ] || { echo "$inlay does not exist: build it first, or name it with --inlay" >&2; exit 1; }
[ ${#models[@]} -gt 0 ] || { sed -n '2,8s/^# *//p' "$0" >&2; exit 2; }
if [ -n "$slow" ]; then
    device=$(dirname "$inlay")/../tests/abi/fake
    providers=fake,$providers dirs=${dirs:+$dirs:}$device
    options+=(--option fake.link_us=20 --option fake.link_mb_s=2000 --option fake.element_ps=100)
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
common=(--intra-threads "$threads" --providers "$providers" --cache-dir "${cache:-$work/cache}" "${options[@]}")
[ -z "$dirs" ] || common+=(--plugin-dirs "$dirs")
mkdir "$work/cache"
if [ -n "$calibrate" ]; then
    "$inlay" tune --machine --threads "$threads" "${common[@]}" >"$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
fi

median() { # of the numbers on stdin, and their relative interquartile range
    sort -g | awk '{ v[NR] = $1 } END {
        m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
        low = int((NR + 3) / 4); high = NR + 1 - low
        printf "%.6g %.6g\n", m, (m > 0 ? (v[high] - v[low]) / m : 0) }'
}

# The provider and the nodes of each region, bodies included.
plan_of() { # POLICY MODEL ARGUMENTS
    "$inlay" explain "$2" --json --policy "$1" "${@:3}" 2>/dev/null |
        jq -c '[.. | objects | select(has("provider") and has("nodes") and has("bytes_in")) | [.provider, .nodes]]'
}

compared=0 slower=0 faster=0 failed=0
printf '%-44s %12s %12s %7s %6s  %-5s %s\n' model 'priority ms' 'cost ms' ratio noise plan verdict
while IFS= read -r model; do
    name=${model%/model.onnx}
    name=$(basename "$(dirname "$name")")/$(basename "$name" .onnx)
    rm -rf "$work/in" "$work"/*.ms
    mkdir "$work/in"
    if ! /usr/bin/python3 "$root/tests/models/check_models.py" "$inlay" inputs "$model" "$work/in" >"$work/sizes" \
        2>"$work/err"; then
        printf '%-44s no inputs: %s\n' "$name" "$(tail -n 1 "$work/err")"
        failed=$((failed + 1))
        continue
    fi
    arguments=("${common[@]}")
    while IFS= read -r size; do
        arguments+=(--dim "${size/=/~=}")
    done <"$work/sizes"
    if [ -n "$tune" ]; then
        "$inlay" tune "$model" --inputs "$work/in" "${arguments[@]}" >"$work/out" 2>&1 || cat "$work/out" >&2
    fi
    for ((round = 0; round < rounds; round++)); do
        for policy in priority cost; do
            if ! "$inlay" bench "$model" --inputs "$work/in" --policy $policy --seconds "$seconds" --json \
                "${arguments[@]}" >"$work/out" 2>"$work/err"; then
                printf '%-44s %s\n' "$name" "$(jq -r .error.message "$work/out" 2>/dev/null || tail -n 1 "$work/err")"
                failed=$((failed + 1))
                continue 3
            fi
            jq ".${stat}_ms" "$work/out" >>"$work/$policy.ms"
        done
    done
    read -r first first_noise < <(median <"$work/priority.ms")
    read -r chosen chosen_noise < <(median <"$work/cost.ms")
    same=other
    [ "$(plan_of priority "$model" "${arguments[@]}")" != "$(plan_of cost "$model" "${arguments[@]}")" ] || same=same
    read -r ratio noise verdict < <(awk -v a="$first" -v b="$chosen" -v x="$first_noise" -v y="$chosen_noise" \
        -v plan=$same 'BEGIN {
        noise = x > y ? x : y
        noise = noise > 0.02 ? noise : 0.02
        r = b / a
        print r, noise, (plan == "same" ? "-" : r > 1 + noise ? "slower" : r < 1 - noise ? "faster" : "-") }')
    printf '%-44s %12.4f %12.4f %7.3f %5.1f%%  %-5s %s\n' "$name" "$first" "$chosen" "$ratio" \
        "$(awk -v n="$noise" 'BEGIN { print 100 * n }')" "$same" "$verdict"
    compared=$((compared + 1))
    case $verdict in
    slower) slower=$((slower + 1)) ;;
    faster) faster=$((faster + 1)) ;;
    esac
done < <(find "${models[@]}" -name '*.onnx' | sort)
echo "$compared models, cost slower beyond noise: $slower, strictly faster: $faster, failed: $failed"
[ $slower -eq 0 ] && [ $failed -eq 0 ]
