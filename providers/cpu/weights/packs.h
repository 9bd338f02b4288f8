/* packs.h - the packs of a constant, and copies between layouts: for those who make packs (weights.c, narrow_pack.c).
 */
#ifndef CPU_PACKS_H
#define CPU_PACKS_H
#include "region/build.h"

/* Is md the layout of a kernel's own for weights that lie as `plain` says? Then they are packed so here; run: NULL, or
 * the run whose threads help. */
typedef bool (*rg_packer)(const rg_state *state, inlay_run *run, const rg_md *plain, const void *source,
                          const rg_md *md, void *target);
/* One for each kind of kernel, NULL behind the last (kernels/packers.c). */
extern const rg_packer rg_packers[];
/* Packs by the first that knows the layout; false: none does. */
bool pack_by_kernel(const rg_state *state, inlay_run *run, const rg_md *plain, const void *source, const rg_md *md,
                    void *target);

/* NULL is none. */
void pack_destroy(rg_pack *pack);
/* A pack whose layout tells where each element of the original was; NULL: there is none. */
const rg_pack *pack_to_unpack(const rg_constant *constant);
/* Memory of the host's for this pack, or our own. *out_known: it is packed already. */
inlay_status pack_room(inlay_compiled *compiled, const rg_constant *constant, rg_pack *pack, uint64_t bytes,
                       bool *out_known, inlay_diag *diag);
/* As dn_reorder. */
dn_status weights_reorder_part(const rg_state *state, const rg_md *from, const void *source, const rg_md *to,
                               void *target, const int64_t *dims, const int64_t *first);
#endif
