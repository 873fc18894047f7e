#!/bin/sh
# two-hosts.sh - qkv trains on two hosts that one machine plays: two network namespaces, joined by a
# link of a given rate, in each of which one rank has half of the cores. Beside it, what `qkv scale`
# predicts. Only loopback devices and a pair of virtual ones take part.
#
#     sudo bench/two-hosts.sh [RATE] [MODEL] [BATCH] [LENGTH] [UPDATES]   100mbit mini 8 128 40
#     sudo bench/two-hosts.sh lost
#
# lost: the second host vanishes after the first checkpoint. Prints the sentence of rank 0 and the
# seconds until it ended; then one process resumes the run, to the bits of a run that had no fault.
# RATE: so many mbit or gbit. UPDATES: a multiple of 10, 20 at least. Needs root, iproute2 (ip, tc),
# Open MPI (mpirun.openmpi) and a kernel with network namespaces. Prints seconds of an update:
# measured, and predicted.
set -eu
rate=${1:-100mbit} lost=
[ "$rate" != lost ] || lost=1 rate=1gbit
model=${2:-mini} batch=${3:-8} length=${4:-128} last=${5:-40}
# TCP has 1448 bytes in a frame of 1514.
bandwidth=$(echo "$rate" | awk '{ printf "%.6g%s", $1 * 1448 / 1514, /gbit/ ? "Gbit" : "Mbit" }')
qkv=${QKV:-$(dirname "$0")/../build/qkv}
threads=$(($(nproc) / 2))
[ "$threads" -ge 1 ] || threads=1
folder=$(mktemp -d)
a=qkv-a-$$ b=qkv-b-$$

clean() {
    ip netns del "$a" 2>/dev/null || :
    ip netns del "$b" 2>/dev/null || :
    rm -rf "$folder"
}
trap clean EXIT
trap 'exit 1' INT TERM

# host NAMESPACE DEVICE ADDRESS: a device of the link, and its rate
host() {
    ip -n "$1" addr add "$3/24" dev "$2"
    ip -n "$1" link set "$2" up
    ip -n "$1" link set lo up
    tc -n "$1" qdisc add dev "$2" root tbf rate "$rate" burst 256kb latency 100ms
}
ip netns add "$a"
ip netns add "$b"
ip link add veth-qkv netns "$a" type veth peer name veth-qkv netns "$b"
host "$a" veth-qkv 192.0.2.1
host "$b" veth-qkv 192.0.2.2

# In place of ssh: mpirun starts its daemon in the other namespace. The first word is the host.
cat >"$folder/agent" <<EOF
#!/bin/sh
shift
exec ip netns exec $b sh -c "\$*"
EOF
chmod +x "$folder/agent"

# on HOST COMMAND...: on its cores. Else the kernel moves ranks to the core that handles the link's
# packets, where they wait for each other.
cat >"$folder/on" <<EOF
#!/bin/sh
first=\$((\$1 * $threads))
shift
exec taskset -c \$first-\$((first + $threads - 1)) "\$@"
EOF
chmod +x "$folder/on"

# The text is the documentation.
cat "$(dirname "$0")"/../docs/*.md >"$folder/text"

# mpi COMMAND...: one rank on each host. mpirun would bind each to the same core, the first.
mpi() {
    ip netns exec "$a" mpirun.openmpi --allow-run-as-root -n 2 -host 192.0.2.1,192.0.2.2 \
        --bind-to none --mca plm_rsh_agent "$folder/agent" --mca plm rsh \
        --mca btl tcp,self --mca btl_tcp_if_include veth-qkv --mca oob_tcp_if_include veth-qkv \
        sh -c 'on=$1; shift; exec "$on" "$OMPI_COMM_WORLD_RANK" "$@"' sh "$folder/on" "$@"
}

if [ "$lost" ]; then
    common="train lm --data $folder/text --model nano --tokenizer char --length 32 --batch 8
        --steps 2000 --save-every 50 --shards 2 --threads 1 --quiet"
    # shellcheck disable=SC2086
    mpi env QKV_DIST_SILENCE=10 "$qkv" $common --out "$folder/run" 2>"$folder/notes" &
    while ! [ -s "$folder/run/train/state.safetensors" ]; do
        kill -0 $! || exit 1
        sleep 0.1
    done
    ip -n "$b" link set veth-qkv down
    cut=$(date +%s)
    while ip netns pids "$a" | xargs -I{} readlink /proc/{}/exe | grep -q qkv; do
        sleep 0.1
    done
    echo "ended after $(($(date +%s) - cut)) seconds: $(grep '^qkv: ' "$folder/notes")"
    # mpirun itself waits for its daemon on the lost host, as long as TCP does: minutes.
    { ip netns pids "$a"; ip netns pids "$b"; } | xargs kill -9
    # shellcheck disable=SC2086
    "$qkv" $common --out "$folder/run" --resume
    # shellcheck disable=SC2086
    "$qkv" $common --out "$folder/straight"
    cmp "$folder/run/model.safetensors" "$folder/straight/model.safetensors" &&
        echo "resumed to the same bits"
    exit
fi

mpi "$qkv" train lm --data "$folder/text" --layout gpt2 --model "$model" --vocab 4096 \
    --length "$length" --batch "$batch" --steps $((last + 1)) --eval-every $((last + 1)) \
    --eval-units 64 --save-every 1000000 --threads "$threads" --out "$folder/run" --quiet

# at UPDATE: seconds until it was done
at() {
    sed -n "s/.*\"kind\": \"step\", \"step\": $1, \"seconds\": \([0-9.]*\).*/\1/p" \
        "$folder/run/train/metrics.jsonl"
}
vocab=$(sed -n 's/.*"vocab_size": *\([0-9]*\).*/\1/p' "$folder/run/config.json")

# The step is measured twice at once, since the hosts share a machine.
scale() {
    "$folder/on" "$1" "$qkv" scale --model "$model" --vocab "$vocab" --batch $((batch / 2)) \
        --length "$length" --ranks 2 --bandwidth "$bandwidth" --latency 50us \
        --threads "$threads" --repeats 9 --json
}
scale 0 >/dev/null &
predicted=$(scale 1)
wait
value() { printf '%s' "${predicted##*predictions}" | sed "s/.*\"$1\": \([0-9.e-]*\).*/\1/"; }
awk -v from="$(at 10)" -v to="$(at "$last")" -v n=$((last - 10)) -v step="$(value step_s)" \
    -v compute="$(value compute_s)" -v wait="$(value waiting_s)" \
    -v update="$(value update_s)" '
BEGIN {
    measured = (to - from) / n
    printf "seconds of an update: measured %.3f, predicted %.3f (%+.1f %%): ", measured, step,
           100 * (step / measured - 1)
    printf "compute %.3f, waiting %.3f, update %.3f\n", compute, wait, update
}'
