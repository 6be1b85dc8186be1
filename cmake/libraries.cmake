# libggml with its backends and libllama out of upstream's own CMake, every GGML_* option unchanged.

set(BUILD_SHARED_LIBS ON CACHE BOOL "Build shared libraries" FORCE)
foreach(part COMMON TESTS TOOLS EXAMPLES SERVER APP UI MTMD)
  set(LLAMA_BUILD_${part} OFF CACHE BOOL "not part of ggmlprobe" FORCE)
endforeach()
foreach(part LLAMA_CURL LLAMA_OPENSSL GGML_BUILD_TESTS GGML_BUILD_EXAMPLES)
  set(${part} OFF CACHE BOOL "not part of ggmlprobe" FORCE)
endforeach()

# Small, and the server among it makes this machine's devices probed from another one.
set(GGML_RPC ON CACHE BOOL "ggml: use RPC")

# Upstream asks git in the source directory, which answers for whatever tree surrounds it. GIT_EXE
# that is set and false silences ggml's own question, and the commit known here goes in instead.
set(GIT_EXE OFF CACHE INTERNAL "")
set(LLAMA_BUILD_COMMIT "${ggmlprobe_commit}")
set(LLAMA_BUILD_NUMBER 0)

if(APPLE)
  set(ggmlprobe_origin "@loader_path")
else()
  set(ggmlprobe_origin "$ORIGIN")
endif()
set(CMAKE_INSTALL_RPATH "${ggmlprobe_origin}")
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
if(GGML_CUDA)
  # Where pip's nvidia packages lie, seen from ggmlprobe/lib: CUDA 13, then the older layout.
  foreach(place cu13 cublas cuda_runtime)
    list(APPEND CMAKE_INSTALL_RPATH "${ggmlprobe_origin}/../../nvidia/${place}/lib")
  endforeach()
endif()

# Assertion messages name ggml/src/..., not a build directory that is gone.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag("-fmacro-prefix-map=a=b" GGMLPROBE_HAS_PREFIX_MAP)
if(GGMLPROBE_HAS_PREFIX_MAP)
  add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:-fmacro-prefix-map=${ggmlprobe_source}/=>")
endif()

# Not part of all, so that upstream's headers and package files are not installed.
add_subdirectory("${ggmlprobe_source}" "${CMAKE_BINARY_DIR}/upstream" EXCLUDE_FROM_ALL)

# Every shared library (or plug-in) defined under directory.
function(ggmlprobe_shared_libraries directory result)
  set(libraries "")
  get_property(targets DIRECTORY "${directory}" PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target IN LISTS targets)
    get_target_property(type ${target} TYPE)
    if(type MATCHES "^(SHARED|MODULE)_LIBRARY$")
      list(APPEND libraries ${target})
    endif()
  endforeach()
  get_property(subdirectories DIRECTORY "${directory}" PROPERTY SUBDIRECTORIES)
  foreach(subdirectory IN LISTS subdirectories)
    ggmlprobe_shared_libraries("${subdirectory}" below)
    list(APPEND libraries ${below})
  endforeach()
  set(${result} "${libraries}" PARENT_SCOPE)
endfunction()

ggmlprobe_shared_libraries("${ggmlprobe_source}/ggml" ggmlprobe_libraries)
foreach(target IN LISTS ggmlprobe_libraries)
  if(target MATCHES "^ggml-cpu")
    # After upstream's own -mamx-*, because the last one counts.
    target_compile_options(${target} PRIVATE ${ggmlprobe_amx_flags})
  endif()
endforeach()
if(GGMLPROBE_LLAMA)
  list(APPEND ggmlprobe_libraries llama)
endif()

# llama.h of this very version, from which the structs passed by value are taken, and what it includes.
function(ggmlprobe_headers name result)
  set(headers "")
  foreach(folder include ggml/include)
    set(header "${ggmlprobe_source}/${folder}/${name}")
    if(EXISTS "${header}")
      set(headers "${header}")
      file(STRINGS "${header}" lines REGEX "^#include \"[a-z-]+\\.h\"")
      foreach(line IN LISTS lines)
        string(REGEX REPLACE "^#include \"([a-z-]+\\.h)\".*" "\\1" included "${line}")
        ggmlprobe_headers("${included}" below)
        list(APPEND headers ${below})
      endforeach()
      break()
    endif()
  endforeach()
  list(REMOVE_DUPLICATES headers)
  set(${result} "${headers}" PARENT_SCOPE)
endfunction()

if(GGMLPROBE_LLAMA)
  ggmlprobe_headers(llama.h ggmlprobe_llama_headers)
  install(FILES ${ggmlprobe_llama_headers} DESTINATION lib/include)
endif()

# One file per library under the name the others ask for: a wheel holds no symbolic links.
foreach(target IN LISTS ggmlprobe_libraries)
  set_property(TARGET ${target} PROPERTY VERSION)
  set_property(TARGET ${target} PROPERTY SOVERSION)
  set_property(TARGET ${target} PROPERTY PUBLIC_HEADER)
endforeach()

set(ggmlprobe_programs "")
if(GGML_RPC AND EXISTS "${ggmlprobe_source}/tools/rpc/CMakeLists.txt")
  add_subdirectory("${ggmlprobe_source}/tools/rpc" "${CMAKE_BINARY_DIR}/rpc" EXCLUDE_FROM_ALL)
  foreach(program ggml-rpc-server rpc-server)
    if(TARGET ${program})
      list(APPEND ggmlprobe_programs ${program})
    endif()
  endforeach()
endif()

add_custom_target(ggmlprobe_libraries ALL DEPENDS ${ggmlprobe_libraries} ${ggmlprobe_programs})
install(TARGETS ${ggmlprobe_libraries} ${ggmlprobe_programs}
        LIBRARY DESTINATION lib RUNTIME DESTINATION lib)
install(FILES "${ggmlprobe_source}/LICENSE" DESTINATION lib RENAME LICENSE.llama.cpp OPTIONAL)
