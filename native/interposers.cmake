# Libraries that take the place of a backend's functions (ggmlprobe/dispatch/arms.py). They link
# none of libggml: what they replace is looked up in the process that loads them.
foreach(name sgemm vec_dot mul_mat)
  add_library(ggmlprobe_interpose_${name} SHARED interpose_${name}.c)
endforeach()
# C++ for the mangled names of libggml-cuda's functions
add_library(ggmlprobe_interpose_cuda SHARED interpose_cuda.cpp)

foreach(name sgemm vec_dot mul_mat cuda)
  set(library ggmlprobe_interpose_${name})
  set_target_properties(${library} PROPERTIES
    C_STANDARD 11 C_EXTENSIONS ON C_VISIBILITY_PRESET hidden CXX_STANDARD 17)
  target_compile_options(${library} PRIVATE -Wall -Wextra)
  target_link_libraries(${library} PRIVATE ${CMAKE_DL_LIBS})
  install(TARGETS ${library} LIBRARY DESTINATION lib)
endforeach()
