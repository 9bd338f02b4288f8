/* fake_rig.h - opens sessions on the fake device and gives access to its counters. */
#ifndef FAKE_RIG_H
#define FAKE_RIG_H
#include "cmocka_all.h"
#include "fake_device.h"
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include "model_script.h"
#include "onnx_bytes.h"
#include "plugin_dirs.h"
#include "run_context.h"
#include "session/session.h"
#include "threads/fence.h"
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

struct rig {
    inlay_session *session;
    inlay_context *context;
    plugin_set *set;
    const struct provider *device; /* shared with the session */
    const fake_counters *counters;
    void *model; /* must outlive the session */
};

enum { MAX_LEFT_MODELS = 256 };
static char log_text[2048];
static const char *cache_dir;              /* for the next sessions, or NULL */
static const char *const *session_options; /* for the next sessions: pairs of name and value, ended by NULL; or NULL */

static inline void keep_log(void *user, uint32_t level, const char *text)
{
    size_t used = strlen(log_text);

    (void)user;
    if (level <= INLAY_LOG_WARNING)
        (void)snprintf(log_text + used, sizeof log_text - used, "%s\n", text);
}

/* Sets FAKE_HELD ..., which applies from the next job on. */
static inline void hold(const struct provider *provider, uint32_t how)
{
    uint32_t *at = (uint32_t *)(uintptr_t)provider->table->extension(provider->state, "fake.hold");

    assert_non_null(at);
    __atomic_store_n(at, how, __ATOMIC_RELEASE);
}

static inline uint32_t counted(const uint32_t *counter)
{
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

/* Waits until the counter has reached a value. */
static inline void await(const uint32_t *counter, uint32_t least)
{
    while (counted(counter) < least)
        (void)usleep(100);
}

/* Opens a session of a model whose memory the rig takes. settings: pairs of name and value of the provider's options,
 * ended by NULL. */
static inline struct rig open_model(const char *const *settings, void *model, size_t bytes)
{
    const char *dirs[] = { FAKE_DIR };
    provider_setting chosen[8];
    uint32_t chosen_count = 0;
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_options *options;
    struct rig rig = { .model = model };

    assert_int_equal(inlay_options_create(&options, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "plugin_dirs", FAKE_DIR, &diag), INLAY_OK);
    assert_int_equal(inlay_options_set(options, "providers", "fake,reference", &diag), INLAY_OK);
    /* By cost, tensors this small would stay on the host, because of the copies. */
    assert_int_equal(inlay_options_set(options, "policy", "priority", &diag), INLAY_OK);
    if (cache_dir != NULL)
        assert_int_equal(inlay_options_set(options, "cache_dir", cache_dir, &diag), INLAY_OK);
    for (const char *const *o = session_options; o != NULL && o[0] != NULL; o += 2)
        assert_int_equal(inlay_options_set(options, o[0], o[1], &diag), INLAY_OK);
    inlay_options_set_log(options, keep_log, NULL);
    for (; settings != NULL && settings[0] != NULL; settings += 2) {
        char name[64];

        (void)snprintf(name, sizeof name, "fake.%s", settings[0]);
        if (inlay_options_set(options, name, settings[1], &diag) != INLAY_OK)
            fail_msg("%s", diag.text);
        chosen[chosen_count++] = (provider_setting){ settings[0], settings[1] };
    }
    if (inlay_session_create_from_bytes(model, bytes, options, &rig.session, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_options_destroy(options);
    assert_int_equal(inlay_context_create(rig.session, &rig.context, &diag), INLAY_OK);
    /* The registry shares open providers: this is the session's device. */
    assert_int_equal(plugin_set_create(dirs, 1, NULL, NULL, &rig.set, &diag), INLAY_OK);
    assert_int_equal(provider_open(rig.set, "fake", chosen, chosen_count, &rig.device, &diag), INLAY_OK);
    rig.counters = rig.device->table->extension(rig.device->state, "fake.counters");
    assert_non_null(rig.counters);
    return rig;
}

static inline struct rig open_rig(onnx_bytes *graph, const char *const *settings)
{
    onnx_bytes *file = calloc(1, sizeof *file);

    assert_non_null(file);
    assert_int_equal(onnx_file(file, graph, 17, NULL), 0);
    return open_model(settings, file->data, file->count);
}

/* Opens a session of a script (model_script.h). */
static inline struct rig open_script(const char *const *settings, const char *script)
{
    struct wire wire = { 0 };

    script_model(&wire, 17, script);
    assert_true(!wire.failed && wire.splice_count == 0);
    return open_model(settings, wire.bytes, wire.count);
}

static inline void close_rig(struct rig *rig)
{
    inlay_context_destroy(rig->context);
    inlay_session_destroy(rig->session);
    assert_int_equal(counted(&rig->counters->live_buffers), 0);
    assert_int_equal(counted(&rig->counters->live_regions), 0);
    assert_int_equal(counted(&rig->counters->misuse), 0);
    provider_close(rig->device);
    plugin_set_destroy(rig->set);
    free(rig->model);
}

/* Shortens the time after which the device counts as hung. Other runs keep the default of one minute, so that a busy
 * machine is not mistaken for a hung device. */
static inline void shorten_timeout(struct rig *rig)
{
    rig->session->env.runs.device_timeout_ms = 100;
}

extern void *left_models[MAX_LEFT_MODELS];
void *left_models[MAX_LEFT_MODELS];

/* Closes a session with a hung device: memory that the device may still use, such as the model, stays allocated. */
static inline void leave_rig(struct rig *rig)
{
    static uint32_t count;

    left_models[count++ % MAX_LEFT_MODELS] = rig->model;
    inlay_context_destroy(rig->context);
    inlay_session_destroy(rig->session);
    provider_close(rig->device);
    plugin_set_destroy(rig->set);
}

static inline void set_floats(inlay_context *context, uint32_t index, uint32_t rank, const int64_t *dims, float *data)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    inlay_value *value;
    uint64_t bytes = sizeof *data;

    for (uint32_t i = 0; i < rank; i++)
        bytes *= (uint64_t)dims[i];
    assert_int_equal(inlay_value_borrow(INLAY_FLOAT, rank, dims, data, bytes, &value, &diag), INLAY_OK);
    assert_int_equal(inlay_context_set_input(context, index, value, &diag), INLAY_OK);
    inlay_value_unref(value);
}

static inline void run(struct rig *rig)
{
    run_context(rig->context);
}

/* Ends the work in a stream with a status: signals its fences. */
static inline void end_stream(fake_stream *stream, inlay_status status)
{
    inlay_diag why = INLAY_DIAG_INIT;

    (void)inlay_fail(&why, status, "the external kernel failed");
    stream->busy = 0;
    while (stream->mark_count > 0)
        fence_signal(stream->marks[--stream->mark_count], status, &why);
}

static inline void expect_floats(inlay_context *context, uint32_t index, const float *expected, int64_t count)
{
    const inlay_value *value = inlay_context_output(context, index);

    assert_non_null(value);
    assert_int_equal(inlay_value_count(value), count);
    for (int64_t i = 0; i < count; i++)
        assert_float_equal(((const float *)inlay_value_data(value))[i], expected[i], 1e-6);
}

static const int64_t dims[] = { 2, 3 };
static float a[] __attribute__((unused)) = { 1, -2, 3, -4, 5, -6 }, b[] = { 1, 1, 1, 2, 2, 2 };

static const float chain_result[] = { 2, 4, 2, 8, 4, 10 };

/* Opens a session of y = relu(-a) + b + c, where the constant c has the elements of b, and sets the inputs. */
static inline struct rig open_chain(const char *const *settings)
{
    onnx_bytes bytes = { .count = 0 };
    struct rig rig;

    onnx_input(&bytes, "a", INLAY_FLOAT, 2, dims);
    onnx_input(&bytes, "b", INLAY_FLOAT, 2, dims);
    onnx_constant(&bytes, "c", INLAY_FLOAT, 2, dims, b, sizeof b);
    onnx_node(&bytes, "Neg", "", "a", "n");
    onnx_node(&bytes, "Relu", "", "n", "r");
    onnx_node(&bytes, "Add", "", "r,b", "s");
    onnx_node(&bytes, "Add", "", "s,c", "y");
    onnx_output(&bytes, "y", INLAY_FLOAT, 2, dims);
    rig = open_rig(&bytes, settings);
    set_floats(rig.context, 0, 2, dims, a);
    set_floats(rig.context, 1, 2, dims, b);
    return rig;
}
#endif
