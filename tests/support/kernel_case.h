/* kernel_case.h - runs one kernel of a table on one node, without host or plugin, for tests and benchmarks.
 *
 *     kernel_case test = { .op_type = "Conv", .since_version = 11 };
 *     kernel_case_input(&test, INLAY_FLOAT, 4, dims, data, false);
 *     kernel_case_ints(&test, "pads", 4, pads);
 *     kernel_case_output(&test, INLAY_FLOAT, 4, out_dims, out);
 *     status = kernel_case_prepare(&test, &operators_products);
 *     status = kernel_case_run(&test);
 *     kernel_case_deinit(&test);
 *
 * The caller owns everything that is passed in; it must outlive the case. */
#ifndef KERNEL_CASE_H
#define KERNEL_CASE_H
#include "guard.h"
#include "inlay/kit_kernel.h"

enum { KERNEL_CASE_VALUES = 16, KERNEL_CASE_ATTRS = 16 };

typedef struct kernel_case {
    const char *op_type;
    uint32_t since_version;
    const void *provider; /* kit_node.provider; may be NULL */
    uint32_t
        threads; /* max_threads of the plan, 0 = 1; kit_parallel runs its ranges sequentially, the last one first */
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

static inline void kernel_case_value(kernel_case *test, uint32_t at, inlay_dtype dtype, uint32_t rank,
                                     const int64_t *dims, void *data, uint32_t flags)
{
    kit_tensor *tensor = &test->tensors[at];

    *tensor = (kit_tensor){ .data = data, .dims = test->sizes[at], .count = 1, .rank = rank, .dtype = dtype };
    for (uint32_t d = 0; d < rank; d++) {
        test->sizes[at][d] = dims[d];
        test->dims[at][d] = (inlay_dim){ .value = dims[d], .kind = INLAY_DIM_FIXED };
        tensor->count *= dims[d];
    }
    test->values[at] = (inlay_value_info){ .kind = INLAY_VALUE_TENSOR,
                                           .flags = flags,
                                           .dtype = dtype,
                                           .rank = rank,
                                           .dims = test->dims[at],
                                           .producer = INLAY_NONE };
    if ((flags & INLAY_VALUE_CONSTANT) != 0) {
        test->values[at].data = data;
        test->values[at].data_bytes = kit_bytes(dtype, tensor->count);
    }
    test->indexes[at] = dtype == INLAY_UNDEFINED ? INLAY_NONE : at;
}

/* Adds an input. Constant data must be 64-byte aligned. dtype INLAY_UNDEFINED: omitted. */
static inline void kernel_case_input(kernel_case *test, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                     const void *data, bool constant)
{
    kernel_case_value(test, test->in_count++, dtype, rank, dims, (void *)(uintptr_t)data,
                      constant ? INLAY_VALUE_CONSTANT : 0);
}
static inline void kernel_case_output(kernel_case *test, inlay_dtype dtype, uint32_t rank, const int64_t *dims,
                                      void *data)
{
    kernel_case_value(test, KERNEL_CASE_VALUES + test->out_count++, dtype, rank, dims, data, 0);
}
static inline inlay_attr_info *kernel_case_attr(kernel_case *test, const char *name, uint32_t kind)
{
    inlay_attr_info *attribute = &test->attrs[test->attr_count++];
    *attribute = (inlay_attr_info){ .name = { name, strlen(name) }, .kind = kind };
    return attribute;
}
static inline void kernel_case_int(kernel_case *test, const char *name, int64_t value)
{
    kernel_case_attr(test, name, INLAY_ATTR_INT)->i = value;
}
static inline void kernel_case_float(kernel_case *test, const char *name, double value)
{
    kernel_case_attr(test, name, INLAY_ATTR_FLOAT)->f = value;
}
static inline void kernel_case_string(kernel_case *test, const char *name, const char *value)
{
    kernel_case_attr(test, name, INLAY_ATTR_STRING)->s = (inlay_str){ value, strlen(value) };
}
static inline void kernel_case_ints(kernel_case *test, const char *name, uint32_t count, const int64_t *values)
{
    inlay_attr_info *attribute = kernel_case_attr(test, name, INLAY_ATTR_INTS);
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

static inline const void *kernel_case_extension(void *ctx, const char *name)
{
    (void)ctx;
    (void)name;
    return NULL;
}

/* Calls prepare and shape of the table's kernel for the operator; a refusal is INLAY_UNSUPPORTED. */
static inline inlay_status kernel_case_prepare(kernel_case *test, const kit_table *table)
{
    kit_node node = { .host = &test->host,
                      .graph = &test->graph,
                      .info = &test->info,
                      .compile_handle = test,
                      .constant_fate = test->fates,
                      .provider = (void *)(uintptr_t)test->provider };
    kit_refusal why;
    inlay_status status = INLAY_OK;
    size_t page_room;

    test->diag = (inlay_diag)INLAY_DIAG_INIT;
    test->host = (inlay_host){ .struct_size = sizeof test->host,
                               .ctx = test,
                               .extension = kernel_case_extension,
                               .align_constant = kernel_case_align,
                               .parallel_for = kernel_case_loop };
    test->info = (inlay_node_info){ .name = { "case", 4 },
                                    .domain = { "ai.onnx", 7 },
                                    .op_type = { test->op_type, strlen(test->op_type) },
                                    .since_version = test->since_version,
                                    .inputs = test->indexes,
                                    .outputs = test->indexes + KERNEL_CASE_VALUES,
                                    .input_count = test->in_count,
                                    .output_count = test->out_count,
                                    .attrs = test->attrs,
                                    .attr_count = test->attr_count,
                                    .attr_stride = sizeof test->attrs[0] };
    test->graph = (inlay_graph){ .struct_size = sizeof test->graph,
                                 .nodes = &test->info,
                                 .values = test->values,
                                 .node_count = 1,
                                 .node_stride = sizeof test->info,
                                 .value_count = 2 * KERNEL_CASE_VALUES,
                                 .value_stride = sizeof test->values[0] };
    for (uint32_t i = 0; i < table->count; i++)
        if (strcmp(table->kernels[i].op_type, test->op_type) == 0)
            test->kernel = &table->kernels[i];
    if (test->kernel == NULL || (test->kernel->supports != NULL && !test->kernel->supports(&node, &why)))
        return INLAY_UNSUPPORTED;
    if (test->kernel->prepare != NULL)
        status = test->kernel->prepare(&node, &test->state, &test->diag);
    if (status != INLAY_OK)
        return status;
    test->plan = (kit_plan){ .in = test->tensors,
                             .out = test->tensors + KERNEL_CASE_VALUES,
                             .in_count = test->in_count,
                             .out_count = test->out_count,
                             .max_threads = test->threads > 0 ? test->threads : 1 };
    for (uint32_t i = 0; i < test->in_count; i++)
        if (test->fates[i] != INLAY_CONST_BORROWED)
            test->tensors[i].data = NULL;
    if (test->kernel->shape != NULL)
        status = test->kernel->shape(test->state, &test->plan, &test->diag);
    page_room = (size_t)((test->plan.workspace_bytes + 63) & ~UINT64_C(63));
    test->workspace = guard_alloc(page_room);
    return status;
}

static inline inlay_status kernel_case_run(kernel_case *test)
{
    kit_call call = { .in = test->tensors,
                      .out = test->tensors + KERNEL_CASE_VALUES,
                      .in_count = test->in_count,
                      .out_count = test->out_count,
                      .state = test->state,
                      .plan = test->plan.plan,
                      .workspace = test->workspace.data,
                      .max_threads = test->plan.max_threads,
                      .host = &test->host,
                      .diag = &test->diag };
    return test->kernel->run(&call);
}

static inline void kernel_case_deinit(kernel_case *test)
{
    if (test->kernel != NULL && test->kernel->release != NULL)
        test->kernel->release(test->state);
    else
        free(test->state);
    free(test->plan.plan);
    if (test->workspace.map != NULL)
        guard_free(&test->workspace);
}
#endif
