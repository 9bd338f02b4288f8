/* attention.h - parts of attention: masks, kernels, and states that are updated in place. */
#ifndef CPU_ATTENTION_H
#define CPU_ATTENTION_H
#include "cpu/region/build.h"

/* The input with the sinks of Attention and CachedAttention of ai.inlay. */
static inline uint32_t cpu_sink_input(const cpu_op *op)
{
    return op->code_bits == 0 ? 5 : 7;
}
/* The number of keys that the mask of the Attention being lowered has columns for; without a mask, all keys. */
int64_t cpu_mask_columns(const cpu_build *build);
/* Strides of a mask: elements from one batch, head, query and key to the next. */
typedef struct cpu_mask {
    bool there; /* false: the mask is omitted */
    int64_t batch, head, query, step;
} cpu_mask;
static inline int64_t cpu_mask_at(const cpu_mask *mask, int64_t batch, int64_t head, int64_t query)
{
    return batch * mask->batch + head * mask->head + query * mask->query;
}
/* Reads input `input` of an Attention as a mask; mask->there = false: it is omitted. */
inlay_status cpu_read_mask(cpu_build *build, uint32_t input, cpu_mask *mask, cpu_place *out);
/* The scale of an attention with heads of that size: of its queries (ONNX) or of its scores (ai.inlay). */
float cpu_attention_scale(const cpu_op *op, int64_t size);
/* Attention by built-in kernels (attend.c). */
struct sgemm_kernel;
inlay_status cpu_lower_attend(cpu_build *build, const cpu_group *group, const struct sgemm_kernel *kernel);

/* The scales of keys or values in 8 or 4 bits: elements from those of one head, and of one element, to the next. */
typedef struct cpu_scales {
    bool there; /* false: each row has its own scale */
    int64_t head, step;
} cpu_scales;
/* Reads input `input` of the op as the scales of `heads` heads of `size` elements; *out is set if they are there. */
inlay_status cpu_read_scales(cpu_build *build, uint32_t input, int64_t heads, int64_t size, cpu_scales *scales,
                             cpu_place *out);
/* The kernels for this CPU. */
struct cache_loops;
const struct cache_loops *cpu_cache_loops(void);

/* Lowers a Concat into a state that is updated in place: writes the new rows to the end of the state (append.c). */
inlay_status cpu_lower_append(cpu_build *build, const cpu_group *group);
#endif
