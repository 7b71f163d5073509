# `cmake --install build/cpu --prefix FOLDER` makes a tree that can be moved: programs with their libraries, configs, docs,
# completion, manual page and licences. It runs on a machine with glibc and nothing else. scripts/package.sh packs it.
option(RONDO_INSTALL_CUDA_LIBRARIES "Install the CUDA libraries of a CUDA build (2.7 GiB), never the driver's" OFF)

set_target_properties(rondo rondo-worker PROPERTIES INSTALL_RPATH "$ORIGIN/../lib")
install(TARGETS rondo rondo-worker RUNTIME DESTINATION bin)
set(_arrow_module)
if(TARGET rondo_arrow)
  set_target_properties(rondo_arrow PROPERTIES INSTALL_RPATH "$ORIGIN")
  install(TARGETS rondo_arrow LIBRARY DESTINATION lib)
  set(_arrow_module $<TARGET_FILE:rondo_arrow>)
endif()
install(DIRECTORY configs DESTINATION share/rondo)
install(PROGRAMS scripts/multinode_trainer.slurm DESTINATION share/rondo/scripts)
install(FILES scripts/kubernetes_job.yaml DESTINATION share/rondo/scripts)
install(DIRECTORY docs DESTINATION share/doc/rondo)
install(FILES README.md ARCHITECTURE.md CONTRIBUTING.md DESTINATION share/doc/rondo)

# Where copyright files of packages are: the system's, and those of packages unpacked without root.
install(CODE "
  set(RONDO_PROGRAM \"$<TARGET_FILE:rondo>\")
  set(RONDO_WORKER \"$<TARGET_FILE:rondo-worker>\")
  set(RONDO_ARROW_MODULE \"${_arrow_module}\")
  set(RONDO_CUDA ${RONDO_CUDA})
  set(RONDO_INSTALL_CUDA_LIBRARIES ${RONDO_INSTALL_CUDA_LIBRARIES})
  set(RONDO_PACKAGE_DOCS /usr/share/doc \"${CMAKE_SOURCE_DIR}/.deps/root/usr/share/doc\")
")
install(SCRIPT cmake/install_libraries.cmake)
install(SCRIPT cmake/install_texts.cmake)
