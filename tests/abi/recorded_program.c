/* A program that was built with the headers of a released ABI minor version runs on the current library. Every struct
 * that it passes ends at a guard page, so a library that writes or reads a field that this program does not have
 * crashes. It must compile with the headers of 1.0, so it uses no newer functions and fields.
 *
 *     recorded_program MODEL PLUGIN_DIR    a model with one float input x and y = Relu(x) */
#include "guard.h"
#include "inlay/inlay.h"
#include <stdio.h>
#include <string.h>

static int failed;

static void expect(int holds, const char *what, const inlay_diag *diag)
{
    if (holds)
        return;
    (void)fprintf(stderr, "%s: %s\n", what, diag != NULL ? diag->text : "");
    failed = 1;
}

/* A zeroed struct that ends at a guard page, with its struct_size; never freed. */
static void *at_edge(size_t bytes)
{
    const uint64_t size = bytes;

    return memcpy(guard_alloc(bytes).data, &size, sizeof size);
}

static void take_text(void *user, const char *text, size_t bytes)
{
    (void)text;
    *(size_t *)user += bytes;
}

static void describe(inlay_session *session, inlay_diag *diag)
{
    inlay_io_info *in = at_edge(sizeof *in);
    inlay_model_info *model = at_edge(sizeof *model);
    inlay_memory_info *memory = at_edge(sizeof *memory);
    inlay_session_provider_info *provider = at_edge(sizeof *provider);
    inlay_explain_options *explain = at_edge(sizeof *explain);
    inlay_option_doc *option = at_edge(sizeof *option);
    inlay_state_info *kept = at_edge(sizeof *kept);
    size_t bytes = 0;

    expect(inlay_session_input(session, 0, in) == INLAY_OK && in->dtype == INLAY_FLOAT, "input", NULL);
    expect(in->struct_size == sizeof *in && strcmp(in->name, "x") == 0, "name of the input", NULL);
    expect(inlay_session_input(session, 1, in) == INLAY_NOT_FOUND, "input 1", NULL);
    expect(inlay_session_model(session, model) == INLAY_OK && model->ir_version > 0, "model", NULL);
    expect(inlay_session_memory(session, memory) == INLAY_OK, "memory", NULL);
    expect(inlay_session_provider(session, 0, provider) == INLAY_OK && strcmp(provider->name, "reference") == 0,
           "provider", NULL);
    expect(inlay_options_describe(0, option) == INLAY_OK && option->name[0] != '\0', "option", NULL);
    expect(inlay_session_state(session, 0, kept) == INLAY_NOT_FOUND, "state", NULL);
    explain->format = "json";
    expect(inlay_session_explain(session, explain, take_text, &bytes, diag) == INLAY_OK && bytes > 100, "explain",
           diag);
}

static void run(inlay_session *session, inlay_diag *diag)
{
    inlay_run_options *options = at_edge(sizeof *options);
    inlay_plan_info *plan = at_edge(sizeof *plan);
    inlay_io_info *in = at_edge(sizeof *in);
    inlay_context *context = NULL;
    inlay_value *x = NULL;
    float *data;
    const float *y;

    expect(inlay_session_input(session, 0, in) == INLAY_OK, "input", NULL);
    expect(inlay_value_create(in->dtype, in->rank, in->dims, &x, diag) == INLAY_OK, "value", diag);
    expect(inlay_context_create(session, &context, diag) == INLAY_OK, "context", diag);
    if (failed)
        return;
    data = inlay_value_data(x);
    for (int64_t i = 0; i < inlay_value_count(x); i++)
        data[i] = (float)(i % 5 - 2);
    options->timeout_ns = 60000000000;
    expect(inlay_context_set_input(context, 0, x, diag) == INLAY_OK, "set_input", diag);
    for (int again = 0; again < 2; again++)
        expect(inlay_context_run(context, options, diag) == INLAY_OK, "run", diag);
    y = failed ? NULL : inlay_value_data(inlay_context_output(context, 0));
    for (int64_t i = 0; y != NULL && i < inlay_value_count(x); i++)
        expect(y[i] == (data[i] > 0 ? data[i] : 0), "an element of the result", NULL);
    expect(inlay_context_plan(context, plan) == INLAY_OK && plan->step_count > 0, "plan", NULL);
    inlay_value_unref(x);
    inlay_context_destroy(context);
}

int main(int argc, char **argv)
{
    inlay_diag *diag = at_edge(sizeof *diag);
    inlay_setting *setting = at_edge(sizeof *setting);
    inlay_options *options = NULL;
    inlay_session *session = NULL;

    if (argc != 3)
        return 2;
    expect(inlay_options_create(&options, diag) == INLAY_OK, "options", diag);
    expect(inlay_options_set(options, "no_such_option", "1", diag) == INLAY_NOT_FOUND, "an unknown option", diag);
    expect(inlay_options_set(options, "plugin_dirs", argv[2], diag) == INLAY_OK, "plugin_dirs", diag);
    expect(inlay_options_set(options, "providers", "reference", diag) == INLAY_OK, "providers", diag);
    expect(inlay_options_setting(options, 0, setting) == INLAY_OK && setting->name[0] != '\0', "setting", NULL);
    expect(inlay_session_create(argv[1], options, &session, diag) == INLAY_OK, "session", diag);
    if (!failed)
        describe(session, diag);
    if (!failed)
        run(session, diag);
    inlay_session_destroy(session);
    inlay_options_destroy(options);
    if (!failed)
        (void)printf("a program of this version runs on inlay %s\n", inlay_version());
    return failed;
}
