/* Constants as a step reads them. */
#include "weights/narrow.h"

inlay_status rg_read_constant(rg_build *b, uint32_t value, const rg_md *plain, const rg_md *md, rg_place *out)
{
    rg_constant *k = &b->c->constants[b->c->values[value].constant];
    const rg_pack *pack;
    inlay_status status;

    if (k->narrow != NULL)
        return narrow_read(b, value, plain, md, out);
    status = rg_constant_pack(b->c, k, plain, md, &pack, b->diag);
    if (status != INLAY_OK)
        return status;
    status = rg_pack_place(b, pack->data, rg_md_bytes(md), out);
    out->md = *md;
    return status;
}
