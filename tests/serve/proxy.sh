#!/bin/bash
# Two servers behind HAProxy with samples/deploy's settings, under an open load of 200 requests per second. Both
# servers are restarted one by one: no request fails. Then one is killed: at most its current requests are lost.
#   proxy.sh INLAY_SERVE WRITE_MODELS HAPROXY_CFG OPEN_LOOP_PY
#
# Each server, and the proxy with its clients, has its own network namespace if the system permits;
# otherwise all use the loopback. Exit code 77: HAProxy or Python is not installed.
set -euo pipefail
# shellcheck source=tests/serve/common.sh
. "$(dirname "$(realpath -- "$0")")/common.sh"
PATH=$PATH:/usr/sbin:/sbin
serve=$1 write_models=$2 config=$3 open_loop=$4
python=/usr/bin/python3
need haproxy $python
"$write_models" "$tmp/models"
spaces=()
end() {
    finish
    for space in "${spaces[@]}"; do ip netns del "$space" 2>/dev/null || true; done
}
trap end EXIT

# ------------------------------------------------------------------ the network

front=inlay$$-front
if ip netns add $front 2>"$tmp/why"; then
    spaces=("$front" "inlay$$-1" "inlay$$-2")
    ip -n $front link set lo up
    for n in 1 2; do
        ip netns add "inlay$$-$n"
        ip -n $front link add "to$n" type veth peer name eth0 netns "inlay$$-$n"
        ip -n $front addr add 10.77.$n.1/30 dev "to$n"
        ip -n "inlay$$-$n" addr add 10.77.$n.2/30 dev eth0
        ip -n "inlay$$-$n" link set eth0 up
        ip -n $front link set "to$n" up
    done
    address=(- 10.77.1.2 10.77.2.2) port=(8080 8000 8000) grpc=(8081 8001 8001)
    in_space() { local space=${spaces[$1]}; shift; exec ip netns exec "$space" "$@"; }
    echo "three network namespaces"
else
    echo "no network namespaces here ($(cat "$tmp/why")): over the loopback"
    address=(- 127.0.0.1 127.0.0.1)
    read -r -a free < <(free_ports 6)
    port=("${free[@]:0:3}") grpc=("${free[@]:3:3}")
    in_space() { shift; exec "$@"; }
fi

# ------------------------------------------------------------------ servers and proxy

server=(- 0 0)
start_one() { # 1 or 2
    : >"$tmp/server$1.log"
    (in_space "$1" "$serve" "$tmp/models" --no-config --listen "${address[$1]}" --port "${port[$1]}" \
        --grpc-port "${grpc[$1]}" --drain-ms 3500 --grace-ms 20000 --intra-threads 1) >>"$tmp/server$1.log" 2>&1 &
    server[$1]=$! started+=($!)
    wait_for 60 grep -q "ready, models" "$tmp/server$1.log"
}
seen_up() { grep -q "Server rest_servers/$1 is UP" "$tmp/proxy.log"; }
requests() { # SECONDS: sends requests to the proxy in the background; writes the result to $tmp/result
    (in_space 0 $python "$open_loop" "${port[0]}" twice x 3 200 "$1") >"$tmp/result" 2>"$tmp/client.log" &
    client=$! started+=($!)
}
result() { wait $client || fail "the client failed"; read -r sent failed _ <"$tmp/result"; }

start_one 1
start_one 2
sed -e "s/10.0.0.1:8000/${address[1]}:${port[1]}/; s/10.0.0.2:8000/${address[2]}:${port[2]}/" \
    -e "s/10.0.0.1:8001/${address[1]}:${grpc[1]}/; s/10.0.0.2:8001/${address[2]}:${grpc[2]}/" \
    -e "s/bind :8080/bind :${port[0]}/; s/bind :8081/bind :${grpc[0]}/" \
    -e "/balance leastconn/s/\$/\n    option log-health-checks/; s/^global/global\n    log stderr format raw local0/" \
    -e "s/^defaults/defaults\n    log global/; s/maxconn 20000/maxconn 1000/" "$config" >"$tmp/haproxy.cfg"
# In the sample, the health checks of the gRPC servers use the REST port.
sed -i -e "/backend grpc_servers/,\$s/check port 8000/check port ${port[1]}/" "$tmp/haproxy.cfg"
haproxy -c -q -f "$tmp/haproxy.cfg" || fail "HAProxy refuses samples/deploy/haproxy.cfg"
# The page on the server has lines for such a file that limit each client.
page=$(dirname "$config")/../../sdk/docs/pages/server.md
sed -n -E 's/^    ((stick-table|http-request) .*)/    \1/p' "$page" >"$tmp/limits"
[ "$(wc -l <"$tmp/limits")" = 3 ] || fail "$page has no lines that limit each client"
sed -e "/^frontend rest/r $tmp/limits" "$tmp/haproxy.cfg" >"$tmp/limited.cfg"
haproxy -c -q -f "$tmp/limited.cfg" || fail "HAProxy refuses the lines of $page"
(in_space 0 haproxy -db -f "$tmp/haproxy.cfg") >"$tmp/proxy.log" 2>&1 &
started+=($!)
both_answer() { (in_space 0 $python "$open_loop" "${port[0]}" twice x 3 50 0.3) 2>/dev/null | grep -q "^[0-9]* 0 "; }
wait_for 60 both_answer

# ------------------------------------------------------------------ a rolling restart

requests 24
sleep 1
for n in 1 2; do
    [ $n = 1 ] && name=one || name=two
    kill "${server[$n]}"
    wait "${server[$n]}" || fail "server $n ended with $?"
    : >"$tmp/proxy.log" # so that seen_up finds only new lines
    start_one $n
    wait_for 60 seen_up $name
done
kill -0 $client 2>/dev/null || fail "the restarts took longer than the requests"
result
echo "rolling restart: $sent requests, $failed failed"
[ "$sent" -gt 1000 ] || fail "too few requests"
[ "$failed" = 0 ] || fail "a restart lost requests"

# ------------------------------------------------------------------ one is killed

requests 6
sleep 2
kill -9 "${server[1]}"
result
echo "one killed: $sent requests, $failed failed"
[ "$sent" -gt 500 ] || fail "too few requests"
[ "$failed" -le 1 ] || fail "more requests were lost than the killed server was processing"
[ "$(grep -c "" "$tmp/server2.log")" -gt 0 ] && kill -0 "${server[2]}" || fail "the other server has ended"
