/* instance.h - symbol names of code that is compiled several times.
 *
 * The operators are compiled in plain C for the provider reference, and once per instruction set level for the
 * provider cpu (cpu/operators). For the latter CMake defines KERNEL_LEVEL, and external symbols get it as a suffix. */
#ifndef OPERATORS_INSTANCE_H
#define OPERATORS_INSTANCE_H
#include "inlay/check.h"

#ifdef KERNEL_LEVEL
#define OPERATOR_PASTE(name, level) name##_##level
#define OPERATOR_NAME(name, level) OPERATOR_PASTE(name, level)
#define OPERATOR(name) OPERATOR_NAME(name, KERNEL_LEVEL)
/* Functions and tables shared by several files. */
#define elementwise_binary_legacy OPERATOR(elementwise_binary_legacy)
#define elementwise_binary_row OPERATOR(elementwise_binary_row)
#define elementwise_binary_row_fits OPERATOR(elementwise_binary_row_fits)
#define elementwise_binary_run OPERATOR(elementwise_binary_run)
#define elementwise_binary_shape OPERATOR(elementwise_binary_shape)
#define elementwise_is OPERATOR(elementwise_is)
#define elementwise_load OPERATOR(elementwise_load)
#define elementwise_spread OPERATOR(elementwise_spread)
#define elementwise_store OPERATOR(elementwise_store)
#define elementwise_unary_row OPERATOR(elementwise_unary_row)
#define elementwise_unary_run OPERATOR(elementwise_unary_run)

#define indices_check OPERATOR(indices_check)
#define indices_inside OPERATOR(indices_inside)

#define ml_table_of OPERATOR(ml_table_of)
#define ml_table_products OPERATOR(ml_table_products)
#define ml_table_room OPERATOR(ml_table_room)
#define ml_table_rows OPERATOR(ml_table_rows)
#define ml_sum_of_powers OPERATOR(ml_sum_of_powers)
#define ml_exp OPERATOR(ml_exp)
#define ml_dot OPERATOR(ml_dot)
#define ml_powers OPERATOR(ml_powers)
#define ml_transform OPERATOR(ml_transform)
#define ml_transform_find OPERATOR(ml_transform_find)
#define ml_two_scores OPERATOR(ml_two_scores)

#define points_floats OPERATOR(points_floats)
#define points_transpose OPERATOR(points_transpose)
#define points_interpolate OPERATOR(points_interpolate)

#define rank_keep OPERATOR(rank_keep)
#define rank_order OPERATOR(rank_order)

#define reduce_real_types OPERATOR(reduce_real_types)
#define reduce_types OPERATOR(reduce_types)

#define strided_copy OPERATOR(strided_copy)
#define strided_fill OPERATOR(strided_fill)
#define strided_memcpy OPERATOR(strided_memcpy)
#define strided_pack OPERATOR(strided_pack)
#define strided_plan_init OPERATOR(strided_plan_init)
#define strided_unpack OPERATOR(strided_unpack)

#define tree_broken OPERATOR(tree_broken)
#define tree_flat_create OPERATOR(tree_flat_create)
#define tree_flat_destroy OPERATOR(tree_flat_destroy)
#define tree_flat_is_direct OPERATOR(tree_flat_is_direct)
#define tree_flat_room OPERATOR(tree_flat_room)
#define tree_flat_rows OPERATOR(tree_flat_rows)
#define tree_flat_run OPERATOR(tree_flat_run)
#define tree_read_named OPERATOR(tree_read_named)
#else
#define OPERATOR(name) name
#endif
#endif
