/* Option precision: data types of multiplications and of their results. With `reduced`, operands are bfloat16 and
 * sums float; a result stays bfloat16 if only such multiplications consume it. */
#include "cpu/choice/kernels.h"
#include "cpu/region/build.h"
#include "cpu/weights/read.h"

bool cpu_has_bf16(void)
{
    return library_has_isa(LIBRARY_ISA_AVX512_BF16);
}

library_type cpu_product_type(const cpu_build *build)
{
    return build->state->bf16 ? LIBRARY_BF16 : LIBRARY_F32;
}

library_type cpu_kept_type(const cpu_build *build, uint32_t value)
{
    uint32_t products = 0;

    if (!build->state->bf16 || build->compiled->values[value].output != INLAY_NONE)
        return LIBRARY_F32;
    for (uint32_t op_index = 0; op_index < build->compiled->op_count; op_index++) {
        const cpu_op *op = &build->compiled->ops[op_index];

        for (uint32_t i = 0; i < op->in_count; i++) {
            const cpu_family *family = op->row->family;

            if (op->in[i] != value)
                continue;
            if (i == 0 && (family == &cpu_conv || (family == &cpu_product && cpu_is_packed(build, op))))
                products++;
            else if (family != &cpu_binary || build->ranks[value] < 3 || op->alg != LIBRARY_BINARY_ADD)
                return LIBRARY_F32; /* a sum is fused into a convolution's kernel */
        }
    }
    return products > 0 ? LIBRARY_BF16 : LIBRARY_F32;
}
