#!/bin/sh
# How the runs in this folder were made: run in an empty folder that holds lib/, which is
# package/bins/linux-x64-vulkan of npm's @node-llama-cpp/linux-x64-vulkan 3.22.1, where lavapipe is
# the one Vulkan driver that finds a device (Debian 12: apt install mesa-vulkan-drivers).
# Lavapipe compiles a shader for each width below 9: 10 to 20 CPU-seconds each, kept afterwards.
set -eu

# lavapipe is of a type that ggml takes only where it is named; waiting threads sleep
export GGML_VK_VISIBLE_DEVICES=0 OMP_WAIT_POLICY=passive

record() {
    name=$1
    shift
    ggmlprobe "$@" --lib lib --device Vulkan0 \
        --export-md "$name.md" --export-json "$name.json" > /dev/null || [ $? -eq 1 ]
}

products='--m 512 --k 1024'
heads='--hs 64 --heads 4 --kv-heads 2'
record bisect-f32 bisect mul_mat --type f32 $products --axis width --from 1 --to 16 --timeout 600
record flash-attn op flash_attn $heads --kv 512 --type-k f16,q8_0 --widths 1-4,8,9 --kernels --timeout 600
record disable-f16 op mul_mat --type f32,f16,q4_0,q8_0 $products --widths 1,2,9 --kernels --timeout 600 \
    --set-env GGML_VK_DISABLE_F16=1
record sweep sweep mul_mat --type f32,f16,q4_0,q8_0 $products --widths 1-9,16,17 --kernels --timeout 600
