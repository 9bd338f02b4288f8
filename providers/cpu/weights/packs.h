/* packs.h - the packs of a constant, and reorders between layouts, for the code that packs (weights.c,
 * low_bit_pack.c). */
#ifndef CPU_PACKS_H
#define CPU_PACKS_H
#include "cpu/region/build.h"

/* Bytes of a file that are packed before their pages are released. */
enum { PACK_SLICE_BYTES = 2 << 20 };
/* Lets the host release the pages of the original. They may be read again. */
void pack_release_source(const inlay_compiled *compiled, const cpu_constant *constant);

/* Adds `more` bytes, rounded up to a multiple of 64; returns their offset. */
static inline uint64_t packs_reserve(uint64_t *bytes, uint64_t more)
{
    const uint64_t at = *bytes;

    *bytes += (more + 63) / 64 * 64;
    return at;
}

/* Packs weights of layout `plain` if layout is the packed layout of its kernel; otherwise returns false. run: the run
 * whose threads may help, or NULL. */
typedef bool (*cpu_packer)(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                           const tensor_layout *layout, void *target);
/* The packers, one for each kind of kernel, terminated by NULL (kernels/packers.c). */
extern const cpu_packer cpu_packers[];
/* Packs with the first packer that accepts the layout; false: none does. */
bool pack_by_kernel(const cpu_state *state, inlay_run *run, const tensor_layout *plain, const void *source,
                    const tensor_layout *layout, void *target);

/* The constant in the given layout, packed from the original or from another pack, for the instance that is being
 * built. Under compiled->lock. */
inlay_status cpu_constant_pack(cpu_build *build, cpu_constant *constant, const tensor_layout *plain,
                               const tensor_layout *layout, const cpu_pack **out_pack);
/* Reorders a tensor immediately. */
inlay_status cpu_reorder_now(const cpu_state *state, const tensor_layout *from, const void *source,
                             const tensor_layout *to, void *target, inlay_diag *diag);
void cpu_constant_deinit(cpu_constant *constant);
/* Whether a pack in this layout exists, not counting those made to time kernels. Under compiled->lock. */
bool cpu_constant_has_pack(const cpu_constant *constant, const tensor_layout *layout);
/* The bytes by which all packs together exceed the original. Under compiled->lock. */
uint64_t cpu_constant_excess(const cpu_constant *constant);
/* Frees the packs that were made for the timing of kernels, whose instances are destroyed. Under compiled->lock. */
void cpu_constant_drop_trials(cpu_constant *constant);
/* Frees the packs that no instance reads and that can be made again, except as many as fit into *inout_spare bytes,
 * from which their size is subtracted. Returns the number of bytes freed. Under compiled->lock. */
uint64_t cpu_constant_trim(cpu_constant *constant, uint64_t *inout_spare);

/* Frees a pack. NULL is a no-op. */
void pack_destroy(cpu_pack *pack);
/* A pack from which the original can be restored, because its layout only moves all elements; NULL: none. Originals are
 * dropped only if there is one: another shape may need another pack. */
const cpu_pack *pack_to_unpack(const cpu_constant *constant);
/* Whether the original is not needed again: it is not read unpacked, and it can be restored from a pack, or there are
 * no further instances. */
bool pack_replaces(const inlay_compiled *compiled, const cpu_constant *constant);
/* Allocates pack->data: in the host's cache if possible, otherwise with malloc. *out_known: the cache had the
 * pack already, so data is filled. */
inlay_status pack_allocate(inlay_compiled *compiled, const cpu_constant *constant, cpu_pack *pack, uint64_t bytes,
                           bool *out_known, inlay_diag *diag);
/* Memory in the host's cache for `bytes` that depend only on the constant and the key, whose first word is its
 * content_hash. *out_known: it is filled; otherwise the caller fills it and calls keep() of the extension. NULL: there
 * is no cache. What compile finds out about a constant's elements must be stored so, because a program of `inlay
 * bundle` does not contain the elements of packed constants. */
void *cpu_constant_fact(const inlay_compiled *compiled, const cpu_constant *constant, const uint64_t *key,
                        uint32_t key_count, uint64_t bytes, bool *out_known);
/* Copies a part of both tensors to another layout, large ones on the host's threads. dims and first: the part; NULL:
 * all elements, and zeros as the padding of blocks. false: there is no copy between these layouts. */
bool weights_reorder_part(const cpu_state *state, const tensor_layout *from, const void *source,
                          const tensor_layout *to, void *target, const int64_t *dims, const int64_t *first);
#endif
