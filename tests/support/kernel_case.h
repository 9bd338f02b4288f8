/* kernel_case.h - runs one kernel of a table on one node, without host or plugin, for tests and benchmarks.
 *
 *     kernel_case c = { .op_type = "Conv", .since_version = 11 };
 *     kernel_case_input(&c, INLAY_FLOAT, 4, dims, data, false);
 *     kernel_case_ints(&c, "pads", 4, pads);
 *     kernel_case_output(&c, INLAY_FLOAT, 4, out_dims, out);
 *     status = kernel_case_prepare(&c, &reference_products);
 *     status = kernel_case_run(&c);
 *     kernel_case_deinit(&c);
 *
 * The caller owns everything that is passed in; it must outlive the case. */
#ifndef KERNEL_CASE_H
#define KERNEL_CASE_H
#include "guard.h"
#include "inlay/kit.h"

enum { KERNEL_CASE_VALUES = 16, KERNEL_CASE_ATTRS = 16 };

typedef struct kernel_case {
    const char *op_type;
    uint32_t since_version;
    const void *provider; /* kit_node.provider; may be NULL */
    uint32_t threads; /* thread count for planning, 0 = 1; loops run their ranges sequentially, the last one first */
    uint32_t in_count, out_count, attr_count;
    inlay_value_info values[2 * KERNEL_CASE_VALUES]; /* inputs, then outputs from KERNEL_CASE_VALUES on */
    inlay_dim dims[2 * KERNEL_CASE_VALUES][8];
    int64_t sizes[2 * KERNEL_CASE_VALUES][8];
    kit_tensor tensors[2 * KERNEL_CASE_VALUES];
    uint32_t indexes[2 * KERNEL_CASE_VALUES];
    inlay_attr_info attrs[KERNEL_CASE_ATTRS];
    uint8_t fates[KERNEL_CASE_VALUES];
    inlay_node_info info;
    inlay_graph graph;
    inlay_host host;
    const kit_kernel *kernel;
    void *state;
    kit_plan plan;
    struct guard workspace; /* ends at an inaccessible page */
    inlay_diag diag;
} kernel_case;

static inline void kernel_case_value(kernel_case *c, uint32_t at, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                     void *data, uint32_t flags)
{
    kit_tensor *tensor = &c->tensors[at];

    *tensor = (kit_tensor){ .data = data, .dims = c->sizes[at], .count = 1, .rank = rank, .dtype = dtype };
    for (uint32_t d = 0; d < rank; d++) {
        c->sizes[at][d] = dims[d];
        c->dims[at][d] = (inlay_dim){ .value = dims[d], .kind = INLAY_DIM_FIXED };
        tensor->count *= dims[d];
    }
    c->values[at] = (inlay_value_info){ .kind = INLAY_VALUE_TENSOR,
                                        .flags = flags,
                                        .dtype = dtype,
                                        .rank = rank,
                                        .dims = c->dims[at],
                                        .producer = INLAY_NONE };
    if ((flags & INLAY_VALUE_CONSTANT) != 0) {
        c->values[at].data = data;
        c->values[at].data_bytes = kit_bytes(dtype, tensor->count);
    }
    c->indexes[at] = dtype == INLAY_UNDEFINED ? INLAY_NONE : at;
}

/* Adds an input. Constant data must be 64-byte aligned. dtype INLAY_UNDEFINED: omitted. */
static inline void kernel_case_input(kernel_case *c, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                     const void *data, bool constant)
{
    kernel_case_value(c, c->in_count++, dtype, rank, dims, (void *)(uintptr_t)data,
                      constant ? INLAY_VALUE_CONSTANT : 0);
}
static inline void kernel_case_output(kernel_case *c, inlay_dtype dtype, uint32_t rank, const int64_t *dims, void *data)
{
    kernel_case_value(c, KERNEL_CASE_VALUES + c->out_count++, dtype, rank, dims, data, 0);
}
static inline inlay_attr_info *kernel_case_attr(kernel_case *c, const char *name, uint32_t kind)
{
    inlay_attr_info *attribute = &c->attrs[c->attr_count++];
    *attribute = (inlay_attr_info){ .name = { name, strlen(name) }, .kind = kind };
    return attribute;
}
static inline void kernel_case_int(kernel_case *c, const char *name, int64_t value)
{
    kernel_case_attr(c, name, INLAY_ATTR_INT)->i = value;
}
static inline void kernel_case_float(kernel_case *c, const char *name, double value)
{
    kernel_case_attr(c, name, INLAY_ATTR_FLOAT)->f = value;
}
static inline void kernel_case_string(kernel_case *c, const char *name, const char *value)
{
    kernel_case_attr(c, name, INLAY_ATTR_STRING)->s = (inlay_str){ value, strlen(value) };
}
static inline void kernel_case_ints(kernel_case *c, const char *name, uint32_t count, const int64_t *values)
{
    inlay_attr_info *attribute = kernel_case_attr(c, name, INLAY_ATTR_INTS);
    attribute->ints = values;
    attribute->count = count;
}

static inline const void *kernel_case_align(void *ctx, void *compile, uint32_t value, uint32_t alignment)
{
    (void)compile;
    (void)alignment;
    return ((kernel_case *)ctx)->values[value].data;
}

static inline inlay_status kernel_case_loop(void *ctx, inlay_run *run, int64_t count, int64_t grain,
                                            inlay_parallel_fn fn, void *user)
{
    int64_t step = grain > 0 ? grain : 1;
    inlay_status status = INLAY_OK;

    (void)ctx;
    (void)run;
    for (int64_t end = count, begin; end > 0 && status == INLAY_OK; end = begin) {
        begin = (end - 1) / step * step;
        status = fn(user, begin, end, 0);
    }
    return status;
}

/* Calls prepare and shape of the table's kernel for the operator; a refusal is INLAY_UNSUPPORTED. */
static inline inlay_status kernel_case_prepare(kernel_case *c, const kit_table *table)
{
    kit_node node = { .host = &c->host,
                      .graph = &c->graph,
                      .info = &c->info,
                      .compile_handle = c,
                      .constant_fate = c->fates,
                      .provider = (void *)(uintptr_t)c->provider };
    kit_refusal why;
    inlay_status status = INLAY_OK;
    size_t page_room;

    c->diag = (inlay_diag)INLAY_DIAG_INIT;
    c->host = (inlay_host){
        .struct_size = sizeof c->host, .ctx = c, .align_constant = kernel_case_align, .parallel_for = kernel_case_loop
    };
    c->info = (inlay_node_info){ .name = { "case", 4 },
                                 .domain = { "ai.onnx", 7 },
                                 .op_type = { c->op_type, strlen(c->op_type) },
                                 .since_version = c->since_version,
                                 .inputs = c->indexes,
                                 .outputs = c->indexes + KERNEL_CASE_VALUES,
                                 .input_count = c->in_count,
                                 .output_count = c->out_count,
                                 .attrs = c->attrs,
                                 .attr_count = c->attr_count,
                                 .attr_stride = sizeof c->attrs[0] };
    c->graph = (inlay_graph){ .struct_size = sizeof c->graph,
                              .nodes = &c->info,
                              .values = c->values,
                              .node_count = 1,
                              .node_stride = sizeof c->info,
                              .value_count = 2 * KERNEL_CASE_VALUES,
                              .value_stride = sizeof c->values[0] };
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->kernels[i].op_type, c->op_type) == 0)
            c->kernel = &table->kernels[i];
    if (c->kernel == NULL || (c->kernel->supports != NULL && !c->kernel->supports(&node, &why)))
        return INLAY_UNSUPPORTED;
    if (c->kernel->prepare != NULL)
        status = c->kernel->prepare(&node, &c->state, &c->diag);
    if (status != INLAY_OK)
        return status;
    c->plan = (kit_plan){ .in = c->tensors,
                          .out = c->tensors + KERNEL_CASE_VALUES,
                          .in_count = c->in_count,
                          .out_count = c->out_count,
                          .max_threads = c->threads > 0 ? c->threads : 1 };
    for (uint32_t i = 0; i < c->in_count; i++)
        if (c->fates[i] != INLAY_CONST_BORROWED)
            c->tensors[i].data = NULL;
    if (c->kernel->shape != NULL)
        status = c->kernel->shape(c->state, &c->plan, &c->diag);
    page_room = (size_t)((c->plan.workspace_bytes + 63) & ~UINT64_C(63));
    c->workspace = guard_alloc(page_room);
    return status;
}

static inline inlay_status kernel_case_run(kernel_case *c)
{
    kit_call call = { .in = c->tensors,
                      .out = c->tensors + KERNEL_CASE_VALUES,
                      .in_count = c->in_count,
                      .out_count = c->out_count,
                      .state = c->state,
                      .plan = c->plan.plan,
                      .workspace = c->workspace.data,
                      .max_threads = c->plan.max_threads,
                      .host = &c->host,
                      .diag = &c->diag };
    return c->kernel->run(&call);
}

static inline void kernel_case_deinit(kernel_case *c)
{
    if (c->kernel != NULL && c->kernel->release != NULL)
        c->kernel->release(c->state);
    else
        free(c->state);
    free(c->plan.plan);
    if (c->workspace.map != NULL)
        guard_free(&c->workspace);
}
#endif
