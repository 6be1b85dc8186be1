#!/bin/sh
# Runs everything there is on one GPU, on a machine that needs no network.
#
#   results/gpu-run.sh fetch 3.12     where a network is: source, and wheels for that Python, into .gpu/
#   results/gpu-run.sh build          on the machine with the GPU, into the environment of python3
#   results/gpu-run.sh run FOLDER     8 minutes; once more with the same FOLDER goes on
#
# The checkout and .gpu/ (about 42 MB) are what the machine gets, FOLDER.tar.gz is what comes back.
# build needs nvcc, CMake, ninja, a C++ compiler, and cuBLAS of the toolkit or of pip's nvidia-cublas.
set -eu
root=$(CDPATH='' cd "$(dirname "$0")/.." && pwd)
cuda='13.0.*'

fetch() {
    cd "$root"
    name=llama_cpp_python-0.3.36
    archive=${GGMLPROBE_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/ggmlprobe}/$name.tar.gz
    [ -e "$archive" ] || { echo "no $archive: build once, with pip install ." >&2; exit 2; }
    rm -rf .gpu
    mkdir -p .gpu/llama.cpp
    for part in CMakeLists.txt LICENSE cmake ggml include src vendor tools/rpc; do
        set -- "$@" "$name/vendor/llama.cpp/$part"
    done
    version=$1
    shift
    tar xzf "$archive" -C .gpu/llama.cpp --strip-components=3 "$@"
    tar czf .gpu/llama.cpp.tar.gz -C .gpu llama.cpp
    rm -r .gpu/llama.cpp
    set -- --only-binary :all: --python-version "$version" --platform manylinux2014_x86_64
    for glibc in 17 24 25 26 27 28 31 34 35 39; do
        set -- "$@" --platform "manylinux_2_${glibc}_x86_64"
    done
    python3 -m pip download --quiet "$@" --dest .gpu/wheels cffi click junitparser numpy pyelftools \
        scikit-build-core "cupti-python==$cuda" "nvidia-cuda-cupti==$cuda"
    du -sh .gpu
}

build() {
    cd "$root"
    python3 -m pip install --no-index --find-links .gpu/wheels cffi click junitparser numpy \
        pyelftools scikit-build-core "cupti-python==$cuda"
    tar xzf .gpu/llama.cpp.tar.gz -C .gpu
    CMAKE_ARGS="-DGGMLPROBE_SOURCE_DIR=$PWD/.gpu/llama.cpp -DGGMLPROBE_LLAMA=OFF -DGGML_CUDA=ON \
        -DGGML_CUDA_NO_VMM=ON -DCMAKE_CUDA_ARCHITECTURES=native" python3 -m pip install --no-index \
        --no-deps --no-build-isolation -C build-dir=.gpu/build .
}

run() {
    mkdir -p "$1"
    folder=$(CDPATH='' cd "$1" && pwd -P)
    { nvidia-smi; nvcc --version; python3 -P -m ggmlprobe devices; } > "$1/machine.txt" 2>&1 || true
    status=0
    python3 -P -m ggmlprobe gpu-run "$1" || status=$?
    tar czf "$folder.tar.gz" -C "$(dirname "$folder")" "$(basename "$folder")"
    return "$status"
}

# the second argument may be anything but empty
case "$#${1:+ $1}${2:+ ...}" in
    '2 fetch ...' | '1 build' | '2 run ...') "$@" ;;
    *) sed -n 's/^#   results/usage: results/p' "$0" >&2; exit 2 ;;
esac
