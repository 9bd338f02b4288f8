# Toolchain for WebAssembly: Debian's clang, lld and wasi-libc. WASM_CLANG: the compiler, clang by default. WASM_OPTIONS:
# further options of it. Atomic instructions, which engines have had longer than SIMD, are allowed in memories that are not
# shared, too: the same objects serve bundles, of one thread, and inlay.wasm.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(WASM_CLANG clang CACHE STRING "Clang with the target wasm32")
set(WASM_OPTIONS "" CACHE STRING "Options of the compiler")
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES WASM_CLANG WASM_OPTIONS)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER ${WASM_CLANG})
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
cmake_path(SET wasm_include NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../../../platform/wasm/include")
set(CMAKE_C_FLAGS_INIT
  "-msimd128 -mbulk-memory -mnontrapping-fptoint -matomics -ftls-model=local-exec -isystem ${wasm_include} ${WASM_OPTIONS}")
set(CMAKE_C_FLAGS_RELEASE_INIT "-Os -DNDEBUG") # kernels have options of their own
set(CMAKE_CROSSCOMPILING_EMULATOR node ${CMAKE_CURRENT_LIST_DIR}/run.mjs)
