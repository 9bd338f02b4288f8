/* The kit: a table of kernels behaves as a provider must. The graphs are built by the test and the host's table is
 * the real one, so that every function between a host and a kernel runs. */
#include "cmocka_all.h"
#include "inlay/kit_region.h"
#include "../../sdk/kit/internal.h"
#include "plugin/plugin.h"
#include "threads/run.h"
#include <stdlib.h>

static inlay_status run_double(const kit_call *call)
{
    const float *input = call->in[0].data;
    float *output = call->out[0].data;

    for (int64_t i = 0; i < call->in[0].count; i++)
        output[i] = 2 * input[i];
    return INLAY_OK;
}

static inlay_status run_sum(const kit_call *call)
{
    float *output = call->out[0].data;

    for (int64_t i = 0; i < call->out[0].count; i++)
        output[i] = 0;
    for (uint32_t k = 0; k < call->in_count; k++)
        for (int64_t i = 0; kit_has_input(call, k) && i < call->out[0].count; i++)
            output[i] += ((const float *)call->in[k].data)[i];
    return INLAY_OK;
}

static bool supports_pick(const kit_node *node, kit_refusal *why)
{
    return kit_attr_int(node->info, "axis", 0) == 0 ||
           kit_refuse(why, INLAY_REFUSE_ATTRIBUTE, "set axis to 0", "axis is %d", 1);
}

/* y = x * w + w0, w packed by prepare and dropped, w0 (input 2) borrowed. The workspace holds the product. */
static int released;
static inlay_status prepare_scale(const kit_node *node, void **out_state, inlay_diag *diag)
{
    const float *weights = kit_constant(node, 1);
    float *state = malloc(3 * sizeof *state);

    if (weights == NULL || state == NULL) {
        free(state);
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "Scale");
    }
    for (int i = 0; i < 3; i++)
        state[i] = weights[i];
    kit_drop_constant(node, 1);
    *out_state = state;
    return INLAY_OK;
}
static void release_scale(void *state)
{
    released++;
    free(state);
}
static inlay_status shape_scale(const void *state, kit_plan *plan, inlay_diag *diag)
{
    (void)state;
    if (plan->in[0].count != 3)
        return inlay_fail(diag, INLAY_SHAPE_MISMATCH, "Scale wants three elements");
    plan->workspace_bytes = 3 * sizeof(float);
    plan->plan = malloc(1);
    return INLAY_OK;
}
static inlay_status run_scale(const kit_call *call)
{
    float *product = call->workspace;

    if (call->in[1].data != NULL || call->plan == NULL || (uintptr_t)product % 64 != 0)
        return INLAY_INTERNAL;
    for (int i = 0; i < 3; i++)
        product[i] = ((const float *)call->in[0].data)[i] * ((const float *)call->state)[i];
    for (int i = 0; i < 3; i++)
        ((float *)call->out[0].data)[i] = product[i] + ((const float *)call->in[2].data)[i];
    return INLAY_OK;
}

/* y = x + w, w at any address. */
static inlay_status prepare_shift(const kit_node *node, void **out_state, inlay_diag *diag)
{
    (void)out_state, (void)diag;
    kit_accept_unaligned(node, 1);
    return INLAY_OK;
}
static inlay_status run_shift(const kit_call *call)
{
    for (int i = 0; i < 3; i++) {
        float weight;

        memcpy(&weight, (const char *)call->in[1].data + i * sizeof weight, sizeof weight);
        ((float *)call->out[0].data)[i] = ((const float *)call->in[0].data)[i] + weight;
    }
    return INLAY_OK;
}

/* Stores the positive elements. */
static inlay_status run_positive(const kit_call *call)
{
    const float *input = call->in[0].data;
    int64_t n = 0, dims[1];
    inlay_status status;

    for (int64_t i = 0; i < call->in[0].count; i++)
        n += input[i] > 0;
    dims[0] = n;
    status = kit_alloc_output(call, 0, 1, dims);
    if (status != INLAY_OK)
        return status;
    for (int64_t i = 0, at = 0; i < call->in[0].count; i++)
        if (input[i] > 0)
            ((float *)call->out[0].data)[at++] = input[i];
    return call->out[0].count == n && call->out[0].rank == 1 ? INLAY_OK : INLAY_INTERNAL;
}

static inlay_status run_fail(const kit_call *call)
{
    (void)call;
    return INLAY_SHAPE_MISMATCH; /* without a message */
}

static void cost_pick(const kit_node *node, const kit_plan *shapes, inlay_cost *cost)
{
    (void)node;
    cost->flops = 1e6 * (double)shapes->out[0].count;
    cost->local_ns = 3e6;
}

static const kit_kernel kernels[] = {
    { .op_type = "Double",
      .since_min = 6,
      .since_max = 13,
      .in_types = { KIT_BIT(FLOAT) },
      .flags = KIT_IN_PLACE,
      .run = run_double },
    { .op_type = "Double", .since_min = 14, .in_types = { KIT_BIT(INT32) }, .run = run_fail },
    { .op_type = "Sum", .run = run_sum },
    { .op_type = "Pick", .supports = supports_pick, .cost = cost_pick, .run = run_double },
    { .op_type = "Scale",
      .domain = "com.example",
      .prepare = prepare_scale,
      .release = release_scale,
      .shape = shape_scale,
      .run = run_scale },
    { .op_type = "Shift", .prepare = prepare_shift, .run = run_shift },
    { .op_type = "Positive", .flags = KIT_SHAPES_AT_RUN, .run = run_positive },
    { .op_type = "Fail", .run = run_fail },
    { .op_type = "AddInPlace", .flags = KIT_IN_PLACE, .run = run_sum },
};
static const kit_table table = { kernels, KIT_COUNT(kernels) }, *const tables[] = { &table };
static const kit_provider provider_def = { .name = "mine", .description = "d", .tables = tables, .table_count = 1 };
static const kit_plugin plugin_def = { .name = "mine", .version = "1.2", .provider = &provider_def };

enum { MOST = 48 };
struct built {
    inlay_graph graph;
    inlay_node_info nodes[MOST];
    inlay_value_info values[MOST];
    inlay_value_state states[MOST];
    inlay_dim dims[MOST];
    int64_t sizes[MOST];
    uint32_t lists[MOST * 4];
    uint32_t listed;
};

static inlay_str text(const char *s)
{
    return (inlay_str){ s, strlen(s) };
}

static struct built *new_graph(void)
{
    struct built *built = calloc(1, sizeof *built);

    built->graph = (inlay_graph){ .struct_size = sizeof built->graph,
                                  .name = text("g"),
                                  .nodes = built->nodes,
                                  .values = built->values,
                                  .node_stride = sizeof built->nodes[0],
                                  .value_stride = sizeof built->values[0] };
    return built;
}

/* Adds a vector of size elements; -1: not known before the run. */
static uint32_t add_value(struct built *built, const char *name, inlay_dtype dtype, int64_t size)
{
    uint32_t value = built->graph.value_count++;

    built->dims[value] = (inlay_dim){ .value = size, .kind = size >= 0 ? INLAY_DIM_FIXED : INLAY_DIM_UNKNOWN };
    built->sizes[value] = size;
    built->values[value] = (inlay_value_info){ .name = text(name),
                                               .kind = INLAY_VALUE_TENSOR,
                                               .dtype = dtype,
                                               .rank = 1,
                                               .dims = &built->dims[value],
                                               .producer = INLAY_NONE };
    built->states[value] = (inlay_value_state){ .dims = &built->sizes[value], .rank = 1, .dtype = dtype };
    return value;
}

static void set_constant(struct built *built, uint32_t value, const void *data, uint64_t bytes)
{
    built->values[value].flags |= INLAY_VALUE_CONSTANT;
    built->values[value].data = data;
    built->values[value].data_bytes = bytes;
}

static uint32_t add_node(struct built *built, const char *op_type, uint32_t since, const uint32_t *in,
                         uint32_t in_count, uint32_t out)
{
    uint32_t node = built->graph.node_count++, *list = built->lists + built->listed;

    memcpy(list, in, in_count * sizeof *in);
    list[in_count] = out;
    built->listed += in_count + 1;
    built->nodes[node] = (inlay_node_info){ .name = text("node"),
                                            .domain = text("ai.onnx"),
                                            .op_type = text(op_type),
                                            .since_version = since,
                                            .inputs = list,
                                            .outputs = list + in_count,
                                            .input_count = in_count,
                                            .output_count = out != INLAY_NONE,
                                            .attr_stride = sizeof(inlay_attr_info) };
    built->values[out].producer = node;
    return node;
}

static const inlay_provider *api;
static void *state;

static int open_provider_under_test(void **unused)
{
    static kit_exports exports;
    const inlay_create_args args = { .struct_size = sizeof args, .max_threads = 2 };
    const inlay_plugin *plugin;

    (void)unused;
    if (kit_open(&plugin_def, &exports, host_table(), &plugin, NULL) != INLAY_OK)
        return 1;
    api = plugin->providers;
    return strlen(plugin->build_id) < 16 || api->create(api->ctx, host_table(), &args, &state, NULL) != INLAY_OK;
}
static int close_provider_under_test(void **unused)
{
    (void)unused;
    api->destroy(state);
    return 0;
}

static void hosts_of_other_versions(void **unused)
{
    static kit_exports exports;
    const inlay_plugin *plugin;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_host host = *host_table();

    (void)unused;
    host.abi_major = 7; /* newer, and no longer supports version 1 */
    host.abi_major_oldest = 2;
    assert_int_equal(kit_open(&plugin_def, &exports, &host, &plugin, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "'mine' needs a host of ABI 1"));
    host.abi_major_oldest = 1; /* newer, but still supports version 1 */
    assert_int_equal(kit_open(&plugin_def, &exports, &host, &plugin, &diag), INLAY_OK);
    host.struct_size = offsetof(inlay_host, poll);
    assert_int_equal(kit_open(&plugin_def, &exports, &host, &plugin, &diag), INLAY_UNSUPPORTED);
    assert_int_equal(kit_open(&plugin_def, &exports, NULL, &plugin, &diag), INLAY_UNSUPPORTED);
}

/* Kernels compute tensors: an operator with another type is refused when the plugin is opened. */
static void operators_of_sequences(void **unused)
{
    static const struct {
        const char *signature, *words; /* NULL: accepted */
    } rows[] = {
        { "X:T -> Y:T; T=float; mode:s='seq(', axis:i=0", NULL },
        { "X*:T -> Y*:T; T=float|string", NULL },
        { "X:T -> Y:S; T=float, S=seq(float)", "com.example.Cut-3: its signature has 'seq(...)'" },
        { "X:optional(float) -> Y:float", "'optional(...)'" },
        { "X:float -> Y:map(int64,float); mode:s='a'", "'map(...)'" },
    };

    (void)unused;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        const inlay_operator op = { .struct_size = sizeof op,
                                    .domain = "com.example",
                                    .op_type = "Cut",
                                    .signature = rows[row].signature,
                                    .since_version = 3 };
        const kit_plugin with = { .name = "mine", .version = "1.0", .operators = &op, .operator_count = 1 };
        inlay_diag diag = INLAY_DIAG_INIT;
        const inlay_plugin *plugin;
        kit_exports exports;

        assert_int_equal(kit_open(&with, &exports, host_table(), &plugin, &diag),
                         rows[row].words == NULL ? INLAY_OK : INLAY_UNSUPPORTED);
        assert_true(rows[row].words == NULL || strstr(diag.text, rows[row].words) != NULL);
    }
}

struct collected {
    uint32_t offers, refusals, code;
    char text[192], accepted_if[128];
};
static inlay_status collect_offer(void *ctx, const inlay_offer *offer)
{
    ((struct collected *)ctx)->offers += offer->node_count;
    return INLAY_OK;
}
static inlay_status collect_refusal(void *ctx, const inlay_refusal *refusal)
{
    struct collected *collected = ctx;

    collected->refusals++;
    collected->code = refusal->code;
    (void)snprintf(collected->text, sizeof collected->text, "%s", refusal->text);
    (void)snprintf(collected->accepted_if, sizeof collected->accepted_if, "%s",
                   refusal->accepted_if != NULL ? refusal->accepted_if : "");
    return INLAY_OK;
}

static void reasons_of_the_best_match(void **unused)
{
    static const inlay_attr_info axis = { .name = { "axis", 4 }, .kind = INLAY_ATTR_INT, .i = 1 };
    static const struct {
        const char *op_type, *domain;
        uint32_t since;
        inlay_dtype dtype;
        bool with_axis;
        uint32_t code; /* 0 = offered */
        const char *words, *accepted_if;
    } rows[] = {
        { "Double", "ai.onnx", 6, INLAY_FLOAT, false, 0, "", "" },
        { "Double", "ai.onnx", 13, INLAY_FLOAT, false, 0, "", "" },
        { "Double", "ai.onnx", 20, INLAY_INT32, false, 0, "", "" },
        { "Double", "ai.onnx", 1, INLAY_FLOAT, false, INLAY_REFUSE_VERSION,
          "Double-1: the kernel is for versions 6 to 13", "convert" },
        { "Double", "ai.onnx", 13, INLAY_INT8, false, INLAY_REFUSE_DTYPE, "input 0 is int8; this kernel takes float",
          "Cast" },
        { "Double", "ai.onnx", 14, INLAY_FLOAT, false, INLAY_REFUSE_DTYPE, "input 0 is float; this kernel takes int32",
          "Cast" },
        { "Double", "com.example", 6, INLAY_FLOAT, false, INLAY_REFUSE_OPERATOR, "no kernel for Double of com.example",
          "" },
        { "Triple", "ai.onnx", 6, INLAY_FLOAT, false, INLAY_REFUSE_OPERATOR, "no kernel for Triple", "" },
        { "Pick", "ai.onnx", 1, INLAY_STRING, false, 0, "", "" },
        { "Pick", "ai.onnx", 1, INLAY_FLOAT, true, INLAY_REFUSE_ATTRIBUTE, "axis is 1", "set axis to 0" },
    };

    (void)unused;
    for (size_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        struct built *built = new_graph();
        struct collected collected = { 0 };
        const inlay_assess_sink sink = { sizeof sink, &collected, collect_offer, collect_refusal };
        uint8_t candidates[1] = { 1 };
        const inlay_assess_request request = {
            .struct_size = sizeof request, .graph = &built->graph, .candidates = candidates, .sink = &sink
        };
        uint32_t x = add_value(built, "x", rows[row].dtype, 3), node;

        node = add_node(built, rows[row].op_type, rows[row].since, &x, 1, add_value(built, "y", rows[row].dtype, 3));
        built->nodes[node].domain = text(rows[row].domain);
        built->nodes[node].attrs = &axis;
        built->nodes[node].attr_count = rows[row].with_axis;
        assert_int_equal(api->assess(state, &request, NULL), INLAY_OK);
        assert_int_equal(collected.offers, rows[row].code == 0);
        assert_int_equal(collected.refusals, rows[row].code != 0);
        assert_int_equal(collected.code, rows[row].code);
        if (strstr(collected.text, rows[row].words) == NULL ||
            strstr(collected.accepted_if, rows[row].accepted_if) == NULL)
            fail_msg("row %zu: '%s', '%s'", row, collected.text, collected.accepted_if);
        candidates[0] = 0;
        collected = (struct collected){ 0 };
        assert_int_equal(api->assess(state, &request, NULL), INLAY_OK);
        assert_int_equal(collected.offers + collected.refusals, 0);
        free(built);
    }
}

static void costs(void **unused)
{
    struct built *built = new_graph();
    uint32_t x = add_value(built, "x", INLAY_FLOAT, 1000), node;
    inlay_cost cost = { .struct_size = sizeof cost };
    inlay_offer offer = { .struct_size = sizeof offer, .nodes = &node, .node_count = 1 };
    inlay_cost_request request = { .struct_size = sizeof request,
                                   .graph = &built->graph,
                                   .offer = &offer,
                                   .values = built->states,
                                   .value_stride = sizeof built->states[0],
                                   .max_threads = 1 };
    double one_thread;

    (void)unused;
    node = add_node(built, "Double", 6, &x, 1, add_value(built, "y", INLAY_FLOAT, 1000));
    request.value_count = built->graph.value_count;
    assert_int_equal(api->cost(state, &request, &cost, NULL), INLAY_OK);
    assert_int_equal(cost.bytes_read, 4000);
    assert_int_equal(cost.bytes_written, 4000);
    assert_true(cost.flops == 1000 && cost.ns > 100 && cost.ns < 10000 && cost.local_ns == 0);
    assert_int_equal(cost.confidence, INLAY_CONFIDENCE_GUESS);
    built->sizes[1] = -1; /* unknown: as large as the input */
    assert_int_equal(api->cost(state, &request, &cost, NULL), INLAY_OK);
    assert_int_equal(cost.bytes_written, 4000);
    built->sizes[1] = 1000;
    built->nodes[node].op_type =
        text("Pick"); /* its kernel counts 10^9 operations; the time follows, and more threads reduce it */
    assert_int_equal(api->cost(state, &request, &cost, NULL), INLAY_OK);
    one_thread = cost.ns;
    assert_true(cost.flops == 1e9 && one_thread > 1e6 && cost.local_ns == 3e6);
    request.max_threads = 4;
    assert_int_equal(api->cost(state, &request, &cost, NULL), INLAY_OK);
    assert_true(cost.ns < one_thread / 2);
    free(built);
}

/* Values between the nodes of a chain are not counted as memory accesses; inputs from outside are. */
static void costs_of_a_chain(void **unused)
{
    struct built *built = new_graph();
    const uint32_t x = add_value(built, "x", INLAY_FLOAT, 1000), y = add_value(built, "y", INLAY_FLOAT, 1000);
    const uint32_t z = add_value(built, "z", INLAY_FLOAT, 500), sum = add_value(built, "sum", INLAY_FLOAT, 1000);
    const uint32_t nodes[] = { add_node(built, "Double", 6, &x, 1, y),
                               add_node(built, "Sum", 8, (uint32_t[]){ y, z, x }, 3, sum) };
    inlay_cost cost = { .struct_size = sizeof cost };
    const inlay_offer offer = {
        .struct_size = sizeof offer, .cookie = KIT_COOKIE_CHAIN, .nodes = nodes, .node_count = 2
    };
    const inlay_cost_request request = { .struct_size = sizeof request,
                                         .graph = &built->graph,
                                         .offer = &offer,
                                         .values = built->states,
                                         .value_stride = sizeof built->states[0],
                                         .value_count = built->graph.value_count,
                                         .max_threads = 1 };

    (void)unused;
    assert_int_equal(api->cost(state, &request, &cost, NULL), INLAY_OK);
    assert_int_equal(cost.bytes_read, 4000 + 2000 + 4000);
    assert_int_equal(cost.bytes_written, 4000);
    assert_true(cost.flops == 2000 && cost.ns > 0);
    free(built);
}

/* The host's data of one region. */
struct region {
    struct built *built;
    inlay_compiled *compiled;
    inlay_instance *instance;
    inlay_output_plan plans[4];
    uint8_t fates[MOST];
    uint32_t inputs[MOST], outputs[4];
    uint32_t input_count, output_count;
    char *workspace;
    inlay_diag diag;
    uint32_t cancel;
    inlay_run run;
    void *allocated; /* allocated by output_alloc */
    int64_t allocated_dims[4];
};

static const void *align_constant(void *ctx, uint32_t value, uint32_t alignment)
{
    const struct built *built = ctx;
    const void *data = built->values[value].data;

    return (uintptr_t)data % alignment == 0 ? data : NULL; /* the tests align their constants */
}

static inlay_status output_alloc(void *ctx, uint32_t output, uint32_t rank, const int64_t *dims, inlay_buffer *out)
{
    struct region *region = ctx;
    int64_t count = 1;

    for (uint32_t d = 0; d < rank; d++)
        count *= region->allocated_dims[d] = dims[d];
    free(region->allocated);
    region->allocated = malloc((size_t)count * 8 + 1);
    *out = (inlay_buffer){ .handle = (uintptr_t)region->allocated, .bytes = (uint64_t)count * 4 };
    return output == 0 ? INLAY_OK : INLAY_INTERNAL;
}

static inlay_status build(struct region *region)
{
    run_compile_hooks hooks = { .ctx = region->built, .align_constant = align_constant };
    uint32_t nodes[MOST];
    uint64_t cookies[MOST] = { 0 };
    inlay_placement placements[MOST] = { { 0 } };
    inlay_compile_request request = { .struct_size = sizeof request,
                                      .handle = &hooks,
                                      .graph = &region->built->graph,
                                      .nodes = nodes,
                                      .cookies = cookies,
                                      .inputs = region->inputs,
                                      .outputs = region->outputs,
                                      .node_count = region->built->graph.node_count,
                                      .offer_count = region->built->graph.node_count,
                                      .input_count = region->input_count,
                                      .output_count = region->output_count,
                                      .placements = placements,
                                      .placement_stride = sizeof placements[0],
                                      .constants = region->fates };
    inlay_specialize_request shapes = { .struct_size = sizeof shapes,
                                        .values = region->built->states,
                                        .value_count = region->built->graph.value_count,
                                        .value_stride = sizeof region->built->states[0],
                                        .max_threads = 1,
                                        .outputs = region->plans,
                                        .output_count = region->output_count,
                                        .output_stride = sizeof region->plans[0] };
    inlay_status status;

    region->diag = (inlay_diag)INLAY_DIAG_INIT;
    for (uint32_t i = 0; i < request.node_count; i++)
        nodes[i] = i;
    status = api->compile(state, &request, &region->compiled, &region->diag);
    if (status == INLAY_OK)
        status = api->specialize(state, region->compiled, &shapes, &region->instance, &region->diag);
    if (status == INLAY_OK && shapes.workspace_bytes > 0)
        region->workspace = aligned_alloc(64, (shapes.workspace_bytes + 63) / 64 * 64);
    return status;
}

static inlay_status run_region(struct region *region, void *const *in, void *const *out)
{
    inlay_tensor_arg inputs[MOST] = { { { 0 }, NULL, 0, 0 } }, outputs[4] = { { { 0 }, NULL, 0, 0 } };
    inlay_exec_args args = { .struct_size = sizeof args,
                             .run = &region->run,
                             .inputs = inputs,
                             .outputs = outputs,
                             .input_count = region->input_count,
                             .output_count = region->output_count,
                             .arg_stride = sizeof inputs[0],
                             .cancel = &region->cancel,
                             .diag = &region->diag,
                             .workspace = { .handle = (uintptr_t)region->workspace } };

    region->run =
        (inlay_run){ .cancel = &region->cancel, .max_threads = 1, .ctx = region, .output_alloc = output_alloc };
    for (uint32_t i = 0; i < region->input_count; i++)
        inputs[i].buffer.handle = (uintptr_t)in[i];
    for (uint32_t output = 0; output < region->output_count; output++)
        outputs[output].buffer.handle = (uintptr_t)out[output];
    return api->execute(state, region->compiled, region->instance, &args);
}

static void tear_down(struct region *region)
{
    if (region->instance != NULL)
        api->release_instance(state, region->compiled, region->instance);
    if (region->compiled != NULL)
        api->release_compiled(state, region->compiled);
    free(region->workspace);
    free(region->allocated);
    free(region->built);
}

static _Alignas(64) float weights[3] = { 10, 20, 30 };
static _Alignas(64) float offsets[3] = { 1, 2, 3 };

/* Double -> Scale: an inner value, a packed constant, a borrowed one, kernel workspace. */
static void a_region_of_two_nodes(void **unused)
{
    struct region region = { .built = new_graph(), .input_count = 1, .output_count = 1 };
    uint32_t in[3], node;
    float x[3] = { 1, 2, 3 }, y[3];

    (void)unused;
    region.inputs[0] = add_value(region.built, "x", INLAY_FLOAT, 3);
    in[0] = add_value(region.built, "double", INLAY_FLOAT, 3);
    in[1] = add_value(region.built, "w", INLAY_FLOAT, 3);
    in[2] = add_value(region.built, "w0", INLAY_FLOAT, 3);
    set_constant(region.built, in[1], weights, sizeof weights);
    set_constant(region.built, in[2], offsets, sizeof offsets);
    region.outputs[0] = add_value(region.built, "y", INLAY_FLOAT, 3);
    add_node(region.built, "Double", 13, region.inputs, 1, in[0]);
    node = add_node(region.built, "Scale", 1, in, 3, region.outputs[0]);
    region.built->nodes[node].domain = text("com.example");
    released = 0;
    assert_int_equal(build(&region), INLAY_OK);
    assert_int_equal(region.fates[in[1]], INLAY_CONST_PACKED);
    assert_int_equal(region.fates[in[2]], INLAY_CONST_BORROWED);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(run_region(&region, (void *[]){ x }, (void *[]){ y }), INLAY_OK);
        assert_true(y[0] == 21 && y[1] == 82 && y[2] == 183);
    }
    tear_down(&region);
    assert_int_equal(released, 1);
}

/* A kernel that accepts any address gets a misaligned constant as it is: align_constant() would fail. */
static void misaligned_constants(void **unused)
{
    struct region region = { .built = new_graph(), .input_count = 1, .output_count = 1 };
    _Alignas(64) char file[1 + sizeof weights];
    float x[3] = { 1, 2, 3 }, y[3];
    uint32_t in[2];

    (void)unused;
    memcpy(file + 1, weights, sizeof weights);
    region.inputs[0] = in[0] = add_value(region.built, "x", INLAY_FLOAT, 3);
    in[1] = add_value(region.built, "w", INLAY_FLOAT, 3);
    set_constant(region.built, in[1], file + 1, sizeof weights);
    region.outputs[0] = add_value(region.built, "y", INLAY_FLOAT, 3);
    add_node(region.built, "Shift", 1, in, 2, region.outputs[0]);
    assert_int_equal(build(&region), INLAY_OK);
    assert_int_equal(region.fates[in[1]], INLAY_CONST_BORROWED);
    assert_int_equal(run_region(&region, (void *[]){ x }, (void *[]){ y }), INLAY_OK);
    assert_true(y[0] == 11 && y[1] == 22 && y[2] == 33);
    tear_down(&region);
}

static void failures_name_the_node(void **unused)
{
    struct region region = { .built = new_graph(), .input_count = 1, .output_count = 1 };
    float x[4] = { 0 };

    (void)unused;
    region.inputs[0] = add_value(region.built, "x", INLAY_FLOAT, 4);
    region.outputs[0] = add_value(region.built, "y", INLAY_FLOAT, 4);
    add_node(region.built, "Fail", 1, region.inputs, 1, region.outputs[0]);
    assert_int_equal(build(&region), INLAY_OK);
    assert_int_equal(run_region(&region, (void *[]){ x }, (void *[]){ x }), INLAY_SHAPE_MISMATCH);
    assert_string_equal(region.diag.node, "node");
    assert_string_equal(region.diag.text, "node 'node': wrong shape");
    tear_down(&region);

    region = (struct region){ .built = new_graph(), .input_count = 1, .output_count = 1 };
    region.inputs[0] = add_value(region.built, "x", INLAY_FLOAT, 4);
    region.outputs[0] = add_value(region.built, "y", INLAY_FLOAT, -1); /* unknown, and Double does not allocate its
                                                                       * output */
    add_node(region.built, "Double", 13, region.inputs, 1, region.outputs[0]);
    assert_int_equal(build(&region), INLAY_UNSUPPORTED);
    assert_non_null(strstr(region.diag.text, "output 0 is not known"));
    tear_down(&region);
}

static void outputs_that_the_run_allocates(void **unused)
{
    struct region region = { .built = new_graph(), .input_count = 1, .output_count = 1 };
    float x[5] = { 1, -2, 3, -4, 5 };

    (void)unused;
    region.inputs[0] = add_value(region.built, "x", INLAY_FLOAT, 5);
    region.outputs[0] = add_value(region.built, "y", INLAY_FLOAT, -1);
    add_node(region.built, "Positive", 1, region.inputs, 1, region.outputs[0]);
    assert_int_equal(build(&region), INLAY_OK);
    assert_int_equal(region.plans[0].kind, INLAY_OUTPUT_ALLOCATED);
    assert_int_equal(run_region(&region, (void *[]){ x }, (void *[]){ NULL }), INLAY_OK);
    assert_int_equal(region.allocated_dims[0], 3);
    assert_true(((float *)region.allocated)[2] == 5);
    tear_down(&region);
}

/* More tensors than fit on the stack, some of them omitted. */
static void many_inputs(void **unused)
{
    struct region region = { .built = new_graph(), .output_count = 1 };
    uint32_t in[40];
    float x[3] = { 1, 2, 3 }, y[3];
    void *all[40];

    (void)unused;
    for (uint32_t i = 0; i < 40; i++) {
        in[i] = i % 4 == 3 ? INLAY_NONE : add_value(region.built, "x", INLAY_FLOAT, 3);
        if (in[i] != INLAY_NONE) {
            all[region.input_count] = x;
            region.inputs[region.input_count++] = in[i];
        }
    }
    region.outputs[0] = add_value(region.built, "y", INLAY_FLOAT, 3);
    add_node(region.built, "Sum", 1, in, 40, region.outputs[0]);
    assert_int_equal(build(&region), INLAY_OK);
    assert_int_equal(run_region(&region, all, (void *[]){ y }), INLAY_OK);
    assert_true(y[0] == 30 && y[2] == 90);
    tear_down(&region);
}

/* If two inputs could share their buffer with the output, the one without later consumers is chosen. */
static void in_place(void **unused)
{
    for (int later = 0; later < 3; later++) { /* 0: a and b have no later consumer, 1: a has one, 2: b has other dims */
        struct region region = { .built = new_graph(), .input_count = 2, .output_count = 2 };
        uint32_t a = add_value(region.built, "a", INLAY_FLOAT, 3),
                 b = add_value(region.built, "b", INLAY_FLOAT, later == 2 ? 1 : 3);
        const uint32_t in[2] = { b, a };

        region.inputs[0] = a;
        region.inputs[1] = b;
        region.outputs[0] = add_value(region.built, "y", INLAY_FLOAT, 3);
        region.outputs[1] = add_value(region.built, "z", INLAY_FLOAT, 3);
        add_node(region.built, "AddInPlace", 1, in, 2, region.outputs[0]);
        add_node(region.built, "Sum", 1, later == 1 ? &a : &region.outputs[0], 1, region.outputs[1]);
        assert_int_equal(build(&region), INLAY_OK);
        assert_int_equal(region.plans[0].alias, later == 2 ? 0 : 1);
        assert_int_equal(region.plans[1].alias, INLAY_NONE);
        tear_down(&region);
    }
    (void)unused;
}

static void regions_are_kept(void **unused)
{
    struct built *built = new_graph();
    const uint32_t nodes[] = { 0, 1 };
    uint32_t in[3], x = add_value(built, "x", INLAY_FLOAT, 3), y;
    const kit_region_value *value;
    inlay_diag diag = INLAY_DIAG_INIT;
    kit_region kept;

    (void)unused;
    in[0] = add_value(built, "double", INLAY_FLOAT, 3);
    in[1] = add_value(built, "w", INLAY_FLOAT, 3);
    in[2] = INLAY_NONE;
    set_constant(built, in[1], weights, sizeof weights);
    y = add_value(built, "y", INLAY_FLOAT, 3);
    add_node(built, "Double", 13, &x, 1, in[0]);
    add_node(built, "Scale", 1, in, 3, y);
    const inlay_compile_request request = { .struct_size = sizeof request,
                                            .graph = &built->graph,
                                            .nodes = nodes,
                                            .node_count = 2,
                                            .inputs = &x,
                                            .outputs = &y,
                                            .input_count = 1,
                                            .output_count = 1 };
    assert_int_equal(kit_region_keep(&request, 1024, 2, &kept, &diag), INLAY_OK);
    assert_int_equal(kept.node_count, 2);
    assert_int_equal(kept.value_count, 4); /* an omitted input is not a value */
    assert_int_equal(kept.nodes[1].inputs[2], INLAY_NONE);
    assert_int_equal(kept.nodes[1].inputs[0], kept.nodes[0].outputs[0]);
    assert_string_equal(kept.nodes[1].op_type.data, "Scale");
    assert_true(kept.nodes[1].op_type.data != inlay_graph_node(&built->graph, 1)->op_type.data); /* a copy */
    value = &kept.values[kept.nodes[0].inputs[0]];
    assert_true(value->snapshot == x && value->input == 0 && value->output == INLAY_NONE && value->uses == 1);
    value = &kept.values[kept.nodes[1].outputs[0]];
    assert_true(value->snapshot == y && value->output == 0 && value->uses == 1);
    value = &kept.values[kept.nodes[1].inputs[1]];
    assert_true(value->constant && value->data_bytes == sizeof weights && value->data != weights);
    assert_memory_equal(value->data, weights, sizeof weights);
    for (uint32_t i = 0; i < 2; i++) /* the additional values of the provider */
        assert_int_equal(kept.values[kept.value_count + i].snapshot, INLAY_NONE);
    assert_non_null(kit_region_take(&kept, 100));
    kit_region_free(&kept);
    assert_int_equal(kit_region_keep(&request, sizeof weights - 1, 0, &kept, &diag), INLAY_OK);
    assert_null(kept.values[kept.nodes[1].inputs[1]].data); /* larger than the limit, so not copied */
    kit_region_free(&kept);
    kit_region_free(&kept);
    free(built);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(regions_are_kept),
        cmocka_unit_test(hosts_of_other_versions),
        cmocka_unit_test(operators_of_sequences),
        cmocka_unit_test(reasons_of_the_best_match),
        cmocka_unit_test(costs),
        cmocka_unit_test(costs_of_a_chain),
        cmocka_unit_test(a_region_of_two_nodes),
        cmocka_unit_test(misaligned_constants),
        cmocka_unit_test(failures_name_the_node),
        cmocka_unit_test(outputs_that_the_run_allocates),
        cmocka_unit_test(many_inputs),
        cmocka_unit_test(in_place),
    };
    return cmocka_run_group_tests(tests, open_provider_under_test, close_provider_under_test);
}
