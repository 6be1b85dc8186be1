# Stop with one line that names the fix. The leading space keeps CMake from wrapping it.
function(ggmlprobe_fail line)
  message(FATAL_ERROR " ggmlprobe: ${line}")
endfunction()
