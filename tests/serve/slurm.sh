#!/bin/bash
# The array job of samples/deploy on a private Slurm cluster on this machine: cancelled while running, submitted again,
# and requeued. Finished lines are not repeated, and no partial results remain.
#   slurm.sh INLAY WRITE_MODELS SLURM_ARRAY_SH
#
# Controller, node and munge run as the current user in a temporary folder. Exit code 77: Slurm or munge is not
# installed.
set -euo pipefail
# shellcheck source=tests/serve/common.sh
. "$(dirname "$(realpath -- "$0")")/common.sh"
PATH=$PATH:/usr/sbin:/sbin
inlay=$(realpath "$1") write_models=$2 job=$(realpath "$3")
python=/usr/bin/python3
need slurmctld slurmd sbatch munged $python
fail() { echo "$1"; squeue -a 2>&1 || true; ls -lA "$tmp/out" 2>&1 || true; tail -n 8 "$tmp"/*.log "$tmp"/job-* 2>&1; exit 1; }

# ------------------------------------------------------------------ a cluster of one node

read -r control node < <(free_ports 2)
host=$(hostname -s)
mkdir "$tmp/bin" "$tmp/state" "$tmp/spool" "$tmp/out"
chmod 755 "$tmp" # munge checks the permissions of the path to its socket
(umask 077 && head -c 128 /dev/urandom >"$tmp/key")
cat >"$tmp/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$control
SlurmdPort=$node
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$tmp/munge.socket,cred_expire=20
CredType=cred/munge
StateSaveLocation=$tmp/state
SlurmdSpoolDir=$tmp/spool
SlurmctldPidFile=$tmp/slurmctld.pid
SlurmdPidFile=$tmp/slurmd.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=2
SlurmdParameters=config_overrides
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
KillWait=1
MinJobAge=600
NodeName=$host NodeAddr=127.0.0.1 CPUs=16 RealMemory=65536 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
# cgroups are not used. Older Slurm versions have no `disabled`, and cgroup/v1 starts without existing cgroups.
[ "$(slurmd -V | grep -oE '[0-9]+' | head -n 1)" -ge 23 ] && plugin=disabled || plugin=cgroup/v1
echo "CgroupPlugin=$plugin" >"$tmp/cgroup.conf"
export SLURM_CONF=$tmp/slurm.conf
munged -F --key-file="$tmp/key" --socket="$tmp/munge.socket" --pid-file="$tmp/munged.pid" --log-file="$tmp/munged.log" \
    --seed-file="$tmp/seed" --num-threads=2 >"$tmp/munged.said.log" 2>&1 &
started+=($!)
wait_for 60 test -S "$tmp/munge.socket"
slurmctld -D >"$tmp/slurmctld.log" 2>&1 &
started+=($!)
slurmd -D >"$tmp/slurmd.log" 2>&1 &
started+=($!)
is_up() { [ "$(sinfo -h -o %t 2>/dev/null)" = idle ]; }
wait_for 60 is_up

# ------------------------------------------------------------------ a list with two inputs that do not exist yet

"$write_models" "$tmp/models"
ln -s "$inlay" "$tmp/bin/inlay"
export PATH=$tmp/bin:$PATH
make_input() { # NUMBER: x = [[N, N, N]]
    $python - "$1" "$tmp/x$1.part" <<'PY'
import struct, sys
n, path = float(sys.argv[1]), sys.argv[2]
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 3), }"
head += " " * (117 - len(head)) + "\n"
open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<3f", n, n, n))
PY
    mv "$tmp/x$1.part" "$tmp/x$1.npy"
}
for n in 1 2 3 4 5 6 7 8 9; do
    make_input $n
    echo "--input x=$tmp/x$n.npy"
done >"$tmp/list"
# Opening these blocks until they are replaced by files.
rm "$tmp/x5.npy" "$tmp/x9.npy"
mkfifo "$tmp/x5.npy" "$tmp/x9.npy"

cd "$tmp"
submit() { sbatch --parsable --array=0-2 --output="$tmp/job-%A_%a" "$job" "$tmp/models/twice.onnx" "$tmp/list" "$tmp/out"; }
done_lines() { [ "$(find out -mindepth 1 -maxdepth 1 -type d -name '[0-9]*' | sort | tr '\n' ' ')" = "$1" ]; }
state_of() { scontrol show job "$1" | sed -nE 's/.*JobState=([A-Z]+).*/\1/p' | sort -u | tr '\n' ' '; }
is_state() { [ "$(state_of "$1")" = "$2 " ]; }

# ------------------------------------------------------------------ cancelled

first=$(submit)
# Line 5 is the second line of its job, which never reaches line 8; line 9 is the last line of another job.
wait_for 120 done_lines "out/1 out/2 out/3 out/4 out/6 out/7 "
waits() { compgen -G "out/.5.*.log" >/dev/null && compgen -G "out/.9.*.log" >/dev/null; }
wait_for 60 waits
stat -c '%n %i %y' out/*/* >"$tmp/before"
scancel "$first"
is_over() { [ -z "$(squeue -h -j "$1" 2>/dev/null)" ]; }
wait_for 60 is_over "$first"
done_lines "out/1 out/2 out/3 out/4 out/6 out/7 " || fail "a cancelled job left partial results"
case $(state_of "$first") in *CANCELLED*) ;; *) fail "the job was not cancelled: $(state_of "$first")" ;; esac

# ------------------------------------------------------------------ submitted again, then requeued

make_input 5
second=$(submit)
wait_for 120 done_lines "out/1 out/2 out/3 out/4 out/5 out/6 out/7 out/8 "
wait_for 60 compgen -G "out/.9.*.log" >/dev/null
# The other jobs end soon after their last line.
one_is_left() { waiting=$(squeue -h -t R -o %i -j "$second"); [ "$(wc -l <<<"$waiting")" = 1 ]; }
wait_for 60 one_is_left
scontrol requeue "$waiting"
make_input 9
# Slurm starts a requeued job when the credential of its first start has expired (cred_expire).
wait_for 120 is_over "$second"
done_lines "out/1 out/2 out/3 out/4 out/5 out/6 out/7 out/8 out/9 " || fail "results are missing"
is_state "$second" COMPLETED || fail "a job failed: $(state_of "$second")"
[ "$(scontrol show job "$waiting" | grep -oE 'Restarts=[0-9]+')" = Restarts=1 ] || fail "the job was not requeued"

# ------------------------------------------------------------------ results

stat -c '%n %i %y' out/[1-467]/* >"$tmp/after"
cmp "$tmp/before" "$tmp/after" || fail "finished lines ran again"
[ -z "$(find out -mindepth 1 -maxdepth 1 ! -type d)$(find out -mindepth 1 -maxdepth 1 -name '.*')" ] || fail "partial results are left"
for n in 1 2 3 4 5 6 7 8 9; do
    $python - $n out/$n/y.npy <<'PY' || fail "line $n has another result"
import struct, sys
assert struct.unpack("<3f", open(sys.argv[2], "rb").read()[-12:]) == (2 * float(sys.argv[1]),) * 3
PY
done
echo "cancelled, submitted again and requeued: 9 lines, each once"
