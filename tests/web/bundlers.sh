#!/bin/bash
# bundlers.py with the bundlers from npm: bundlers.sh SOURCE_DIR BUILD_DIR INLAY MAKE_MODELS
# Exit code 77: npm cannot fetch them, or Chromium or the package inlay-web is missing.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/support/npm.bash
. "$here/../support/npm.bash"
packages=$2/npm_web
fetch_packages "$packages" "$here/npm.json"
/usr/bin/python3 -B "$here/bundlers.py" "$3" "$4" "$2/lib/inlay/web" "$1" "$(realpath "$packages")/node_modules"
