#!/bin/sh
# How the run in this folder was made: two servers on one machine, with one thread and with two.
set -eu
# the machine was shared: waiting threads sleep instead of spinning
export OMP_WAIT_POLICY=passive

ggmlprobe serve -p 50052 -t 1 > /dev/null & one=$!
ggmlprobe serve -p 50053 -t 2 > /dev/null & two=$!
trap 'kill $one $two' EXIT
sleep 2

ggmlprobe sweep flash_attn --kv 512,4096 --type-k f16,q8_0 --widths 1-4 --threads 2 \
    --device CPU,rpc://127.0.0.1:50052,rpc://127.0.0.1:50053 \
    --export-md flash-attn.md --export-json flash-attn.json > /dev/null || [ $? -eq 1 ]
