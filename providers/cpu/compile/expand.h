/* expand.h - expands nodes of the host to ops. Most nodes become one op. Composite operators become several, so that
 * each of them can be fused. */
#ifndef CPU_EXPAND_H
#define CPU_EXPAND_H
#include "cpu/region/region.h"
#include "inlay/plugin.h"

/* State while a region is read. */
typedef struct cpu_reader {
    inlay_compiled *compiled;
    const inlay_compile_request *request;
    uint32_t *number_of; /* [request->graph->value_count] index in compiled->values, or INLAY_NONE */
    uint32_t *next;      /* first free element of compiled->numbers */
} cpu_reader;

/* Index in the region of a value of the host's graph; adds the value if it is new. Returns INLAY_NONE for
 * INLAY_NONE. */
uint32_t cpu_reader_value(cpu_reader *reader, uint32_t snapshot);

/* Upper bounds of the number of ops and of elements of `numbers` that the node needs. */
void cpu_expand_bounds(const inlay_node_info *info, uint32_t *out_ops, uint32_t *out_numbers);
/* Expands a node that was parsed as `parsed`; false: it is a single op, and nothing was added. */
bool cpu_expand(cpu_reader *reader, const inlay_node_info *info, const cpu_op *parsed);
#endif
