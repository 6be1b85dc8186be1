# What GGML_BLAS=ON needs beside upstream's CMake, which stops in several lines without it.

if(GGML_BLAS AND NOT APPLE AND NOT BLAS_INCLUDE_DIRS)
  set(BLA_VENDOR ${GGML_BLAS_VENDOR})
  find_package(BLAS QUIET)
  if(NOT BLAS_FOUND)
    ggmlprobe_fail("GGML_BLAS=ON found no BLAS (GGML_BLAS_VENDOR=${GGML_BLAS_VENDOR}); install one (Debian: apt install libopenblas-dev, and -DGGML_BLAS_VENDOR=OpenBLAS) or give another vendor")
  endif()
  find_package(PkgConfig QUIET)
  if(NOT PKG_CONFIG_FOUND)
    ggmlprobe_fail("GGML_BLAS=ON needs pkg-config to find the headers of the BLAS; install it (Debian: apt install pkg-config), or give their folder with -DBLAS_INCLUDE_DIRS=")
  endif()
endif()
