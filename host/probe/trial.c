#include "probe/trial.h"
#include "base/provider_calls.h"
#include "graph/graph.h"
#include "plan/program.h"
#include "plugin/crash.h"
#include "plugin/guard.h"
#include "inlay/check.h"
#include <stdlib.h>
#include <string.h>

enum { OPSET = 17, MAX_INPUTS = 3, ELEMENTS = 512, RESULT_BYTES = 1 << 20 };

struct shape {
    uint32_t rank;
    int64_t dims[4];
};

/* A common operator with small float tensors. */
struct trial_node {
    const char *op_type;
    struct shape inputs[MAX_INPUTS];
    const char *ints; /* name of an attribute with a list of integers, or NULL */
    int64_t values[4];
    uint32_t value_count;
};

static const struct trial_node trial_nodes[] = {
    { .op_type = "Relu", .inputs = { { 3, { 2, 3, 4 } } } },
    { .op_type = "Sigmoid", .inputs = { { 2, { 3, 5 } } } },
    { .op_type = "Add", .inputs = { { 2, { 3, 4 } }, { 1, { 4 } } } },
    { .op_type = "Mul", .inputs = { { 3, { 2, 3, 4 } }, { 3, { 2, 3, 4 } } } },
    { .op_type = "MatMul", .inputs = { { 2, { 4, 3 } }, { 2, { 3, 5 } } } },
    { .op_type = "Gemm", .inputs = { { 2, { 4, 3 } }, { 2, { 3, 5 } }, { 1, { 5 } } } },
    { .op_type = "Conv",
      .inputs = { { 4, { 1, 3, 6, 6 } }, { 4, { 4, 3, 3, 3 } }, { 1, { 4 } } },
      .ints = "kernel_shape",
      .values = { 3, 3 },
      .value_count = 2 },
    { .op_type = "MaxPool",
      .inputs = { { 4, { 1, 3, 6, 6 } } },
      .ints = "kernel_shape",
      .values = { 2, 2 },
      .value_count = 2 },
    { .op_type = "GlobalAveragePool", .inputs = { { 4, { 1, 3, 6, 6 } } } },
    { .op_type = "Softmax", .inputs = { { 2, { 3, 7 } } } },
    { .op_type = "Transpose",
      .inputs = { { 3, { 2, 3, 4 } } },
      .ints = "perm",
      .values = { 2, 0, 1 },
      .value_count = 3 },
    { .op_type = "ReduceMean", .inputs = { { 3, { 2, 3, 4 } } }, .ints = "axes", .values = { 1 }, .value_count = 1 },
    { .op_type = "LayerNormalization", .inputs = { { 2, { 3, 8 } }, { 1, { 8 } }, { 1, { 8 } } } },
};

struct trial {
    const plugin_module *module;
    program_env env;
    partition_provider provider;
    struct arena arena;
};

static const inlay_operator *find_operator(void *ctx, const char *domain, const char *op_type, int64_t opset)
{
    const plugin_module *module = ctx;

    for (uint32_t i = 0; i < module->file.operator_count; i++)
        if (module->operators[i].since_version <= opset && strcmp(module->operators[i].domain, domain) == 0 &&
            strcmp(module->operators[i].op_type, op_type) == 0)
            return &module->operators[i];
    return NULL;
}

static void no_operator(void *ctx, const char *domain, const char *op_type, int64_t opset, char *text, size_t bytes)
{
    (void)ctx;
    (void)opset;
    (void)snprintf(text, bytes, "no %s.%s", domain, op_type);
}

/* Creates a model with one node and no inputs; add_operand() adds the operands as constants. NULL: out of memory. */
static graph_node *start_model(const char *op_type, const char *domain, int64_t version, uint32_t inputs,
                               uint32_t outputs, graph_model **out_model)
{
    graph_model *model = graph_model_create();
    graph_node *node;

    *out_model = model;
    if (model == NULL)
        return NULL;
    model->ir_version = 8;
    model->opsets = arena_array(&model->arena, 2, sizeof *model->opsets);
    node = graph_add_node(model->main, op_type, domain, op_type, inputs, outputs);
    if (model->opsets == NULL || node == NULL)
        return NULL;
    model->opsets[0] = (graph_opset){ "ai.onnx", OPSET };
    model->opsets[1] = (graph_opset){ domain, version };
    model->opset_count = strcmp(domain, "ai.onnx") == 0 ? 1 : 2;
    for (uint32_t i = 0; i < outputs; i++) {
        const uint32_t value = graph_add_value(model->main, NULL, 0);

        if (value == INLAY_NONE)
            return NULL;
        ((uint32_t *)(uintptr_t)node->info.outputs)[i] = value;
    }
    return node;
}

static bool add_operand(graph_node *node, struct graph *graph, uint32_t input, inlay_dtype dtype, uint32_t rank,
                        const int64_t *dims, const void *data, uint64_t bytes)
{
    uint32_t value = graph_add_value(graph, NULL, 0);

    INLAY_CHECK(input < node->info.input_count);
    if (value == INLAY_NONE || graph_set_constant(graph, value, dtype, rank, dims, data, bytes) != INLAY_OK)
        return false;
    ((uint32_t *)(uintptr_t)node->info.inputs)[input] = value;
    return true;
}

static inlay_status ignore_offer(void *ctx, const inlay_offer *offer)
{
    (void)ctx, (void)offer;
    return INLAY_OK;
}

static inlay_status ignore_refusal(void *ctx, const inlay_refusal *refusal)
{
    (void)ctx, (void)refusal;
    return INLAY_OK;
}

/* Calls only the provider's assess(), for providers with device memory: running the node would need copies of the
 * operands, which only a session can do. */
static void assess_only(struct trial *trial, const struct graph *graph)
{
    static const uint8_t candidate = 1;
    const inlay_assess_sink sink = { .struct_size = sizeof sink, .offer = ignore_offer, .refuse = ignore_refusal };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_graph snapshot;

    if (graph_snapshot(graph, &trial->arena, &snapshot, &diag) == INLAY_OK)
        (void)call_assess(trial->provider.table, trial->provider.state, &snapshot, &candidate, &sink, &diag);
}

/* Runs the node by constant folding, which calls all functions of a provider: assess, compile, specialize, execute,
 * release. */
static void run_model(struct trial *trial, graph_model *model, graph_node *node)
{
    const graph_operators operators = { .find = find_operator,
                                        .missing = no_operator,
                                        .ctx = (void *)(uintptr_t)trial->module };
    inlay_tensor_view *results = arena_array(&trial->arena, (size_t)node->info.output_count + 1, sizeof *results);
    program_folder folder = { .env = &trial->env };
    inlay_diag diag = INLAY_DIAG_INIT;

    if (results != NULL && graph_finish(model->main, &diag) == INLAY_OK &&
        graph_bind(model, &operators, &diag) == INLAY_OK && graph_infer(model, &diag) == INLAY_OK) {
        if (partition_default_domain(&trial->provider) != INLAY_DOMAIN_HOST ||
            (trial->provider.table->flags & INLAY_PROVIDER_ASYNC) != 0)
            assess_only(trial, model->main);
        else
            (void)!program_fold_node(&folder, model->main, node, INLAY_NONE, RESULT_BYTES, results, &trial->arena,
                                     &diag);
    }
    program_folder_deinit(&folder);
    arena_reset(&trial->arena);
}

static void run_trial_node(struct trial *trial, const struct trial_node *description)
{
    static float data[ELEMENTS];
    uint32_t inputs = 0;
    graph_model *model;
    graph_node *node;
    bool ok;

    for (uint32_t i = 0; i < ELEMENTS; i++)
        data[i] = 0.25f + (float)(i % 7) / 8;
    while (inputs < MAX_INPUTS && description->inputs[inputs].rank > 0)
        inputs++;
    node = start_model(description->op_type, "ai.onnx", OPSET, inputs, 1, &model);
    ok = node != NULL;
    for (uint32_t i = 0; ok && i < inputs; i++) {
        uint64_t count = 1;

        for (uint32_t d = 0; d < description->inputs[i].rank; d++)
            count *= (uint64_t)description->inputs[i].dims[d];
        ok = count <= ELEMENTS && add_operand(node, model->main, i, INLAY_FLOAT, description->inputs[i].rank,
                                              description->inputs[i].dims, data, count * sizeof *data);
    }
    if (ok && description->ints != NULL)
        ok = graph_set_attr_ints(model->main, node, description->ints, description->values, description->value_count) ==
             INLAY_OK;
    if (ok)
        run_model(trial, model, node);
    graph_model_destroy(model);
}

static void run_example(struct trial *trial, const inlay_operator *op, const inlay_op_example *example)
{
    graph_model *model;
    graph_node *node =
        start_model(op->op_type, op->domain, op->since_version, example->input_count, example->output_count, &model);
    bool ok = node != NULL;

    for (uint32_t i = 0; ok && i < example->input_count; i++)
        ok = add_operand(node, model->main, i, example->inputs[i].dtype, example->inputs[i].rank,
                         example->inputs[i].dims, example->inputs[i].data, example->inputs[i].bytes);
    for (uint32_t i = 0; ok && i < example->attr_count; i++)
        ok = graph_set_attr(model->main, node, INLAY_AT(inlay_attr_info, example->attrs, example->attr_stride, i)) ==
             INLAY_OK;
    if (ok)
        run_model(trial, model, node);
    graph_model_destroy(model);
}

void trial_run_provider(const plugin_module *module, struct guard *wrapped)
{
    struct trial trial = { .module = module };

    trial.provider = (partition_provider){
        .table = &wrapped->table, .state = wrapped, .name = wrapped->table.name, .first_domain = 1
    };
    trial.env = (program_env){ .providers = &trial.provider, .provider_count = 1, .max_threads = 1 };
    for (size_t i = 0; i < sizeof trial_nodes / sizeof trial_nodes[0]; i++)
        run_trial_node(&trial, &trial_nodes[i]);
    for (uint32_t i = 0; i < module->file.operator_count; i++) {
        const inlay_operator *custom = &module->operators[i];

        for (uint32_t k = 0; k < custom->example_count; k++)
            run_example(&trial, custom, INLAY_AT(inlay_op_example, custom->examples, custom->example_stride, k));
    }
    arena_deinit(&trial.arena);
}

/* Returns the number of calls that changed the floating-point environment. */
static uint32_t try_provider(const plugin_module *module, const plugin_provider *provider,
                             const provider_setting *settings, uint32_t setting_count)
{
    inlay_option_value *values = calloc((size_t)provider->table->option_count + 1, sizeof *values);
    const inlay_create_args args = { .struct_size = sizeof args,
                                     .options = values,
                                     .option_count = provider->table->option_count,
                                     .option_stride = sizeof *values,
                                     .first_domain = 1,
                                     .max_threads = 1 };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_status status = INLAY_OUT_OF_MEMORY;
    void *state = NULL;
    uint32_t float_changes = 0;
    struct guard wrapped;

    if (values != NULL)
        status = provider_parse_options(provider->table->name, provider->options, provider->table->option_count,
                                        settings, setting_count, values, &diag);
    if (status == INLAY_OK) {
        crash_scene before = crash_enter(module, "create", provider->table->name, NULL);

        status = provider->table->create(provider->table->ctx, host_table(), &args, &state, &diag);
        crash_leave(&before);
    }
    if (status == INLAY_OK) { /* a failure is not an error: the device may be missing */
        guard_init(&wrapped, provider->table, provider->table->name, state, module);
        trial_run_provider(module, &wrapped);
        if (wrapped.table.quiesce != NULL)
            wrapped.table.quiesce(&wrapped);
        wrapped.table.destroy(&wrapped);
        float_changes = wrapped.float_changes;
    }
    free(values);
    return float_changes;
}

uint32_t trial_run(const plugin_module *module, char *const *settings)
{
    enum { MOST_SETTINGS = 64 };
    provider_setting list[MOST_SETTINGS];
    uint32_t float_changes = 0, count = 0;

    for (; settings[count] != NULL && count < MOST_SETTINGS; count++) {
        char *equals = strchr(settings[count], '=');

        if (equals == NULL)
            return 0; /* the host writes none like this */
        *equals = '\0';
        list[count] = (provider_setting){ settings[count], equals + 1 };
    }
    for (uint32_t i = 0; i < module->file.provider_count; i++)
        float_changes += try_provider(module, &module->providers[i], list, count);
    return float_changes;
}
