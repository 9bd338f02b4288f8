#!/bin/bash
# Checks the subject of a commit: `area: verb ...`, one change, at most 72 characters. Prints each fault.
#   subject.sh SUBJECT
# Fixes and features differ by their verbs, which the file verbs beside this script lists.
set -uo pipefail
here=$(dirname "$0")
subject=$1
failed=0
fault() {
    echo "$*"
    failed=1
}
[ ${#subject} -le 72 ] || fault "the subject has ${#subject} characters, more than 72"
[[ $subject != *"; "* ]] || fault "the subject has two changes: make two commits"
if [[ $subject =~ ^[^:]+:\ ([^ ,]+) ]]; then
    grep -qx "${BASH_REMATCH[1]}" "$here/verbs" ||
        fault "'${BASH_REMATCH[1]}' is no verb of tests/house/verbs: begin with one after the area, as 'cpu: fix ...'"
else
    fault "the subject is not 'area: verb what'"
fi
exit $failed
