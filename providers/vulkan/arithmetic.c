/* Chooses the arithmetic type of an elementwise op. */
#include "vulkan/region.h"

bool vulkan_is_float(inlay_dtype dtype)
{
    return dtype < INLAY_DTYPE_COUNT && (VULKAN_FLOATS & INLAY_DTYPE_BIT(dtype)) != 0;
}

vulkan_arithmetic vulkan_arithmetic_of(inlay_dtype dtype)
{
    return vulkan_is_float(dtype) ? VULKAN_SINGLE : VULKAN_INTEGER;
}

bool vulkan_computes_in(const vulkan_build *build, const vulkan_op *op, vulkan_arithmetic arithmetic)
{
    const vulkan_family *family = op->row->family;
    const bool is_function = family->has_opcode;
    const inlay_dtype dtype = vulkan_input(build, op, is_function && op->row->number == OP_WHERE)->dtype,
                      result_dtype = vulkan_output(build, op, 0)->dtype;

    if (family->is_float)
        return arithmetic == VULKAN_SINGLE;
    if (dtype == INLAY_DOUBLE || result_dtype == INLAY_DOUBLE)
        return arithmetic == VULKAN_DOUBLE;
    if (vulkan_is_float(dtype) || vulkan_is_float(result_dtype) ||
        (is_function && op->row->number == OP_POW && vulkan_is_float(vulkan_input(build, op, 1)->dtype)))
        return arithmetic == VULKAN_SINGLE;
    return arithmetic == VULKAN_INTEGER || (arithmetic == VULKAN_SINGLE && dtype == INLAY_BOOL);
}
