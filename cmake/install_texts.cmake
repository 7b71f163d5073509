# Run by `cmake --install`: what the program itself prints, for shells and `man`.
function(_print file)
  set(file $ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share/${file})
  get_filename_component(folder ${file} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${RONDO_PROGRAM} ${ARGN} OUTPUT_FILE ${file} RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${RONDO_PROGRAM} ${ARGN} ended with ${failed}")
  endif()
endfunction()

_print(bash-completion/completions/rondo completion bash)
_print(rondo/completion.zsh completion zsh)
_print(man/man1/rondo.1 help --man)
