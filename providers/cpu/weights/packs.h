/* packs.h - the packs of a constant, and copies between layouts: for those who make packs (weights.c, narrow_pack.c).
 */
#ifndef CPU_PACKS_H
#define CPU_PACKS_H
#include "region/build.h"

/* NULL is none. */
void pack_destroy(rg_pack *p);
/* A pack whose layout tells where each element of the original was; NULL: there is none. */
const rg_pack *pack_to_unpack(const rg_constant *k);
/* Memory of the host's for this pack, or our own. *out_known: it is packed already. */
inlay_status pack_room(inlay_compiled *c, const rg_constant *k, rg_pack *p, uint64_t bytes, bool *out_known,
                       inlay_diag *diag);
/* As dn_reorder. */
dn_status weights_reorder_part(const rg_state *state, const rg_md *from, const void *source, const rg_md *to,
                               void *target, const int64_t *dims, const int64_t *first);
#endif
