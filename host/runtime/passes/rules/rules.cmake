# Compiles the rules of this folder to ${CMAKE_CURRENT_BINARY_DIR}/rules_table.c, which RULES_TABLE names. Included by each
# folder that compiles the passes.
set(RULES_TABLE ${CMAKE_CURRENT_BINARY_DIR}/rules_table.c)
file(GLOB schemas CONFIGURE_DEPENDS ${inlay_SOURCE_DIR}/ops/*/*.c)
file(GLOB rules CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/*.rules)
set(read ${schemas} ${CMAKE_CURRENT_LIST_DIR}/../rule_conditions.def ${rules})
add_custom_command(OUTPUT ${RULES_TABLE} DEPENDS ${read} ${CMAKE_CURRENT_LIST_DIR}/compile.awk VERBATIM
  COMMAND awk -f ${CMAKE_CURRENT_LIST_DIR}/compile.awk ${read} > ${RULES_TABLE})
