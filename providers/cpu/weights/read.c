/* Constants as a step reads them. */
#include "weights/narrow.h"

inlay_status rg_read_constant(rg_build *build, uint32_t value, const rg_md *plain, const rg_md *md, rg_place *out)
{
    rg_constant *constant = &build->compiled->constants[build->compiled->values[value].constant];
    const rg_pack *pack;
    inlay_status status;

    if (constant->narrow != NULL)
        return narrow_read(build, value, plain, md, out);
    status = rg_constant_pack(build->compiled, constant, plain, md, &pack, build->diag);
    if (status != INLAY_OK)
        return status;
    status = rg_pack_place(build, pack->data, rg_md_bytes(md), out);
    out->md = *md;
    return status;
}
