/* Profiles of small models: JSON and traces can be parsed and are consistent, stacks have one line each, markup in
 * names is escaped, and a run that does not fit is counted but not stored in part. */
#include "graph_script.h"
#include "text_buffer.h"
#include <jansson.h>
#include <math.h>

static inlay_profile_options options_of(const char *format)
{
    return (inlay_profile_options){ .struct_size = sizeof(inlay_profile_options), .format = format };
}

static struct text_buffer write_profile(const struct rig *rig, inlay_profile_options options)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct text_buffer told = { 0 };

    options.peak_flops_per_s = 1e11;
    options.peak_bytes_per_s = 1e10;
    if (inlay_context_profile_write(rig->context, &options, text_buffer_append, &told, &diag) != INLAY_OK)
        fail_msg("%s: %s", options.format, diag.text);
    return told;
}

static struct text_buffer write_format(const struct rig *rig, const char *format)
{
    return write_profile(rig, options_of(format));
}

static inlay_status try_format(const struct rig *rig, const char *format, struct text_buffer *told, inlay_diag *diag)
{
    const inlay_profile_options options = options_of(format);

    return inlay_context_profile_write(rig->context, &options, text_buffer_append, told, diag);
}

static json_t *parse(const struct text_buffer *told)
{
    json_error_t error;
    json_t *json = json_loads(told->data, 0, &error);

    if (json == NULL)
        fail_msg("%s at line %d of %s", error.text, error.line, told->data);
    return json;
}

static struct rig open_script(const char *script)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    return rig_open(&wire, (const char *const[]){ "level", "0", "intra_threads", "2", NULL });
}

/* The timeline is that of a run near the median, also if the last run was on a larger input. */
static void the_timeline_is_typical(void **state)
{
    struct rig rig = open_script("x : N,64\nw = [64,64]\na = MatMul(x, w)\ny = Softmax(a)\n-> y");
    double end = 0;
    json_t *report, *step;
    struct text_buffer json;
    size_t i;

    (void)state;
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, NULL), INLAY_OK);
    for (int64_t run = 0; run < 5; run++) {
        script_feed_sized(&rig, run < 4 ? 2 : 40000, 1, 0);
        rig_run(&rig);
    }
    json = write_format(&rig, "json");
    report = parse(&json);
    assert_true(json_array_size(json_object_get(report, "timeline")) > 0); /* the nodes may share a kernel */
    json_array_foreach(json_object_get(report, "timeline"), i, step)
        end = json_number_value(json_object_get(step, "begin_ns")) + json_number_value(json_object_get(step, "ns"));
    /* The last run takes much longer than 5 ms, by which times of steps and runs may differ on a busy machine. */
    assert_true(end > 0 && end <= json_number_value(json_object_get(report, "run_ns")) + 5e6);
    json_decref(report);
    text_buffer_free(&json);
    rig_close(&rig);
}

static void figures_agree(void **state)
{
    struct rig rig = open_script("x : 64,64\nw = [64,64]\na = MatMul(x, w)\nb = Softmax(a)\ny = Add(b, x)\n-> y");
    json_t *report, *trace, *step;
    size_t i, steps = 0, counters = 0;
    struct text_buffer json, events, stacks;

    (void)state;
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, NULL), INLAY_OK);
    script_feed(&rig, 1);
    for (int k = 0; k < 5; k++)
        rig_run(&rig);
    json = write_format(&rig, "json");
    report = parse(&json);
    assert_int_equal(json_integer_value(json_object_get(report, "runs")), 5);
    assert_int_equal(json_integer_value(json_object_get(report, "lost_events")), 0);
    assert_int_equal(json_array_size(json_object_get(report, "steps")), 3);
    assert_int_equal(json_array_size(json_object_get(report, "timeline")), 3);
    json_array_foreach(json_object_get(report, "steps"), i, step) {
        assert_true(json_number_value(json_object_get(step, "ns")) > 0);
        assert_true(json_number_value(json_object_get(step, "calls")) == 1);
        assert_string_equal(json_string_value(json_object_get(step, "provider")), "reference");
    }
    step = json_array_get(json_object_get(report, "steps"), 0);
    assert_string_equal(json_string_value(json_object_get(step, "op")), "MatMul");
    assert_true(json_number_value(json_object_get(step, "flops")) == 2.0 * 64 * 64 * 64);
    events = write_format(&rig, "trace");
    trace = parse(&events);
    json_array_foreach(json_object_get(trace, "traceEvents"), i, step) {
        const char *phase = json_string_value(json_object_get(step, "ph"));
        steps += strcmp(phase, "X") == 0 && json_object_get(json_object_get(step, "args"), "node") != NULL;
        counters += strcmp(phase, "C") == 0;
    }
    assert_int_equal(steps, 15);
    assert_int_equal(counters, 15);
    stacks = write_format(&rig, "stacks");
    assert_int_equal(strspn(stacks.data, "g;") >= 2, 1); /* the graph is called g */
    assert_non_null(strstr(stacks.data, ";reference;MatMul;"));
    json_decref(report);
    json_decref(trace);
    text_buffer_free(&json);
    text_buffer_free(&events);
    text_buffer_free(&stacks);
    rig_close(&rig);
}

/* What the events of a profile have to be, in turn. */
struct expected_events {
    uint32_t count;
    uint64_t last_end;
};

static void check_event(void *user, const inlay_profile_event *event)
{
    static const char *const names[] = { "MatMul#0", "Softmax#1", "Add#2" }, *const operators[] = { "MatMul", "Softmax",
                                                                                                    "Add" };
    struct expected_events *expected = user;

    assert_int_equal(event->struct_size, sizeof *event);
    assert_string_equal(event->name, names[expected->count % 3]);
    assert_string_equal(event->op_type, operators[expected->count % 3]);
    assert_string_equal(event->provider, "reference");
    assert_int_equal(event->run, expected->count / 3);
    assert_int_equal(event->depth, 0);
    assert_true(event->begin_ns >= expected->last_end && event->end_ns > event->begin_ns);
    expected->last_end = event->end_ns;
    expected->count++;
}

static void events_one_by_one(void **state)
{
    struct rig rig = open_script("x : 64,64\nw = [64,64]\na = MatMul(x, w)\nb = Softmax(a)\ny = Add(b, x)\n-> y");
    struct expected_events expected = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;

    (void)state;
    assert_int_equal(inlay_context_profile_events(rig.context, check_event, &expected, &diag), INLAY_INVALID_ARGUMENT);
    assert_non_null(strstr(diag.text, "the context is not profiled"));
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, NULL), INLAY_OK);
    script_feed(&rig, 1);
    for (int k = 0; k < 4; k++)
        rig_run(&rig);
    assert_int_equal(inlay_context_profile_events(rig.context, check_event, &expected, &diag), INLAY_OK);
    assert_int_equal(expected.count, 12);
    rig_close(&rig);
}

/* Names of nodes are escaped in every format. */
static void names_are_text(void **state)
{
    struct wire wire = { 0 };
    wire_mark mark = mw_begin(&wire, 8, 17), n;
    json_t *report;
    struct text_buffer json, lines;
    struct rig rig;

    (void)state;
    mw_value(&wire, MW_INPUT, "x", RIG_FLOAT, "4");
    n = mw_node_begin(&wire, "Neg", "x", "y");
    wire_text(&wire, 3, "</script><b>\"a\";\n b");
    wire_end(&wire, n);
    mw_value(&wire, MW_OUTPUT, "y", RIG_FLOAT, NULL);
    wire_end(&wire, mark);
    rig = rig_open(&wire, NULL);
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, NULL), INLAY_OK);
    rig_floats(&rig, 0, "4", (float[]){ 1, 2, 3, 4 });
    rig_run(&rig);
    json = write_format(&rig, "json");
    report = parse(&json);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(report, "steps"), 0), "name")),
                        "</script><b>\"a\";\n b");
    assert_null(strstr(json.data, "</script>")); /* the JSON can be embedded in HTML */
    lines = write_format(&rig, "stacks");
    assert_ptr_equal(strchr(lines.data, '\n'), lines.data + lines.bytes - 1); /* one line */
    text_buffer_free(&lines);
    lines = write_format(&rig, "text");
    assert_non_null(strstr(lines.data, "Neg"));
    json_decref(report);
    text_buffer_free(&json);
    text_buffer_free(&lines);
    rig_close(&rig);
}

/* Rows have the same width as the header, with and without peaks for the roofline. */
static void columns_line_up(void **state)
{
    struct rig rig = open_script("x : 64,64\na = Neg(x)\nb = Softmax(a)\n-> b");

    (void)state;
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, NULL), INLAY_OK);
    script_feed(&rig, 1);
    rig_run(&rig);
    for (int roof = 0; roof < 2; roof++) {
        inlay_profile_options options = options_of(NULL);
        inlay_diag diag = INLAY_DIAG_INIT;
        struct text_buffer told = { 0 };
        const char *header, *row;

        options.peak_flops_per_s = roof * 1e11;
        options.peak_bytes_per_s = roof * 1e10;
        assert_int_equal(
            inlay_context_profile_write(rig.context, roof > 0 ? &options : NULL, text_buffer_append, &told, &diag),
            INLAY_OK);
        header = strstr(told.data, "\nstep ");
        assert_non_null(header);
        row = strchr(header + 1, '\n') + 1;
        for (; *row != '\0'; row = strchr(row, '\n') + 1)
            assert_int_equal(strcspn(row, "\n"), strcspn(header + 1, "\n"));
        text_buffer_free(&told);
    }
    rig_close(&rig);
}

static double roofline_of(const struct rig *rig, const char *op, inlay_profile_options options)
{
    double found = -2;
    struct text_buffer told = write_profile(rig, options);
    json_t *report = parse(&told), *step;
    size_t i;

    json_array_foreach(json_object_get(report, "steps"), i, step)
        if (strcmp(json_string_value(json_object_get(step, "op")), op) == 0)
            found = json_number_value(json_object_get(step, "roofline"));
    json_decref(report);
    text_buffer_free(&told);
    return found;
}

/* The roofline of integer and float16 GEMMs uses the peaks of their types; without these it is unknown. */
static void rooflines_depend_on_the_type(void **state)
{
    inlay_profile_options options = options_of("json");
    static const inlay_dtype types[] = { INLAY_UINT8, INLAY_UINT8, INLAY_FLOAT, INLAY_FLOAT16 };
    const int64_t dims[2] = { 64, 64 };
    double low, high;
    struct rig rig;

    (void)state;
    rig = script_open((const char *const[]){ "providers", "reference", NULL }, 17,
                      "a : uint8 64,64\n"
                      "b : uint8 64,64\n"
                      "x : 64,64\n"
                      "y = MatMulInteger(a,b)\n"
                      "h : float16 64,64\n"
                      "n = MatMul(x,x)\n"
                      "z = Neg(n)\n"
                      "u = Gemm(h,h)\n"
                      "-> u : float16\n"
                      "-> y : int32\n"
                      "-> z");
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, NULL), INLAY_OK);
    for (uint32_t i = 0; i < 4; i++) {
        inlay_value *value = NULL;

        assert_int_equal(inlay_value_create(types[i], 2, dims, &value, NULL), INLAY_OK);
        rig_bind(&rig, i, value);
    }
    rig_run(&rig);
    assert_true(roofline_of(&rig, "MatMul", options) > 0);
    assert_true(roofline_of(&rig, "MatMulInteger", options) < 0);
    options.peak_bytes_per_s = 1; /* of memory, which data in a cache do not need */
    assert_true(roofline_of(&rig, "MatMul", options) < 100);
    assert_true(roofline_of(&rig, "Neg", options) < 0);
    options.peak_bytes_per_s = 1e10;
    assert_true(roofline_of(&rig, "Gemm", options) < 0);
    options.peak_integer_ops_per_s = 1e9;
    high = roofline_of(&rig, "MatMulInteger", options);
    options.peak_integer_ops_per_s = 2e9;
    low = roofline_of(&rig, "MatMulInteger", options);
    assert_true(low > 0 && fabs(high / low - 2) < 1e-6);
    options.peak_half_flops_per_s = 1e9;
    assert_true(roofline_of(&rig, "Gemm", options) > 0);
    options.peak_integer_ops_per_s = -1;
    assert_int_equal(inlay_context_profile_write(rig.context, &options, NULL, NULL, NULL), INLAY_INVALID_ARGUMENT);
    options.peak_integer_ops_per_s = HUGE_VAL;
    assert_int_equal(inlay_context_profile_write(rig.context, &options, NULL, NULL, NULL), INLAY_INVALID_ARGUMENT);
    rig_close(&rig);
}

/* A provider that runs a region with several kernels reports each; rows of regions and of kernels are distinct. */
static void kernels_of_a_region(void **state)
{
    struct wire wire = { 0 };
    inlay_diag diag = INLAY_DIAG_INIT;
    size_t i, kernels = 0, regions = 0;
    json_t *report, *trace, *step;
    struct text_buffer json, events, stacks;
    struct rig rig;

    (void)state;
    script_model(&wire, 17,
                 "x : 64,64\nw = [64,64]\nv = [64,64]\na = MatMul(x, w)\nb = Relu(a)\nc = Softmax(b)\n"
                 "y = MatMul(c, v)\n-> y");
    if (rig_try_open(&wire, (const char *const[]){ "providers", "cpu", NULL }, &rig, &diag) != INLAY_OK) {
        inlay_session_destroy(rig.session);
        wire_deinit(&rig.model);
        skip(); /* the provider is not built */
    }
    assert_int_equal(inlay_context_profile(rig.context, 1, 0, NULL), INLAY_OK);
    script_feed(&rig, 1);
    for (int k = 0; k < 3; k++)
        rig_run(&rig);
    json = write_format(&rig, "json");
    report = parse(&json);
    json_array_foreach(json_object_get(report, "steps"), i, step) {
        bool leaf = json_is_true(json_object_get(step, "leaf"));

        assert_true(json_number_value(json_object_get(step, "ns")) >= 0);
        assert_int_equal(json_integer_value(json_object_get(step, "depth")), leaf);
        if (leaf) {
            assert_non_null(strstr(json_string_value(json_object_get(step, "region")), "(4 nodes)"));
            kernels++;
        }
        regions += !leaf;
        if (leaf && strcmp(json_string_value(json_object_get(step, "op")), "MatMul") == 0)
            assert_true(json_number_value(json_object_get(step, "flops")) == 2.0 * 64 * 64 * 64);
    }
    assert_int_equal(regions, 1);
    assert_in_range(kernels, 3, 4);
    events = write_format(&rig, "trace");
    trace = parse(&events);
    stacks = write_format(&rig, "stacks");
    assert_non_null(strstr(stacks.data, "_(4_nodes);MatMul;"));
    assert_int_equal(inlay_context_profile(rig.context, 0, 0, NULL), INLAY_OK);
    rig_run(&rig);
    json_decref(report);
    json_decref(trace);
    text_buffer_free(&json);
    text_buffer_free(&events);
    text_buffer_free(&stacks);
    rig_close(&rig);
}

static void bodies_and_limits(void **state)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    json_t *report;
    struct text_buffer json = { 0 };
    struct rig rig;

    (void)state;
    rig = script_open(NULL, 17,
                      "c : bool -\n"
                      "x : 4\n"
                      "y = If(c) then_branch {\n"
                      "    t = Neg(x)\n"
                      "    -> t\n"
                      "} else_branch {\n"
                      "    e = Abs(x)\n"
                      "    -> e\n"
                      "}\n"
                      "-> y");
    assert_int_equal(try_format(&rig, "json", &json, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(inlay_context_profile(rig.context, 1, 5, &diag), INLAY_OK); /* two runs of two steps, and a half */
    assert_int_equal(try_format(&rig, "json", &json, &diag), INLAY_INVALID_ARGUMENT);
    rig_set(&rig, 0, RIG_BOOL, "", (uint8_t[]){ 1 });
    rig_floats(&rig, 1, "4", (float[]){ 1, 2, 3, 4 });
    for (int i = 0; i < 4; i++)
        rig_run(&rig);
    assert_int_equal(try_format(&rig, "pdf", &json, &diag), INLAY_INVALID_ARGUMENT);
    assert_int_equal(try_format(&rig, "html", &json, &diag), INLAY_UNSUPPORTED);
    assert_non_null(strstr(diag.text, "inlay profile --from")); /* the command line writes HTML */
    json = write_format(&rig, "json");
    report = parse(&json);
    assert_int_equal(json_integer_value(json_object_get(report, "runs")), 2);
    assert_true(json_integer_value(json_object_get(report, "lost_events")) > 0);
    assert_int_equal(json_array_size(json_object_get(report, "steps")), 2);
    json_decref(report);
    text_buffer_free(&json);
    assert_int_equal(inlay_context_profile(rig.context, 0, 0, &diag), INLAY_OK);
    rig_run(&rig);
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_agree),       cmocka_unit_test(the_timeline_is_typical),
        cmocka_unit_test(events_one_by_one),   cmocka_unit_test(names_are_text),
        cmocka_unit_test(columns_line_up),     cmocka_unit_test(rooflines_depend_on_the_type),
        cmocka_unit_test(kernels_of_a_region), cmocka_unit_test(bodies_and_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
