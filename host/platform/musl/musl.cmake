# Toolchain for musl on x86-64: Debian's musl-gcc (musl-tools). It has none of this machine's headers, so the kernel's are
# found by links to them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_FIND_ROOT_PATH /usr/lib/musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# pkg-config would find the libraries of this machine.
set(ENV{PKG_CONFIG_LIBDIR} /nonexistent)
set(headers ${CMAKE_BINARY_DIR}/kernel)
file(MAKE_DIRECTORY ${headers})
foreach(name linux asm-generic)
  file(CREATE_LINK /usr/include/${name} ${headers}/${name} SYMBOLIC)
endforeach()
file(CREATE_LINK /usr/include/x86_64-linux-gnu/asm ${headers}/asm SYMBOLIC)
set(CMAKE_C_FLAGS_INIT "-idirafter ${headers}")
# musl 1.2.3 applies no packed relocations.
set(INLAY_PACKED_RELOCATIONS OFF CACHE BOOL "")
