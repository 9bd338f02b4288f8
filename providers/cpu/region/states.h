/* states.h - in-place states (inlay.states/1): a Concat of the state of the previous run with new rows. The host keeps
 * the state in one buffer with spare capacity, so only the new rows are written, after the old ones
 * (attention/append.c). GroupQueryAttention also writes the new rows at the end of each sequence of the batch, which
 * may be shorter than the state. */
#ifndef CPU_STATES_H
#define CPU_STATES_H
#include "cpu/region/build.h"

enum { CPU_STATE_AXIS = 2 }; /* the axis of rows */

/* The TensorScatter (scatter.c) that is the only reader of `value`; NULL: none. */
cpu_op *cpu_find_scatter(const inlay_compiled *compiled, uint32_t value);
/* See inlay_ext_states.appends and reads. */
uint32_t cpu_state_appends(void *state, inlay_compiled *compiled, uint32_t input, uint32_t output, uint32_t *out_axis);
uint32_t cpu_state_reads(void *state, inlay_compiled *compiled, uint32_t input, uint32_t axis);
/* Fills build->rooms from the capacities of the region's inputs. */
void cpu_read_capacities(cpu_build *build, const uint64_t *rooms);
/* The strides of the state `value`. */
void cpu_inplace_state_strides(const cpu_build *build, uint32_t value, int64_t *strides);
#endif
