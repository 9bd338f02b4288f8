/* Rarely used fields of inlay.h and plugin.h: a plugin linked into the program records the arguments of its calls, and
 * the program queries sessions, devices and steps of the optimiser. */
#include "inlay/plugin.h"
#include "rig.h"
#include <unistd.h>

static struct {
    uint32_t polls, executed, inferred, node_flags;
    bool has_folder, has_deadline, has_rooms;
    uint64_t constant_bytes;
    int64_t least, most; /* of the dimension of Twice's input */
    int64_t expected;    /* number of rows in the profile of compile */
} notes;

static const inlay_host *host;
static const inlay_option unused_options[] = { { .name = "nothing", .doc = "is not read", .kind = INLAY_OPTION_BOOL } };

static inlay_status create(void *ctx, const inlay_host *new_host, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    (void)ctx, (void)diag;
    host = new_host;
    notes.has_folder = args->cache_dir != NULL && args->cache_dir[0] == '/';
    *out_state = &notes;
    return INLAY_OK;
}

static void destroy(void *state)
{
    (void)state;
}

static inlay_status list(void *ctx, const inlay_enumerate_request *request, inlay_diag *diag)
{
    const inlay_device_info one = { .struct_size = sizeof one,
                                    .name = "Notebook",
                                    .facts = "pages=96",
                                    .memory_bytes = 4096,
                                    .free_bytes = 1024,
                                    .kind = INLAY_DEVICE_NPU,
                                    .flags = INLAY_DEVICE_UNIFIED };

    (void)ctx, (void)diag;
    return request->device(request->user, &one);
}

/* Offers nodes of its operator, with placements of another element type, which the host ignores for
 * inputs and outputs of the graph. */
static inlay_status assess(void *state, const inlay_assess_request *request, inlay_diag *diag)
{
    const inlay_graph *graph = request->graph;
    const uint8_t *candidates = request->candidates;
    const inlay_assess_sink *sink = request->sink;
    inlay_status status = INLAY_OK;

    (void)state, (void)diag;
    notes.constant_bytes = graph->constant_bytes;
    for (uint32_t n = 0; n < graph->node_count && status == INLAY_OK; n++) {
        const inlay_node_info *node = inlay_graph_node(graph, n);
        const inlay_refusal refusal = {
            .struct_size = sizeof refusal, .node = n, .code = INLAY_REFUSE_OPERATOR, .text = "not mine"
        };
        const bool mine = strcmp(node->op_type.data, "Twice") == 0;
        const inlay_dim *rows = mine ? inlay_graph_value(graph, node->inputs[0])->dims : NULL;
        const inlay_placement odd[] = {
            { .value = mine ? node->inputs[0] : 0, .dtype = INLAY_BFLOAT16 },
            { .value = mine ? node->outputs[0] : 0, .dtype = INLAY_BFLOAT16 },
        };
        const inlay_offer offer = { .struct_size = sizeof offer,
                                    .nodes = &n,
                                    .node_count = 1,
                                    .placements = odd,
                                    .placement_count = 2,
                                    .placement_stride = sizeof odd[0] };

        if (candidates[n] == 0)
            continue;
        notes.node_flags |= node->flags;
        if (rows != NULL && rows->kind == INLAY_DIM_SYMBOLIC) {
            const inlay_symbol_info *symbol =
                INLAY_AT(inlay_symbol_info, graph->symbols, graph->symbol_stride, rows->symbol);

            notes.least = symbol->min;
            notes.most = symbol->max;
        }
        status = mine ? sink->offer(sink->ctx, &offer) : sink->refuse(sink->ctx, &refusal);
    }
    return status;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out, inlay_diag *diag)
{
    (void)state, (void)diag, (void)request;
    out->ns = 100;
    return INLAY_OK;
}

static inlay_status compile(void *state, const inlay_compile_request *request, inlay_compiled **out, inlay_diag *diag)
{
    const uint32_t input = request->inputs[0];

    (void)state;
    for (uint32_t i = 0; i < request->input_count + request->output_count; i++)
        if (INLAY_AT(inlay_placement, request->placements, request->placement_stride, i)->dtype != INLAY_UNDEFINED)
            return inlay_fail(diag, INLAY_INTERNAL, "an input or output of another element type");
    if (request->poll != NULL && request->poll(request->ctx) == INLAY_OK)
        notes.polls++;
    if (request->progress != NULL)
        request->progress(request->ctx, 0.5, "taking notes");
    notes.expected = request->profile != NULL
                         ? INLAY_AT(inlay_value_state, request->profile, request->profile_stride, input)->dims[0]
                         : -1;
    *out = (inlay_compiled *)(void *)&notes;
    return INLAY_OK;
}

static void release_compiled(void *state, inlay_compiled *compiled)
{
    (void)state, (void)compiled;
}

static inlay_status specialize(void *state, inlay_compiled *compiled, inlay_specialize_request *request,
                               inlay_instance **out, inlay_diag *diag)
{
    (void)state, (void)diag;
    notes.has_rooms |= request->rooms != NULL; /* no operator here appends to a state */
    *out = (inlay_instance *)(void *)compiled;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *compiled, inlay_instance *instance)
{
    (void)state, (void)compiled, (void)instance;
}

static inlay_status execute(void *state, inlay_compiled *compiled, inlay_instance *instance,
                            const inlay_exec_args *args)
{
    const inlay_tensor_arg *input = &args->inputs[0], *output = &args->outputs[0];

    (void)state, (void)compiled, (void)instance;
    notes.executed++;
    notes.has_deadline = args->deadline_ns != 0;
    for (uint64_t i = 0; i < output->buffer.bytes / sizeof(float); i++)
        ((float *)inlay_buffer_host(&output->buffer))[i] = 2 * ((const float *)inlay_buffer_host(&input->buffer))[i];
    return INLAY_OK;
}

/* The output of Twice has the type and dimensions of its input, including symbols. */
static inlay_status infer(void *ctx, inlay_infer *call, inlay_diag *diag)
{
    const inlay_value_info *input = call->inputs[0];

    (void)ctx;
    if (call->struct_size < sizeof *call || call->output_count != 1 || strcmp(call->node->op_type.data, "Twice") != 0 ||
        call->node_bytes < sizeof *call->node || call->value_bytes < sizeof *input)
        return inlay_fail(diag, INLAY_INTERNAL, "incomplete arguments of infer");
    notes.inferred++;
    return call->set_output(call->ctx, 0, input->dtype, input->rank, input->dims);
}

static const inlay_provider provider = { .struct_size = sizeof provider,
                                         .name = "recorder",
                                         .description = "takes notes",
                                         .device_kind = INLAY_DEVICE_CPU,
                                         .options = unused_options,
                                         .option_count = 1,
                                         .option_stride = sizeof unused_options[0],
                                         .create = create,
                                         .destroy = destroy,
                                         .assess = assess,
                                         .cost = cost,
                                         .compile = compile,
                                         .release_compiled = release_compiled,
                                         .specialize = specialize,
                                         .release_instance = release_instance,
                                         .execute = execute,
                                         .enumerate = list };

/* INLAY_OPERATOR_RANDOM: two equal nodes must not be merged. */
static const inlay_operator twice = { .struct_size = sizeof twice,
                                      .domain = "com.recorder",
                                      .op_type = "Twice",
                                      .signature = "x:T -> y:T; T=float",
                                      .doc = "As much again.",
                                      .since_version = 1,
                                      .flags = INLAY_OPERATOR_RANDOM,
                                      .infer = infer };

static inlay_status open_recorder(const inlay_host *caller, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const inlay_plugin plugin = { .struct_size = sizeof plugin,
                                         .abi_major = INLAY_ABI_MAJOR,
                                         .abi_minor = INLAY_ABI_MINOR,
                                         .name = "recorder",
                                         .version = "2.5.1",
                                         .build_id = "recorder",
                                         .provider_count = 1,
                                         .providers = &provider,
                                         .provider_stride = sizeof provider,
                                         .operators = &twice,
                                         .operator_count = 1,
                                         .operator_stride = sizeof twice };

    (void)caller, (void)diag;
    *out_plugin = &plugin;
    return INLAY_OK;
}

/* y = Twice(x) + Twice(x) + b + 1, where input b has a default value; with a version and a documentation string. */
static void write_model(struct wire *wire)
{
    wire_mark graph, node;

    *wire = (struct wire){ 0 };
    wire_int(wire, 5, 42); /* model_version */
    wire_text(wire, 6, "A model with documentation.");
    mw_opset(wire, 8, "com.recorder", 1);
    graph = mw_begin(wire, 8, 17);
    mw_value(wire, MW_INPUT, "x", INLAY_FLOAT, "N,2");
    mw_value(wire, MW_INPUT, "b", INLAY_FLOAT, "");
    mw_scalar(wire, "b", INLAY_FLOAT, 3);
    mw_scalar(wire, "one", INLAY_FLOAT, 1);
    for (int i = 0; i < 2; i++) {
        node = mw_node_begin(wire, "Twice", "x", i == 0 ? "p" : "q");
        wire_text(wire, 7, "com.recorder");
        wire_end(wire, node);
    }
    mw_node(wire, "Add", "p,q", "s");
    mw_node(wire, "Identity", "s", "t");
    mw_node(wire, "Add", "t,b", "u");
    mw_node(wire, "Add", "u,one", "y");
    mw_value(wire, MW_OUTPUT, "y", INLAY_FLOAT, "N,2");
    wire_end(wire, graph);
}

static struct rig open_model(void)
{
    const char *const options[] = { "providers", "recorder,reference",  "probe", "never",
                                    "cache_dir", "/tmp/inlay-recorder", "dim",   "N~=5",
                                    NULL };
    struct wire wire;

    write_model(&wire);
    return rig_open(&wire, options);
}

static int registered(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    return inlay_plugin_register(open_recorder, &diag) == INLAY_OK ? 0 : -1;
}

static void a_plugin(void **state)
{
    inlay_run_options timed = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig = open_model();

    (void)state;
    rig_floats(&rig, 0, "3,2", (float[]){ 1, 2, 3, 4, 5, 6 });
    rig_run(&rig);
    rig_expect_floats(&rig, 0, "3,2", (float[]){ 8, 12, 16, 20, 24, 28 });
    assert_int_equal(notes.executed, 2); /* common subexpression elimination skips random operators */
    assert_false(notes.has_deadline);
    timed.timeout_ns = 60ull * 1000000000;
    assert_int_equal(inlay_context_run(rig.context, &timed, &diag), INLAY_OK);
    assert_true(notes.has_deadline);
    assert_false(notes.has_folder); /* only devices get a cache folder */
    assert_int_equal(notes.polls, 2);
    assert_int_equal(notes.expected, 5);
    assert_int_equal(notes.least, 0);
    assert_true(notes.most >= 3);
    assert_int_equal(notes.constant_bytes, 4);
    assert_int_equal(notes.node_flags, 0);
    assert_false(notes.has_rooms);
    assert_true(notes.inferred >= 2);
    rig_close(&rig);
}

static void a_session(void **state)
{
    inlay_model_info model = { .struct_size = sizeof model };
    inlay_io_info io = { .struct_size = sizeof io };
    inlay_session_provider_info provider_info = { .struct_size = sizeof provider_info };
    struct rig rig = open_model();

    (void)state;
    assert_int_equal(inlay_session_model(rig.session, &model), INLAY_OK);
    assert_string_equal(model.doc, "A model with documentation.");
    assert_string_equal(model.graph_name, "g");
    assert_int_equal(model.model_version, 42);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(inlay_session_input(rig.session, i, &io), INLAY_OK);
        assert_int_equal(io.optional, i);
    }
    assert_int_equal(inlay_session_provider(rig.session, 0, &provider_info), INLAY_OK);
    assert_string_equal(provider_info.name, "recorder");
    assert_true(provider_info.plugin_path[0] != '/'); /* the provider does not come from a file */
    assert_string_equal(provider_info.plugin_version, "2.5.1");
    rig_close(&rig);
}

static void on_device(void *user, const inlay_device *device)
{
    if (strcmp(device->provider, "recorder") != 0)
        return;
    ++*(int *)user;
    assert_true(device->struct_size >= sizeof *device);
    assert_string_equal(device->name, "Notebook");
    assert_string_equal(device->facts, "pages=96");
    assert_int_equal(device->memory_bytes, 4096);
    assert_int_equal(device->free_bytes, 1024);
    assert_int_equal(device->kind, INLAY_DEVICE_NPU);
    assert_int_equal(device->unified, 1);
}

static void devices(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    int count = 0;

    (void)state;
    assert_int_equal(inlay_device_list(NULL, on_device, &count, &diag), INLAY_OK);
    assert_int_equal(count, 1);
}

static void options(void **state)
{
    inlay_option_doc option = { .struct_size = sizeof option };
    bool found = false;

    (void)state;
    for (uint32_t i = 0; inlay_options_describe(i, &option) == INLAY_OK; i++) {
        assert_true(option.doc[0] != '\0' && option.kind <= INLAY_SETTING_ENUM && option.min <= option.max);
        assert_true((option.choices[0] != '\0') == (option.kind == INLAY_SETTING_ENUM));
        if (strcmp(option.name, "policy") == 0)
            assert_string_equal(option.choices, "cost|priority");
        if (strcmp(option.name, "cache_max_bytes") != 0)
            continue;
        found = true;
        assert_int_equal(option.kind, INLAY_SETTING_INT);
        assert_string_equal(option.default_value, "-1");
        assert_int_equal(option.min, -1);
    }
    assert_true(found);
}

struct steps {
    uint32_t summaries, rewrites, before, after;
    uint64_t last;
    bool has_identity; /* an event names the Identity node */
};

static void on_optimizer_event(void *user, const inlay_optimize_event *event)
{
    struct steps *steps = user;

    assert_true(event->struct_size >= sizeof *event && event->pass[0] != '\0' && event->text != NULL);
    if (event->node == NULL) {
        steps->summaries++;
        steps->before = steps->before == 0 ? event->nodes_before : steps->before;
        steps->after = event->nodes_after;
        assert_true(event->cost_before_ns > 0 && event->cost_after_ns > 0);
        return;
    }
    assert_string_equal(event->graph, "g");
    steps->rewrites++;
    assert_true(event->rewrite >= steps->last); /* the events of one rewrite share a number */
    steps->last = event->rewrite;
    steps->has_identity |= strstr(event->text, "Identity") != NULL || strstr(event->node, "Identity") != NULL;
}

/* Does the file import this version of ai.onnx (field 8 of ModelProto, with an empty domain or none)? */
static bool imports_opset(const char *path, unsigned char opset)
{
    const unsigned char bare[] = { 0x42, 2, 0x10, opset }, empty[] = { 0x42, 4, 0x0a, 0, 0x10, opset };
    static unsigned char data[65536];
    FILE *file = fopen(path, "rb");
    const size_t count = file != NULL ? fread(data, 1, sizeof data, file) : 0;
    const bool found =
        memmem(data, count, bare, sizeof bare) != NULL || memmem(data, count, empty, sizeof empty) != NULL;

    assert_true(count > 0);
    (void)fclose(file);
    return found;
}

static void steps_of_the_optimiser(void **state)
{
    char path[] = "/tmp/inlay-recorder-XXXXXX", out[64], beside[40];
    inlay_optimize_args args = INLAY_OPTIMIZE_ARGS_INIT;
    inlay_extract_args part = INLAY_EXTRACT_ARGS_INIT;
    const char *const last[] = { "y" }, *const first[] = { "t" };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options = NULL;
    struct steps steps = { 0 };
    struct wire wire;
    const int fd = mkstemp(path);

    (void)state;
    write_model(&wire);
    assert_true(fd >= 0 && write(fd, wire.bytes, wire.count) == (ssize_t)wire.count);
    (void)close(fd);
    wire_deinit(&wire);
    (void)snprintf(out, sizeof out, "%s.onnx", path);
    (void)snprintf(beside, sizeof beside, "%s.data", strrchr(path, '/') + 1);
    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "recorder,reference", &diag), INLAY_OK);
    args.out_path = out;
    args.external_file = beside;
    args.event = on_optimizer_event;
    args.user = &steps;
    args.with_costs = 1;
    if (inlay_optimize(path, options, &args, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(args.struct_size, sizeof args);
    assert_int_equal(args.nodes_before, 6);
    assert_int_equal(args.nodes_after, 5);
    assert_true(steps.summaries > 0 && steps.rewrites > 0 && steps.has_identity && steps.before >= steps.after);
    assert_int_equal(steps.after, 5);
    assert_false(imports_opset(out, 19));
    args.target_opset = 19;
    args.event = NULL;
    if (inlay_optimize(path, options, &args, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_true(imports_opset(out, 19));
    part.out_path = out;
    part.external_file = beside;
    part.inputs = first;
    part.outputs = last;
    part.input_count = part.output_count = 1;
    assert_int_equal(part.struct_size, sizeof part);
    if (inlay_extract(path, options, &part, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(part.nodes_kept, 2);
    inlay_options_destroy(options);
    (void)unlink(path);
    (void)unlink(out);
    (void)snprintf(out, sizeof out, "/tmp/%s", beside);
    (void)unlink(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plugin),
        cmocka_unit_test(a_session),
        cmocka_unit_test(devices),
        cmocka_unit_test(options),
        cmocka_unit_test(steps_of_the_optimiser),
    };

    return cmocka_run_group_tests(tests, registered, NULL);
}
