/* reference.h - what the kernel files of the reference provider share.
 *
 * A kernel file defines its kernels and ends in one table, which kernels.def lists:
 *
 *     static const kit_kernel kernels[] = { { .op_type = "Relu", ... }, ... };
 *     const kit_table reference_relu = { kernels, KIT_COUNT(kernels) };
 */
#ifndef REFERENCE_H
#define REFERENCE_H
#include "gemm.h"

/* What kit_node.provider points to: the engine of the products, and the options of plugin.c. */
typedef struct reference_settings {
    gemm_engine engine;
    gemm_kernel strict; /* what the engine has for floats with precision strict */
    bool preview;       /* operators of preview domains are offered */
} reference_settings;
/* Of all options but isa, after which kernels are chosen. */
void reference_read_options(reference_settings *settings, const inlay_create_args *args);
#endif
