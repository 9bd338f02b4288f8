/* packs.h - the packs of a constant, and copies between layouts: for those who make packs (weights.c, narrow_pack.c).
 */
#ifndef CPU_PACKS_H
#define CPU_PACKS_H
#include "region/build.h"

/* Is md the layout of a kernel's own for weights that lie as `plain` says? Then they are packed so here; run: NULL, or
 * the run whose threads help. */
typedef bool (*cpu_packer)(const cpu_state *state, inlay_run *run, const memory_desc *plain, const void *source,
                           const memory_desc *md, void *target);
/* One for each kind of kernel, NULL behind the last (kernels/packers.c). */
extern const cpu_packer cpu_packers[];
/* Packs by the first that knows the layout; false: none does. */
bool pack_by_kernel(const cpu_state *state, inlay_run *run, const memory_desc *plain, const void *source,
                    const memory_desc *md, void *target);

/* NULL is none. */
void pack_destroy(cpu_pack *pack);
/* A pack whose layout tells where each element of the original was; NULL: there is none. */
const cpu_pack *pack_to_unpack(const cpu_constant *constant);
/* Memory of the host's for this pack, or our own. *out_known: it is packed already. */
inlay_status pack_room(inlay_compiled *compiled, const cpu_constant *constant, cpu_pack *pack, uint64_t bytes,
                       bool *out_known, inlay_diag *diag);
/* As library_reorder. */
library_status weights_reorder_part(const cpu_state *state, const memory_desc *from, const void *source,
                                    const memory_desc *to, void *target, const int64_t *dims, const int64_t *first);
#endif
