# Run by `cmake --install`: copies the closure of NEEDED of the programs and their licences. glibc and the NVIDIA driver
# belong to the machine. The CUDA runtime and CUPTI are always copied: libtorch_cpu.so needs them.
set(_of_machine "^(ld-linux.*|lib(c|m|dl|rt|pthread|util|resolv)|libcuda|libnvidia-ml)\\.so")
set(_cuda "^lib(torch_cuda|c10_cuda|torch_nvshmem|cublas|cublasLt|cudnn|cufft|cufile|curand|cusolver|cusparse|cusparseLt|nccl|nvJitLink|nvshmem_host)\\.so")
set(_excluded ${_of_machine})
if(NOT RONDO_INSTALL_CUDA_LIBRARIES)
  list(APPEND _excluded ${_cuda})
endif()
set(_unresolved)
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES ${RONDO_PROGRAM} ${RONDO_WORKER}
  MODULES ${RONDO_ARROW_MODULE}
  RESOLVED_DEPENDENCIES_VAR _libraries
  UNRESOLVED_DEPENDENCIES_VAR _unresolved
  CONFLICTING_DEPENDENCIES_PREFIX _conflicts
  PRE_EXCLUDE_REGEXES ${_excluded})
if(_unresolved OR _conflicts_FILENAMES)
  message(FATAL_ERROR "These libraries of the programs are missing or ambiguous: ${_unresolved} ${_conflicts_FILENAMES}. "
    "Run scripts/setup.sh, or scripts/setup.sh --cuda for a CUDA build, and install again.")
endif()
# cuDNN and NVRTC load these by name at run time.
foreach(_library IN LISTS _libraries)
  if(_library MATCHES "/libcudnn\\.so")
    get_filename_component(_folder ${_library} DIRECTORY)
    file(GLOB _loaded ${_folder}/libcudnn_*.so.* ${_folder}/../../cu13/lib/libnvrtc.so.* ${_folder}/../../cu13/lib/libnvrtc-builtins.so.*)
    list(APPEND _libraries ${_loaded})
  endif()
endforeach()

set(_root "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}")
set(_lib ${_root}/lib)
set(_licenses ${_root}/share/doc/rondo/licenses)
set(_without_license)

# Copies the licence files of a wheel or a Debian package that owns `library`; sets `found`.
function(_install_license library found)
  set(${found} FALSE PARENT_SCOPE)
  # A wheel lists its files in NAME.dist-info/RECORD, relative to the folder that holds it.
  get_filename_component(folder ${library} DIRECTORY)
  while(NOT folder STREQUAL "/")
    file(RELATIVE_PATH path ${folder} ${library})
    file(GLOB records ${folder}/*.dist-info/RECORD)
    foreach(record IN LISTS records)
      file(STRINGS ${record} lines REGEX "^${path},")
      if(lines)
        get_filename_component(info ${record} DIRECTORY)
        get_filename_component(name ${info} NAME)
        string(REPLACE ".dist-info" "" name ${name})
        file(GLOB texts ${info}/licenses/* ${info}/METADATA)
        file(COPY ${texts} DESTINATION ${_licenses}/${name} NO_SOURCE_PERMISSIONS)
        set(${found} TRUE PARENT_SCOPE)
        return()
      endif()
    endforeach()
    get_filename_component(folder ${folder} DIRECTORY)
  endwhile()
  get_filename_component(name ${library} NAME)
  string(REGEX REPLACE "\\.so.*" "" name ${name})
  string(REGEX REPLACE "^libgcc_s$" "libgcc-s1" name ${name})
  string(REGEX REPLACE "^libstdc\\+\\+$" "libstdc++6" name ${name})
  _install_copyright(${name} copied)
  set(${found} ${copied} PARENT_SCOPE)
endfunction()

# Copies the copyright file of a Debian package; sets `found`.
function(_install_copyright package found)
  set(${found} FALSE PARENT_SCOPE)
  foreach(docs IN LISTS RONDO_PACKAGE_DOCS)
    if(EXISTS ${docs}/${package}/copyright)
      get_filename_component(text ${docs}/${package}/copyright REALPATH)
      file(COPY ${text} DESTINATION ${_licenses}/${package} NO_SOURCE_PERMISSIONS)
      set(${found} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

foreach(_library IN LISTS _libraries)
  file(INSTALL DESTINATION ${CMAKE_INSTALL_PREFIX}/lib TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN FILES ${_library})
  get_filename_component(_name ${_library} NAME)
  # LibTorch's libraries also look in folders of other wheels, which another machine may have in another version. NVIDIA's
  # stay as they are, as their licence demands.
  set(_run_path)
  file(READ_ELF ${_library} RPATH _run_path RUNPATH _run_path)
  if(_name MATCHES "^lib(torch|c10|gomp)" AND _run_path MATCHES "[^:;]+[:;]" AND NOT IS_SYMLINK ${_lib}/${_name})
    file(RPATH_SET FILE ${_lib}/${_name} NEW_RPATH "$ORIGIN")
  endif()
  _install_license(${_library} _found)
  if(NOT _found)
    list(APPEND _without_license ${_name})
  endif()
endforeach()
# Libraries inside the programs.
foreach(_package IN ITEMS libcli11-dev nlohmann-json3-dev libtomlplusplus-dev libspdlog-dev libfmt-dev libxxhash-dev
    libpcre2-dev libutf8proc-dev libssl-dev zlib1g-dev libzstd-dev)
  _install_copyright(${_package} _found)
  if(NOT _found)
    list(APPEND _without_license ${_package})
  endif()
endforeach()
if(_without_license)
  message(WARNING "No licence was found for ${_without_license}. Add them to ${_licenses} before you give the tree away.")
endif()

# The linker's run paths name folders of the machine that built the programs.
file(RPATH_SET FILE ${_root}/bin/rondo-worker NEW_RPATH "$ORIGIN/../lib")
if(RONDO_ARROW_MODULE)
  file(RPATH_SET FILE ${_lib}/librondo_arrow.so NEW_RPATH "$ORIGIN")
endif()
