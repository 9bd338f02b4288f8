/* narrow_pack.h - what a narrow constant (narrow.h) is made of, and its packs: for narrow.c and narrow_pack.c. */
#ifndef CPU_NARROW_PACK_H
#define CPU_NARROW_PACK_H
#include "weights/narrow.h"
#include "weights/unfold.h"

enum { NARROW_TURNS = 3 }; /* views that are looked through */

/* What a constant is made of. Elements of `q` count as the DequantizeLinear has them; views move them. */
struct narrow {
    inlay_dtype dtype;
    uint32_t q, scale, zero; /* constants of the region; INLAY_NONE: there are no zero points */
    uint32_t maker;          /* the op */
    int64_t count, scales;
    int64_t inner, size, block; /* the axis: elements of it lie `inner` apart; block: of it, for each scale */
    bool single;                /* one scale for all */
    uint32_t turn_count;
    uint32_t turns[NARROW_TURNS]; /* transposes, as ops */
};

/* Matrices of recurrent layers in panels (recurrent.c): is that the layout; words from their order in the file into it.
 */
bool recurrent_is_pack(const memory_desc *md);
void recurrent_lay(const memory_desc *md, const int32_t *from, int32_t *to);

/* The loops over codes that this process uses; NULL: there are none, and no pack has codes. */
const unfold_kernel *unfold_of_cpu(void);
/* The codes of a pack, which stays as long as they are read; false: unfold.h has no loops for their type. */
bool narrow_codes(const void *pack, unfold_codes *out);
/* Bytes of a pack. */
uint64_t narrow_pack_bytes(const void *pack);
/* The step that makes floats of a pack: args: the pack, floats. */
inlay_status narrow_run_unfold(const cpu_native *native, const cpu_state *state, inlay_run *run, void *const *args,
                               uint32_t threads);
#endif
