/* Places of packed constants. */
#include "weights/low_bit.h"

inlay_status cpu_read_constant(cpu_build *build, uint32_t value, const memory_desc *plain, const memory_desc *md,
                               cpu_place *out)
{
    cpu_constant *constant = &build->compiled->constants[build->compiled->values[value].constant];
    const cpu_pack *pack;
    inlay_status status;

    INLAY_CHECK(build->compiled->values[value].constant < build->compiled->constant_count);
    if (constant->narrow != NULL)
        return low_bit_read(build, value, plain, md, out);
    status = cpu_constant_pack(build->compiled, constant, plain, md, &pack, build->diag);
    if (status != INLAY_OK)
        return status;
    status = cpu_pack_place(build, pack->data, memory_desc_bytes(md), out);
    out->md = *md;
    return status;
}
