/* What the two headers promise to tell and few ask for: a plugin within the program sees what it is handed, and the
 * program what it hears of sessions, devices and steps of the optimiser. */
#include "inlay/plugin.h"
#include "../exec/rig.h"
#include <unistd.h>

/* ------------------------------------------------------------------ a plugin that takes notes */

static struct {
    uint32_t polls, executed, inferred, node_flags;
    bool has_folder, has_deadline, has_rooms;
    uint64_t constant_bytes;
    int64_t least, most; /* of the dimension of Twice's input */
    int64_t expected;    /* rows that the profile of compile expects */
} notes;

static const inlay_host *host;
static const inlay_option no_options[] = { { .name = "nothing", .doc = "is not read", .kind = INLAY_OPTION_BOOL } };

static inlay_status create(void *ctx, const inlay_host *h, const inlay_create_args *args, void **out_state,
                           inlay_diag *diag)
{
    (void)ctx, (void)diag;
    host = h;
    notes.has_folder = args->cache_dir != NULL && args->cache_dir[0] == '/';
    *out_state = &notes;
    return INLAY_OK;
}

static void destroy(void *state)
{
    (void)state;
}

static inlay_status list(void *ctx, const inlay_host *h,
                         inlay_status (*device)(void *user, const inlay_device_info *info), void *user,
                         inlay_diag *diag)
{
    const inlay_device_info one = { .struct_size = sizeof one,
                                    .name = "Notebook",
                                    .facts = "pages=96",
                                    .memory_bytes = 4096,
                                    .free_bytes = 1024,
                                    .kind = INLAY_DEVICE_NPU,
                                    .flags = INLAY_DEVICE_UNIFIED };

    (void)ctx, (void)h, (void)diag;
    return device(user, &one);
}

/* Nodes of its own operator, in layouts that are reserved: those placements count as not there. */
static inlay_status assess(void *state, const inlay_graph *graph, const uint8_t *candidates,
                           const inlay_assess_sink *sink, inlay_diag *diag)
{
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
            { .value = mine ? node->inputs[0] : 0,
              .layout = { .kind = INLAY_LAYOUT_BLOCKED,
                          .block_count = 1,
                          .order = { 1, 0 },
                          .block_axis = { 1 },
                          .block_size = { 8 } } },
            { .value = mine ? node->outputs[0] : 0, .layout = { .kind = INLAY_LAYOUT_OPAQUE, .opaque_id = 7 } },
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
            const inlay_symbol_info *s =
                INLAY_AT(inlay_symbol_info, graph->symbols, graph->symbol_stride, rows->symbol);

            notes.least = s->min;
            notes.most = s->max;
        }
        status = mine ? sink->offer(sink->ctx, &offer) : sink->refuse(sink->ctx, &refusal);
    }
    return status;
}

static inlay_status cost(void *state, const inlay_cost_request *request, inlay_cost *out)
{
    (void)state, (void)request;
    out->ns = 100;
    return INLAY_OK;
}

static inlay_status compile(void *state, const inlay_compile_request *r, inlay_compiled **out, inlay_diag *diag)
{
    const uint32_t x = r->inputs[0];

    (void)state;
    for (uint32_t i = 0; i < r->input_count + r->output_count; i++)
        if (INLAY_AT(inlay_placement, r->placements, r->placement_stride, i)->layout.kind != INLAY_LAYOUT_ROW_MAJOR)
            return inlay_fail(diag, INLAY_INTERNAL, "a border in a layout that is reserved");
    if (r->poll != NULL && r->poll(r->ctx) == INLAY_OK)
        notes.polls++;
    if (r->progress != NULL)
        r->progress(r->ctx, 0.5, "taking notes");
    notes.expected = r->profile != NULL ? INLAY_AT(inlay_value_state, r->profile, r->profile_stride, x)->dims[0] : -1;
    *out = (inlay_compiled *)(void *)&notes;
    return INLAY_OK;
}

static void release_compiled(void *state, inlay_compiled *c)
{
    (void)state, (void)c;
}

static inlay_status specialize(void *state, inlay_compiled *c, inlay_specialize_request *r, inlay_instance **out,
                               inlay_diag *diag)
{
    (void)state, (void)diag;
    notes.has_rooms |= r->rooms != NULL; /* nothing here appends to a state */
    *out = (inlay_instance *)(void *)c;
    return INLAY_OK;
}

static void release_instance(void *state, inlay_compiled *c, inlay_instance *in)
{
    (void)state, (void)c, (void)in;
}

static inlay_status execute(void *state, inlay_compiled *c, inlay_instance *in, const inlay_exec_args *args)
{
    const inlay_tensor_arg *x = &args->inputs[0], *y = &args->outputs[0];

    (void)state, (void)c, (void)in;
    notes.executed++;
    notes.has_deadline = args->deadline_ns != 0;
    for (uint64_t i = 0; i < y->buffer.bytes / sizeof(float); i++)
        ((float *)inlay_buffer_host(&y->buffer))[i] = 2 * ((const float *)inlay_buffer_host(&x->buffer))[i];
    return INLAY_OK;
}

/* Twice of [N, ...]: its own size, said with the symbol by name where there is one. */
static inlay_status infer(void *ctx, inlay_infer *f, inlay_diag *diag)
{
    const inlay_value_info *x = f->inputs[0];

    (void)ctx;
    if (f->struct_size < sizeof *f || f->output_count != 1 || strcmp(f->node->op_type.data, "Twice") != 0 ||
        f->node_bytes < sizeof *f->node || f->value_bytes < sizeof *x)
        return inlay_fail(diag, INLAY_INTERNAL, "inference without its facts");
    notes.inferred++;
    return f->set_output(f->ctx, 0, x->dtype, x->rank, x->dims);
}

static const inlay_provider provider = { .struct_size = sizeof provider,
                                         .name = "told",
                                         .description = "takes notes",
                                         .device_kind = INLAY_DEVICE_CPU,
                                         .options = no_options,
                                         .option_count = 1,
                                         .option_stride = sizeof no_options[0],
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

/* Two of one kind are not the same: it may be random. */
static const inlay_operator twice = { .struct_size = sizeof twice,
                                      .domain = "com.told",
                                      .op_type = "Twice",
                                      .signature = "x:T -> y:T; T=float",
                                      .doc = "As much again.",
                                      .since_version = 1,
                                      .flags = INLAY_OPERATOR_RANDOM,
                                      .infer = infer };

static inlay_status open_told(const inlay_host *h, const inlay_plugin **out_plugin, inlay_diag *diag)
{
    static const inlay_plugin plugin = { .struct_size = sizeof plugin,
                                         .abi_major = INLAY_ABI_MAJOR,
                                         .abi_minor = INLAY_ABI_MINOR,
                                         .name = "told",
                                         .version = "2.5.1",
                                         .build_id = "told",
                                         .provider_count = 1,
                                         .providers = &provider,
                                         .provider_stride = sizeof provider,
                                         .operators = &twice,
                                         .operator_count = 1,
                                         .operator_stride = sizeof twice };

    (void)h, (void)diag;
    *out_plugin = &plugin;
    return INLAY_OK;
}

/* ------------------------------------------------------------------ models */

/* y = Twice(x) + Twice(x) + b + 1, where input b has a default; with words of its own about itself. */
static void write_model(struct wire *w)
{
    wire_mark g, n;

    *w = (struct wire){ 0 };
    wire_int(w, 5, 42); /* model_version */
    wire_text(w, 6, "A model that is told.");
    mw_opset(w, 8, "com.told", 1);
    g = mw_begin(w, 8, 17);
    mw_value(w, MW_INPUT, "x", INLAY_FLOAT, "N,2");
    mw_value(w, MW_INPUT, "b", INLAY_FLOAT, "");
    rig_scalar(w, "b", INLAY_FLOAT, 3);
    rig_scalar(w, "one", INLAY_FLOAT, 1);
    for (int i = 0; i < 2; i++) {
        n = mw_node_begin(w, "Twice", "x", i == 0 ? "p" : "q");
        wire_text(w, 7, "com.told");
        wire_end(w, n);
    }
    mw_node(w, "Add", "p,q", "s");
    mw_node(w, "Identity", "s", "t");
    mw_node(w, "Add", "t,b", "u");
    mw_node(w, "Add", "u,one", "y");
    mw_value(w, MW_OUTPUT, "y", INLAY_FLOAT, "N,2");
    wire_end(w, g);
}

static struct rig open_model(void)
{
    const char *const options[] = { "providers",       "told,reference", "probe", "never", "cache_dir",
                                    "/tmp/inlay-told", "assume",         "N=5",   NULL };
    struct wire w;

    write_model(&w);
    return rig_open(&w, options);
}

static int registered(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    return inlay_plugin_register(open_told, &diag) == INLAY_OK ? 0 : -1;
}

/* ------------------------------------------------------------------ what a plugin is told */

static void a_plugin(void **state)
{
    inlay_run_options timed = INLAY_RUN_OPTIONS_INIT;
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig r = open_model();

    (void)state;
    rig_floats(&r, 0, "3,2", (float[]){ 1, 2, 3, 4, 5, 6 });
    rig_run(&r);
    rig_expect_floats(&r, 0, "3,2", (float[]){ 8, 12, 16, 20, 24, 28 });
    assert_int_equal(notes.executed, 2); /* random operators are never taken for one */
    assert_false(notes.has_deadline);
    timed.timeout_ns = 60ull * 1000000000;
    assert_int_equal(inlay_context_run(r.context, &timed, &diag), INLAY_OK);
    assert_true(notes.has_deadline);
    assert_false(notes.has_folder); /* devices have one */
    assert_int_equal(notes.polls, 2);
    assert_int_equal(notes.expected, 5);
    assert_int_equal(notes.least, 0);
    assert_true(notes.most >= 3);
    assert_int_equal(notes.constant_bytes, 4);
    assert_int_equal(notes.node_flags, 0);
    assert_false(notes.has_rooms);
    assert_true(notes.inferred >= 2);
    rig_close(&r);
}

/* ------------------------------------------------------------------ what a program is told */

static void a_session(void **state)
{
    inlay_model_info m = { .struct_size = sizeof m };
    inlay_io_info io = { .struct_size = sizeof io };
    inlay_session_provider_info p = { .struct_size = sizeof p };
    struct rig r = open_model();

    (void)state;
    assert_int_equal(inlay_session_model(r.session, &m), INLAY_OK);
    assert_string_equal(m.doc, "A model that is told.");
    assert_string_equal(m.graph_name, "g");
    assert_int_equal(m.model_version, 42);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(inlay_session_input(r.session, i, &io), INLAY_OK);
        assert_int_equal(io.optional, i);
    }
    assert_int_equal(inlay_session_provider(r.session, 0, &p), INLAY_OK);
    assert_string_equal(p.name, "told");
    assert_true(p.plugin_path[0] != '/'); /* no file brought it */
    assert_string_equal(p.plugin_version, "2.5.1");
    rig_close(&r);
}

static void hear_device(void *user, const inlay_device *d)
{
    if (strcmp(d->provider, "told") != 0)
        return;
    ++*(int *)user;
    assert_true(d->struct_size >= sizeof *d);
    assert_string_equal(d->name, "Notebook");
    assert_string_equal(d->facts, "pages=96");
    assert_int_equal(d->memory_bytes, 4096);
    assert_int_equal(d->free_bytes, 1024);
    assert_int_equal(d->kind, INLAY_DEVICE_NPU);
    assert_int_equal(d->unified, 1);
}

static void devices(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    int count = 0;

    (void)state;
    assert_int_equal(inlay_device_list(NULL, hear_device, &count, &diag), INLAY_OK);
    assert_int_equal(count, 1);
}

static void options(void **state)
{
    inlay_option_doc d = { .struct_size = sizeof d };
    bool found = false;

    (void)state;
    for (uint32_t i = 0; inlay_options_describe(i, &d) == INLAY_OK; i++) {
        assert_true(d.doc[0] != '\0' && d.kind <= INLAY_SETTING_PAIRS && d.min <= d.max);
        if (strcmp(d.name, "cache_max_bytes") != 0)
            continue;
        found = true;
        assert_int_equal(d.kind, INLAY_SETTING_INT);
        assert_string_equal(d.default_value, "-1");
        assert_int_equal(d.min, -1);
    }
    assert_true(found);
}

/* ------------------------------------------------------------------ steps of the optimiser */

struct steps {
    uint32_t summaries, rewrites, before, after;
    uint64_t last;
    bool gone; /* the Identity was named */
};

static void hear_step(void *user, const inlay_optimize_event *e)
{
    struct steps *s = user;

    assert_true(e->struct_size >= sizeof *e && e->pass[0] != '\0' && e->text != NULL);
    if (e->node == NULL) {
        s->summaries++;
        s->before = s->before == 0 ? e->nodes_before : s->before;
        s->after = e->nodes_after;
        assert_true(e->cost_before_ns > 0 && e->cost_after_ns > 0);
        return;
    }
    assert_string_equal(e->graph, "g");
    s->rewrites++;
    assert_true(e->rewrite >= s->last); /* one number for what one rewrite does */
    s->last = e->rewrite;
    s->gone |= strstr(e->text, "Identity") != NULL || strstr(e->node, "Identity") != NULL;
}

static void steps_of_the_optimiser(void **state)
{
    char path[] = "/tmp/inlay-told-XXXXXX", out[64], beside[40];
    inlay_optimize_args args = INLAY_OPTIMIZE_ARGS_INIT;
    inlay_extract_args part = INLAY_EXTRACT_ARGS_INIT;
    const char *const last[] = { "y" }, *const first[] = { "t" };
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *o = NULL;
    struct steps s = { 0 };
    struct wire w;
    const int fd = mkstemp(path);

    (void)state;
    write_model(&w);
    assert_true(fd >= 0 && write(fd, w.bytes, w.count) == (ssize_t)w.count);
    (void)close(fd);
    wire_deinit(&w);
    (void)snprintf(out, sizeof out, "%s.onnx", path);
    (void)snprintf(beside, sizeof beside, "%s.data", strrchr(path, '/') + 1);
    assert_int_equal(inlay_options_create(&o, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(o, "providers", "told,reference", &diag), INLAY_OK);
    args.out_path = out;
    args.external_file = beside;
    args.event = hear_step;
    args.user = &s;
    args.with_costs = 1;
    if (inlay_optimize(path, o, &args, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(args.struct_size, sizeof args);
    assert_int_equal(args.nodes_before, 6);
    assert_int_equal(args.nodes_after, 5);
    assert_true(s.summaries > 0 && s.rewrites > 0 && s.gone && s.before >= s.after);
    assert_int_equal(s.after, 5);
    part.out_path = out;
    part.external_file = beside;
    part.inputs = first;
    part.outputs = last;
    part.input_count = part.output_count = 1;
    assert_int_equal(part.struct_size, sizeof part);
    if (inlay_extract(path, o, &part, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    assert_int_equal(part.nodes_kept, 2);
    inlay_options_destroy(o);
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
