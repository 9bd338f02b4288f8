#!/bin/sh
# Rules that the compiler must refuse: each with its line and what is wrong.
#   rules.sh SOURCE_DIR
set -eu
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expect TEXT RULE: compiling the rule fails with that text for line 3
expect() {
    printf '# one rule\npass wrong\n%s\n' "$2" > "$work/wrong.rules"
    if awk -f "$source/host/runtime/passes/rules/compile.awk" "$source"/ops/*/*.c \
        "$source/host/runtime/passes/rule_conditions.def" "$work/wrong.rules" > "$work/out" 2> "$work/error"; then
        echo "accepted: $2"
        failed=1
    elif ! grep -qF "wrong.rules:3: $1" "$work/error" || [ -s "$work/out" ]; then
        echo "$2: says '$(cat "$work/error")' instead of '$1'"
        failed=1
    fi
}

expect "there is no operator Multiply" 'Multiply(x, y) -> Add-14(x, y)'
expect "there is no operator com.microsoft.Relu" 'com.microsoft.Relu(x) -> Relu-14(x)'
expect "Gelu has no version 19" 'Relu(x) -> Gelu-19(x)'
expect "Mul has no version 8" 'Mul-8(x, y) -> x'
expect "Relu does not have 2 inputs" 'Relu(x, y) -> x'
expect "Add does not have 1 inputs" 'Relu(x) -> Add-14(x)'
expect "Relu has no attribute alpha" 'Relu(x; alpha=1) -> x'
expect "Gelu-20 has no attribute mode" 'Relu(x) -> Gelu-20(x; mode=1)'
expect "Relu has no attribute alpha to copy" 'Relu(x) -> Elu-6(x; alpha)'
expect "Elu-1 has an attribute alpha: state its value, or its name for any" 'Elu(x) -> x'
expect "'y' is not bound" 'Relu(x) -> Add-14(x, y)'
expect "'c' is both a value and a number" 'Add-7+(c, $c) -> c'
expect "'x' has no output 1" 'Relu(a) -> x:Abs-13(a), x[1]'
expect "there is no condition 'same'" 'Relu(x) -> x if same(x)'
expect "')' is expected before ','" 'Relu(x) -> x if same_type(x, x)'
expect "a rule has a pattern, '->' and a result" 'Relu(x)'
expect "',' is expected before '->'" 'Relu(x -> x'
expect "'&' has no meaning here" 'Relu(x) & Abs(x) -> x'
expect "'Abs' is left over" 'Relu(x) -> x Abs(x)'
exit "$failed"
