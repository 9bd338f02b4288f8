/* expand.h - nodes of the host -> ops. Most are one; what is short for several is taken apart here, so that each part
 * is fused where it fits. */
#ifndef CPU_EXPAND_H
#define CPU_EXPAND_H
#include "region/region.h"

/* A region that is being read. */
typedef struct cpu_reader {
    inlay_compiled *compiled;
    const inlay_compile_request *request;
    uint32_t *number_of; /* [r->graph->value_count] in c->values, INLAY_NONE */
    uint32_t *next;      /* free places of c->numbers */
} cpu_reader;

/* The number of a snapshot value in the region, given one if it has none; INLAY_NONE for INLAY_NONE. */
uint32_t cpu_reader_value(cpu_reader *reader, uint32_t snapshot);

/* Most ops, and most numbers of values, that the node may become. */
void cpu_expand_room(const inlay_node_info *info, uint32_t *out_ops, uint32_t *out_numbers);
/* Takes a node apart that was read as `parsed`; false: it is one op. */
bool cpu_expand(cpu_reader *reader, const inlay_node_info *info, const cpu_op *parsed);
#endif
