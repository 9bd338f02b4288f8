/* Terms of ours in the library's, and what of both has the same numbers. */
#include "dn_versions.h"
#include <oneapi/dnnl/dnnl.h>
#include <stddef.h>

_Static_assert((int)DN_SUCCESS == (int)dnnl_success && (int)DN_OUT_OF_MEMORY == (int)dnnl_out_of_memory &&
                   (int)DN_INVALID_ARGUMENTS == (int)dnnl_invalid_arguments &&
                   (int)DN_UNIMPLEMENTED == (int)dnnl_unimplemented,
               "statuses have the library's numbers");
_Static_assert((int)DN_TYPE_UNDEFINED == (int)dnnl_data_type_undef && (int)DN_F16 == (int)dnnl_f16 &&
                   (int)DN_BF16 == (int)dnnl_bf16 && (int)DN_F32 == (int)dnnl_f32 && (int)DN_S32 == (int)dnnl_s32 &&
                   (int)DN_S8 == (int)dnnl_s8 && (int)DN_U8 == (int)dnnl_u8,
               "types have the library's numbers");
_Static_assert(DN_ARG_SRC == DNNL_ARG_SRC_0 && DN_ARG_SRC_1 == DNNL_ARG_SRC_1 && DN_ARG_DST == DNNL_ARG_DST &&
                   DN_ARG_WEIGHTS == DNNL_ARG_WEIGHTS && DN_ARG_BIAS == DNNL_ARG_BIAS && DN_ARG_MEAN == DNNL_ARG_MEAN &&
                   DN_ARG_VARIANCE == DNNL_ARG_VARIANCE && DN_ARG_SCALE == DNNL_ARG_SCALE &&
                   DN_ARG_SHIFT == DNNL_ARG_SHIFT && DN_ARG_SCRATCHPAD == DNNL_ARG_SCRATCHPAD &&
                   DN_ARG_MULTIPLE_SRC == DNNL_ARG_MULTIPLE_SRC,
               "operands have the library's numbers");
_Static_assert((int)DN_MAX_NDIMS == DNNL_MAX_NDIMS && sizeof(dn_dims) == sizeof(dnnl_dims_t), "tensors are as large");
_Static_assert(sizeof(dn_arg) == sizeof(dnnl_exec_arg_t) &&
                   offsetof(dn_arg, memory) == offsetof(dnnl_exec_arg_t, memory),
               "operands of a run lie as the library reads them");

dnnl_alg_kind_t dn_their_alg(dn_alg alg)
{
    switch (alg) {
#define DN_ALG(name, theirs)                                                                                           \
    case DN_##name:                                                                                                    \
        return dnnl_##theirs;
        DN_ALGS(DN_ALG)
#undef DN_ALG
    default:
        return dnnl_alg_kind_undef;
    }
}

unsigned dn_their_flags(uint32_t flags)
{
    return (flags & DN_USE_GLOBAL_STATS ? (unsigned)dnnl_use_global_stats : 0) |
           (flags & DN_FUSE_RELU ? (unsigned)dnnl_fuse_norm_relu : 0) |
           (flags & DN_USE_SCALE ? (unsigned)dnnl_use_scale : 0) |
           (flags & DN_USE_SHIFT ? (unsigned)dnnl_use_shift : 0);
}

dnnl_query_t dn_their_query(dn_operand which)
{
    static const dnnl_query_t queries[] = { [DN_OPERAND_SRC] = dnnl_query_src_md,
                                            [DN_OPERAND_WEIGHTS] = dnnl_query_weights_md,
                                            [DN_OPERAND_DST] = dnnl_query_dst_md,
                                            [DN_OPERAND_SCRATCHPAD] = dnnl_query_scratchpad_md };

    return queries[which];
}
