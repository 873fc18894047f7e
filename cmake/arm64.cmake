# arm64.cmake - CMake's toolchain file for 64-bit Arm, from another machine: Debian's cross
# compiler, the libraries that tools/arm64-sysroot unpacked into QKV_SYSROOT, and qemu-user, in
# which ctest runs the tests.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QKV_SYSROOT)
set(QKV_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build-arm64-sysroot CACHE PATH
  "Debian's arm64 packages, unpacked by tools/arm64-sysroot")
get_filename_component(CMAKE_SYSROOT ${QKV_SYSROOT} ABSOLUTE)
if(NOT EXISTS ${CMAKE_SYSROOT}/usr/include/stdio.h)
  message(FATAL_ERROR "no C library in ${CMAKE_SYSROOT}: run tools/arm64-sysroot ${CMAKE_SYSROOT}")
endif()

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
find_program(QKV_CXX aarch64-linux-gnu-g++) # for tests
find_program(QKV_QEMU qemu-aarch64)
if(QKV_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${QKV_QEMU} -L ${CMAKE_SYSROOT})
endif()
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config looks here alone, and puts the folder before what it finds.
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR}
  ${CMAKE_SYSROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${CMAKE_SYSROOT}/usr/share/pkgconfig)
