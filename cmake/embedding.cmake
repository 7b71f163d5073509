# rondo_embed_text(target FILE NAME HEADER): sources of `target` may include HEADER, which has FILE's text as the constant NAME.
function(rondo_embed_text target file name header)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/generated/${header})
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DFILE=${CMAKE_CURRENT_SOURCE_DIR}/${file} -DNAME=${name}
            -P ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    DEPENDS ${file} ${CMAKE_SOURCE_DIR}/cmake/embed_text.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${out})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated)
endfunction()
