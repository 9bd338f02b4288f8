/* Translates the constants of library.h to those of oneDNN. Assertions state which of them have the same numbers. */
#include "onednn/library_versions.h"
#include "inlay/check.h"
#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

_Static_assert((int)LIBRARY_SUCCESS == (int)dnnl_success && (int)LIBRARY_OUT_OF_MEMORY == (int)dnnl_out_of_memory &&
                   (int)LIBRARY_INVALID_ARGUMENTS == (int)dnnl_invalid_arguments &&
                   (int)LIBRARY_UNIMPLEMENTED == (int)dnnl_unimplemented,
               "statuses have the library's numbers");
_Static_assert((int)LIBRARY_TYPE_UNDEFINED == (int)dnnl_data_type_undef && (int)LIBRARY_F16 == (int)dnnl_f16 &&
                   (int)LIBRARY_BF16 == (int)dnnl_bf16 && (int)LIBRARY_F32 == (int)dnnl_f32 &&
                   (int)LIBRARY_S32 == (int)dnnl_s32 && (int)LIBRARY_S8 == (int)dnnl_s8 &&
                   (int)LIBRARY_U8 == (int)dnnl_u8,
               "types have the library's numbers");
_Static_assert(LIBRARY_ARG_SRC == DNNL_ARG_SRC_0 && LIBRARY_ARG_SRC_1 == DNNL_ARG_SRC_1 &&
                   LIBRARY_ARG_DST == DNNL_ARG_DST && LIBRARY_ARG_WEIGHTS == DNNL_ARG_WEIGHTS &&
                   LIBRARY_ARG_BIAS == DNNL_ARG_BIAS && LIBRARY_ARG_MEAN == DNNL_ARG_MEAN &&
                   LIBRARY_ARG_VARIANCE == DNNL_ARG_VARIANCE && LIBRARY_ARG_SCALE == DNNL_ARG_SCALE &&
                   LIBRARY_ARG_SHIFT == DNNL_ARG_SHIFT && LIBRARY_ARG_SCRATCHPAD == DNNL_ARG_SCRATCHPAD &&
                   LIBRARY_ARG_MULTIPLE_SRC == DNNL_ARG_MULTIPLE_SRC,
               "operands have the library's numbers");
_Static_assert((int)LIBRARY_MAX_NDIMS == DNNL_MAX_NDIMS && sizeof(library_dims) == sizeof(dnnl_dims_t),
               "dims have the same size");
_Static_assert(sizeof(library_arg) == sizeof(dnnl_exec_arg_t) &&
                   offsetof(library_arg, memory) == offsetof(dnnl_exec_arg_t, memory),
               "operands of a run have the library's layout");

dnnl_alg_kind_t onednn_alg_of(library_alg alg)
{
    switch (alg) {
#define LIBRARY_ALG(name, onednn_name)                                                                                 \
    case LIBRARY_##name:                                                                                               \
        return dnnl_##onednn_name;
        LIBRARY_ALGS(LIBRARY_ALG)
#undef LIBRARY_ALG
    default:
        return dnnl_alg_kind_undef;
    }
}

unsigned onednn_flags_of(uint32_t flags)
{
    return (flags & LIBRARY_USE_GLOBAL_STATS ? (unsigned)dnnl_use_global_stats : 0) |
           (flags & LIBRARY_FUSE_RELU ? (unsigned)dnnl_fuse_norm_relu : 0) |
           (flags & LIBRARY_USE_SCALE ? (unsigned)dnnl_use_scale : 0) |
           (flags & LIBRARY_USE_SHIFT ? (unsigned)dnnl_use_shift : 0);
}

dnnl_query_t onednn_query_of(library_operand which)
{
    static const dnnl_query_t queries[] = { [LIBRARY_OPERAND_SRC] = dnnl_query_src_md,
                                            [LIBRARY_OPERAND_WEIGHTS] = dnnl_query_weights_md,
                                            [LIBRARY_OPERAND_DST] = dnnl_query_dst_md,
                                            [LIBRARY_OPERAND_SCRATCHPAD] = dnnl_query_scratchpad_md };

    INLAY_CHECK((size_t)which < sizeof queries / sizeof *queries);
    return queries[which];
}
