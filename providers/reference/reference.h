/* reference.h - shared by the kernel files of the reference provider.
 *
 * A kernel file defines its kernels and ends in one table, which kernels.def lists:
 *
 *     static const kit_kernel kernels[] = { { .op_type = "Relu", ... }, ... };
 *     const kit_table OPERATOR(reference_relu) = { kernels, KIT_COUNT(kernels) };
 */
#ifndef REFERENCE_H
#define REFERENCE_H
#include "reference/instance.h"
#include "common/operator_settings.h"
#endif
