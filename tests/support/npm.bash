# shellcheck shell=bash
# Sourced by scripts of tests that use npm packages. A skipped test exits with 77.
skip() { echo "skipped: $1"; exit 77; }
need() { # TOOL...
    local tool
    for tool; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
}

# Lets npm install the packages of LIST, a package.json, into PACKAGES/node_modules, once per version of LIST.
fetch_packages() { # PACKAGES LIST
    local list log
    list=$(realpath -- "$2")
    need node npm flock
    mkdir -p "$1"
    log=$(realpath -- "$1")/npm.log
    (
        flock 9
        cmp -s "$list" "$1/fetched.json" && exit 0
        cp "$list" "$1/package.json"
        cd "$1" && timeout 240 npm install --ignore-scripts --no-audit --no-fund --fetch-retries=1 \
            --fetch-retry-mintimeout=1000 --fetch-retry-maxtimeout=5000 >"$log" 2>&1 && cp package.json fetched.json
    ) 9>"$1/lock" || skip "npm cannot fetch the packages of $2: $(grep -iE '^npm err' "$log" | head -n 1)"
}
