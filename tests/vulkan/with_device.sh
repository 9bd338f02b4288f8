#!/bin/bash
# Runs a command if there is a Vulkan device. Otherwise prints the reason and exits with 77, which ctest counts as skipped.
#   with_device.sh INLAY DATA COMMAND...
set -u
inlay=$1
data=$2
shift 2
if ! why=$("$inlay" run "$data/node/test_relu/model.onnx" --providers vulkan,reference --policy priority \
    --option vulkan.device=auto --pin op:Relu=vulkan 2>&1 >/dev/null); then
    echo "skipped: $why"
    exit 77
fi
exec "$@"
