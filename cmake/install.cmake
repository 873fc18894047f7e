# install.cmake - what `make install` puts where: libraries, headers, qkv.pc, a CMake package
# (qkv::shared, qkv::static), the command, its man page and its completions.
include(CMakePackageConfigHelpers)

install(TARGETS qkv_shared EXPORT qkv-shared
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS qkv_static EXPORT qkv-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
foreach(name ${mpi_found})
  install(TARGETS qkv_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endforeach()
if(TARGET qkv_cuda)
  install(TARGETS qkv_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
install(FILES include/qkv.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY include/qkv DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")

# ---- the CMake package ------------------------------------------------------------------------
# Two export sets: a program on the shared library needs none of the libraries below it.
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/qkv)
set(package_build ${CMAKE_BINARY_DIR}/package)
install(EXPORT qkv-shared NAMESPACE qkv:: DESTINATION ${package_dir})
install(EXPORT qkv-static NAMESPACE qkv:: DESTINATION ${package_dir})
configure_package_config_file(cmake/qkv-config.cmake.in ${package_build}/qkv-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${package_build}/qkv-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${package_build}/qkv-config.cmake ${package_build}/qkv-config-version.cmake
  DESTINATION ${package_dir})

# ---- pkg-config -------------------------------------------------------------------------------
# The prefix is found from where the file lies, so an installed tree can be moved.
file(RELATIVE_PATH pc_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
set(pc_requires "jansson, libpcre2-8, libutf8proc")
if(QKV_IMAGES)
  string(APPEND pc_requires ", libpng, libjpeg, zlib")
endif()
# OpenMP by its libraries: clang's flag for it is not one that gcc knows.
set(pc_private "-lm")
foreach(library ${OpenMP_C_LIBRARIES})
  get_filename_component(folder ${library} DIRECTORY)
  get_filename_component(name ${library} NAME_WE)
  string(REGEX REPLACE "^lib" "" name ${name})
  string(APPEND pc_private " -L${folder} -l${name}")
endforeach()
if(NOT OpenMP_C_LIBRARIES)
  string(PREPEND pc_private "${OpenMP_C_FLAGS} ")
endif()
if(QKV_DNNL_LIBRARY)
  string(PREPEND pc_private "-ldnnl ")
endif()
configure_file(cmake/qkv.pc.in ${package_build}/qkv.pc @ONLY)
install(FILES ${package_build}/qkv.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

# ---- the command; it writes its own man page and completions from its option tables -----------
if(TARGET qkv-cli)
  install(TARGETS qkv-cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  function(qkv_install_help file folder)
    install(CODE "
      execute_process(COMMAND ${QKV_RUN} \"$<TARGET_FILE:qkv-cli>\" help ${ARGN}
        OUTPUT_FILE \"${package_build}/${file}\" RESULT_VARIABLE failed)
      if(failed)
        message(FATAL_ERROR \"qkv help ${ARGN} failed: \${failed}\")
      endif()")
    install(FILES ${package_build}/${file} DESTINATION ${folder})
  endfunction()
  if(CMAKE_CROSSCOMPILING AND NOT QKV_RUN)
    message(STATUS "no emulator: the man page and the completions are not installed")
    return()
  endif()
  qkv_install_help(qkv.1 ${CMAKE_INSTALL_MANDIR}/man1 --man)
  qkv_install_help(qkv ${CMAKE_INSTALL_DATADIR}/bash-completion/completions --completion bash)
  qkv_install_help(_qkv ${CMAKE_INSTALL_DATADIR}/zsh/site-functions --completion zsh)
endif()
