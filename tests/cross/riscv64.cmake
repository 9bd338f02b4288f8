# Toolchain for riscv64: Clang 19, because GCC 14's code for the level rvv has faults (tests/bench/arm.md); the linker
# and the C++ compiler of Debian's cross compiler; libraries and qemu-user that tests/riscv64.sh has unpacked.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_C_COMPILER_TARGET riscv64-linux-gnu)
set(CMAKE_C_COMPILER_EXTERNAL_TOOLCHAIN /usr)
set(CMAKE_CXX_COMPILER riscv64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE riscv64-linux-gnu)
set(CMAKE_INSTALL_LIBDIR lib) # the same paths as a build for the machine itself
cmake_path(SET CMAKE_SYSROOT NORMALIZE ${CMAKE_CURRENT_LIST_DIR}/../../build/riscv64/root)
# Before the cross compiler's own C library, which is older.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -L${CMAKE_SYSROOT}/usr/lib/riscv64-linux-gnu)
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_SYSROOT}/usr/bin/qemu-riscv64 -cpu rv64,v=true,vlen=256 -L ${CMAKE_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_SYSROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${CMAKE_SYSROOT}/usr/lib/riscv64-linux-gnu/pkgconfig)
