/* operators.h - shared by the files with kernels of operators.
 *
 * Such a file defines its kernels and ends in one table, which tables.def lists:
 *
 *     static const kit_kernel kernels[] = { { .op_type = "Softmax", ... }, ... };
 *     const kit_table OPERATOR(operators_softmax) = { kernels, KIT_COUNT(kernels) };
 */
#ifndef OPERATORS_H
#define OPERATORS_H
#include "inlay/kit_table.h"
#include "operators/instance.h"
#include "operators/operator_settings.h"
#endif
