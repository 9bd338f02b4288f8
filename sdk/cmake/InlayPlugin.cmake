# inlay_add_plugin(NAME SOURCE...) - a plugin .so on the kit that exports inlay_plugin_open and nothing else. It is
# installed where inlay looks for plugins; set INLAY_PLUGIN_INSTALL_DIR (relative to the prefix, "" = not at all) before
# the call for another place, INLAY_PLUGIN_OUTPUT_DIRECTORY for the place in the build tree, INLAY_PLUGIN_PREFIX for what
# the file's name begins with before NAME ("").
set(INLAY_PLUGIN_EXPORTS ${CMAKE_CURRENT_LIST_DIR}/plugin.map CACHE INTERNAL "linker script of plugins")

function(inlay_add_plugin name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "${INLAY_PLUGIN_PREFIX}" C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden
    LINK_DEPENDS ${INLAY_PLUGIN_EXPORTS})
  target_link_libraries(${name} PRIVATE inlay::kit)
  target_link_options(${name} PRIVATE -Wl,--version-script=${INLAY_PLUGIN_EXPORTS} -Wl,--build-id)
  if(INLAY_PLUGIN_OUTPUT_DIRECTORY)
    set_target_properties(${name} PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${INLAY_PLUGIN_OUTPUT_DIRECTORY})
  endif()
  if(INLAY_PLUGIN_INSTALL_DIR)
    install(TARGETS ${name} LIBRARY DESTINATION ${INLAY_PLUGIN_INSTALL_DIR})
  endif()
endfunction()
