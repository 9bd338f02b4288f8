/* Numbers the values of a region, in the order in which its nodes refer to them. */
#include "cpu/compile/expand.h"
#include "inlay/check.h"
#include "inlay/plugin.h"

static element_type type_of(inlay_dtype dtype)
{
    return dtype == INLAY_FLOAT   ? ELEMENT_FLOAT
           : dtype == INLAY_UINT8 ? ELEMENT_UINT8
           : dtype == INLAY_BOOL  ? ELEMENT_UINT8
           : dtype == INLAY_INT8  ? ELEMENT_INT8
           : dtype == INLAY_INT32 ? ELEMENT_INT32
           : dtype == INLAY_INT64 ? ELEMENT_INT64
                                  : ELEMENT_OTHER;
}

uint32_t cpu_reader_value(cpu_reader *reader, uint32_t snapshot)
{
    inlay_compiled *compiled = reader->compiled;
    const inlay_value_info *info = inlay_graph_value(reader->request->graph, snapshot);
    cpu_value *value;

    if (info == NULL)
        return INLAY_NONE;
    INLAY_CHECK(snapshot < reader->request->graph->value_count);
    if (reader->number_of[snapshot] != INLAY_NONE)
        return reader->number_of[snapshot];
    reader->number_of[snapshot] = compiled->value_count;
    value = &compiled->values[compiled->value_count];
    *value = (cpu_value){ .snapshot = snapshot,
                          .input = INLAY_NONE,
                          .output = INLAY_NONE,
                          .weights = INLAY_NONE,
                          .constant = INLAY_NONE,
                          .readers = { INLAY_NONE, INLAY_NONE },
                          .type = type_of(info->dtype) };
    if ((info->flags & INLAY_VALUE_CONSTANT) != 0) {
        value->constant = compiled->constant_count;
        value->rank = info->rank <= CPU_MAX_RANK ? info->rank : 0;
        for (uint32_t d = 0; d < value->rank; d++)
            value->dims[d] = info->dims[d].value;
        compiled->constants[compiled->constant_count++] = (cpu_constant){
            .value = snapshot, .data = info->data, .bytes = info->data_bytes, .content_hash = info->content_hash
        };
    }
    return compiled->value_count++;
}
