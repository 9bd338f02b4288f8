/* narrow.h - constants of fewer bits than a float that stay as they are: DequantizeLinear of a constant, past views.
 *
 * What reads them (convolutions, recurrent layers, products that nbits.c has no loops for) finds a constant like any
 * other. cpu_read_constant packs its elements, as few bits as they have in the file, in the order of the layout that is
 * asked for, once; and in each run a step makes floats of them in memory of the run that the next such step may have
 * again. Floats are those of DequantizeLinear to the last bit: (q - zero) * scale. */
#ifndef CPU_NARROW_H
#define CPU_NARROW_H
#include "region/build.h"

#define NARROW_NS 0.05 /* an element that becomes a float */

/* Is the value one of those? *out_bytes: of its constants; may be NULL. */
bool narrow_is_constant(const inlay_graph *graph, uint32_t value, double *out_bytes);

/* Makes constants of what the narrow ops of a region that was read make, silences them and the views behind them, and
 * gives convolutions by weights that another region makes to those who can read them. */
inlay_status narrow_find(inlay_compiled *compiled, const inlay_graph *graph, inlay_diag *diag);
/* Counts the originals of what was packed as given up. */
void narrow_settle(inlay_compiled *compiled);
void narrow_destroy(struct narrow *narrow);

/* A pack in this layout, which only moves elements; the caller frees it. */
inlay_status narrow_pack(const inlay_compiled *compiled, const cpu_constant *constant, const memory_desc *plain,
                         const memory_desc *md, void **out, inlay_diag *diag);
/* Elements [first, last) of a pack as floats; first is a multiple of 16. */
void narrow_unfold(const void *pack, int64_t first, int64_t last, float *out);

/* cpu_read_constant of a narrow constant. */
inlay_status narrow_read(cpu_build *build, uint32_t value, const memory_desc *plain, const memory_desc *md,
                         cpu_place *out);
/* The pack itself, in a layout that only moves elements, for a step that makes floats of parts of it (narrow_unfold).
 */
inlay_status narrow_read_pack(cpu_build *build, uint32_t value, const memory_desc *plain, const memory_desc *md,
                              cpu_place *out);
/* All elements as floats, one after the other; the caller frees them. */
inlay_status narrow_floats(const inlay_compiled *compiled, const cpu_constant *constant, void **out, inlay_diag *diag);
#endif
