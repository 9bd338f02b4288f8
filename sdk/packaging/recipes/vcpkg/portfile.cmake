# An overlay port of the tree that contains it.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
    "-DPROTOC_C=${CURRENT_HOST_INSTALLED_DIR}/tools/protobuf-c/protoc-c"
    -DINLAY_NODE=OFF
    -DINLAY_ONEDNN=OFF
    -DINLAY_OPENBLAS=OFF
    -DINLAY_PYTHON_EXTENSION=OFF
    -DINLAY_SAMPLES=OFF
    -DINLAY_SERVE=OFF
    -DINLAY_VULKAN=OFF
    -DINLAY_WERROR=OFF
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/inlay)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES inlay AUTO_CLEAN)
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
