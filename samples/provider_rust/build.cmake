# Compiles the plugin. Its build id is a hash of the sources and of the compiler's version.
file(GLOB sources ${SOURCES}/*.rs)
execute_process(COMMAND ${RUSTC} --version OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
foreach(file ${sources} ${BINDINGS})
  file(READ ${file} part)
  string(APPEND text "${part}")
endforeach()
string(SHA256 id "${text}")
set(ENV{INLAY_BUILD_ID} ${id})
set(ENV{INLAY_BINDINGS} ${BINDINGS})
execute_process(COMMAND ${RUSTC} --edition 2021 --crate-type cdylib -O -C strip=debuginfo -C link-arg=-Wl,--build-id -o ${PLUGIN}
  ${SOURCES}/oxide.rs COMMAND_ERROR_IS_FATAL ANY)
