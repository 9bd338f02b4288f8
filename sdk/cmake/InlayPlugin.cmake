# inlay_add_plugin(NAME SOURCE...) - builds a plugin .so with the kit that exports only inlay_plugin_open, and installs it
# in inlay's plugin folder. Set before the call: INLAY_PLUGIN_INSTALL_DIR, another folder (relative to the prefix; "" =
# do not install); INLAY_PLUGIN_OUTPUT_DIRECTORY, the folder in the build tree; INLAY_PLUGIN_PREFIX, a prefix of the
# file's name (""). Without CMAKE_BUILD_TYPE, the build type of the folder becomes Release: kernels that are not optimised
# are many times slower than they state.
set(INLAY_PLUGIN_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/plugin.map CACHE INTERNAL "linker script of plugins")
set(INLAY_PLUGIN_DEF ${CMAKE_CURRENT_LIST_DIR}/plugin.def CACHE INTERNAL "the same for Windows")

function(inlay_add_plugin name)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE Release PARENT_SCOPE)
  endif()
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "${INLAY_PLUGIN_PREFIX}" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    LINK_DEPENDS ${INLAY_PLUGIN_EXPORTS})
  target_link_libraries(${name} PRIVATE inlay::kit)
  if(WIN32)
    target_sources(${name} PRIVATE ${INLAY_PLUGIN_DEF})
  else()
    target_link_options(${name} PRIVATE -Wl,--version-script=${INLAY_PLUGIN_EXPORTS} -Wl,--build-id)
  endif()
  if(INLAY_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${INLAY_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  if(INLAY_PLUGIN_INSTALL_DIR)
    install(TARGETS ${name} LIBRARY DESTINATION ${INLAY_PLUGIN_INSTALL_DIR})
  endif()
endfunction()
