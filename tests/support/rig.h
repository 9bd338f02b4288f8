/* rig.h - helpers of tests that write a small model, open it as a session and run it.
 *
 *     struct wire wire = { 0 };
 *     wire_mark graph = mw_begin(&wire, 8, 17);
 *     ... mw_value(), mw_node(), mw_ints() ...
 *     wire_end(&wire, graph);
 *     struct rig rig = rig_open(&wire, NULL);   takes the bytes of the wire
 *     rig_floats(&rig, 0, "2,3", (float[]){ ... });
 *     rig_run(&rig);
 *     rig_expect_floats(&rig, 0, "2,3", (float[]){ ... });
 *     rig_close(&rig); */
#ifndef EXEC_RIG_H
#define EXEC_RIG_H
#include "cmocka_all.h"
#include "inlay/inlay.h"
#include "keep_plugins.h"
#include "model_writer.h"
#include "run_context.h"

enum { RIG_BOOL = INLAY_BOOL, RIG_FLOAT = INLAY_FLOAT, RIG_INT64 = INLAY_INT64, RIG_STRING = INLAY_STRING };

struct rig {
    inlay_session *session;
    inlay_context *context;
    struct wire model; /* the session reads from it */
};

/* Creates session options from pairs of name and value, ended by NULL; options may be NULL. Unless an option of the
 * cache is set, all tests share the default cache folder. Its size is limited to 1 MiB, because each session that packs
 * weights reads every file in it. */
static inline inlay_options *rig_options(const char *const *options, inlay_diag *diag)
{
    inlay_options *made = NULL;
    bool shares = true;

    assert_int_equal(inlay_options_create(&made, diag), INLAY_OK);
    for (; options != NULL && options[0] != NULL; options += 2) {
        shares = shares && strncmp(options[0], "cache_", 6) != 0;
        if (inlay_options_set(made, options[0], options[1], diag) != INLAY_OK)
            fail_msg("%s", diag->text);
    }
    if (shares)
        assert_int_equal(inlay_options_set(made, "cache_max_bytes", "1048576", diag), INLAY_OK);
    return made;
}
/* Returns the status of creating a session, on provider reference unless the options name providers. */
static inline inlay_status rig_try_open(struct wire *wire, const char *const *options, struct rig *out,
                                        inlay_diag *diag)
{
    bool names_providers = false;
    inlay_options *created;
    inlay_status status;

    *out = (struct rig){ .model = *wire };
    *wire = (struct wire){ 0 };
    assert_false(out->model.failed);
    assert_int_equal(out->model.splice_count, 0);
    keep_plugins();
    for (size_t i = 0; options != NULL && options[i] != NULL; i += 2)
        names_providers = names_providers || strcmp(options[i], "providers") == 0;
    created = rig_options(options, diag);
    if (!names_providers)
        assert_int_equal(inlay_options_set(created, "providers", "reference", diag), INLAY_OK);
    status = inlay_session_create_from_bytes(out->model.bytes, out->model.count, created, &out->session, diag);
    inlay_options_destroy(created);
    if (status == INLAY_OK)
        status = inlay_context_create(out->session, &out->context, diag);
    return status;
}
/* Did rig_try_open() fail because an optional provider is not built? All builds have reference. */
static inline bool rig_lacks_provider(const inlay_diag *diag)
{
    return strstr(diag->text, "no provider '") != NULL && strstr(diag->text, "no provider 'reference'") == NULL;
}
/* As rig_open(). Returns false, without a session, if an optional provider is not built. what: the case, for
 * messages. */
static inline bool rig_open_if_built(struct wire *wire, const char *const *options, const char *what, struct rig *out)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (rig_try_open(wire, options, out, &diag) == INLAY_OK)
        return true;
    if (!rig_lacks_provider(&diag))
        fail_msg("%s: %s", what, diag.text);
    print_message("%s: %s\n", what, diag.text);
    wire_deinit(&out->model);
    *out = (struct rig){ 0 };
    return false;
}
static inline struct rig rig_open(struct wire *wire, const char *const *options)
{
    inlay_diag diag = INLAY_DIAG_INIT;
    struct rig rig;

    if (rig_try_open(wire, options, &rig, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    return rig;
}
static inline void rig_close(struct rig *rig)
{
    inlay_context_destroy(rig->context);
    inlay_session_destroy(rig->session);
    wire_deinit(&rig->model);
    *rig = (struct rig){ 0 };
}

static inline inlay_value *rig_tensor(inlay_dtype dtype, const char *shape, const void *data)
{
    int64_t dims[INLAY_MAX_RANK] = { 0 };
    uint32_t rank = mw_dims(shape, dims);
    inlay_value *value = NULL;

    assert_int_equal(inlay_value_create(dtype, rank, dims, &value, NULL), INLAY_OK);
    if (inlay_value_bytes(value) > 0)
        memcpy(inlay_value_data(value), data, (size_t)inlay_value_bytes(value));
    return value;
}
static inline void rig_bind(struct rig *rig, uint32_t input, inlay_value *value)
{
    inlay_diag diag = INLAY_DIAG_INIT;

    if (inlay_context_set_input(rig->context, input, value, &diag) != INLAY_OK)
        fail_msg("%s", diag.text);
    inlay_value_unref(value);
}
static inline void rig_set(struct rig *rig, uint32_t input, inlay_dtype dtype, const char *shape, const void *data)
{
    rig_bind(rig, input, rig_tensor(dtype, shape, data));
}
static inline void rig_floats(struct rig *rig, uint32_t input, const char *shape, const float *data)
{
    rig_set(rig, input, INLAY_FLOAT, shape, data);
}
static inline void rig_run(struct rig *rig)
{
    run_context(rig->context);
}
/* Compares an output of any type except strings with the expected value, bit by bit. */
static inline void rig_expect(const inlay_value *value, inlay_dtype dtype, const char *shape, const void *data)
{
    int64_t dims[INLAY_MAX_RANK];
    uint32_t rank = mw_dims(shape, dims);

    assert_non_null(value);
    assert_int_equal(inlay_value_kind(value), INLAY_KIND_TENSOR);
    assert_int_equal(inlay_value_dtype(value), dtype);
    assert_int_equal(inlay_value_rank(value), rank);
    for (uint32_t d = 0; d < rank; d++)
        assert_int_equal(inlay_value_dims(value)[d], dims[d]);
    if (inlay_value_bytes(value) > 0)
        assert_memory_equal(inlay_value_data(value), data, (size_t)inlay_value_bytes(value));
}
static inline void rig_expect_floats(struct rig *rig, uint32_t output, const char *shape, const float *data)
{
    rig_expect(inlay_context_output(rig->context, output), INLAY_FLOAT, shape, data);
}
static inline void rig_expect_ints(struct rig *rig, uint32_t output, const char *shape, const int64_t *data)
{
    rig_expect(inlay_context_output(rig->context, output), INLAY_INT64, shape, data);
}
static inline void rig_expect_texts(const inlay_value *value, int64_t count, const char *const *texts)
{
    assert_non_null(value);
    assert_int_equal(inlay_value_dtype(value), INLAY_STRING);
    assert_int_equal(inlay_value_count(value), count);
    for (int64_t i = 0; i < count; i++) {
        const inlay_str *string = (const inlay_str *)inlay_value_data(value) + i;
        assert_int_equal(string->bytes, strlen(texts[i]));
        assert_memory_equal(string->data, texts[i], string->bytes);
    }
}
static inline inlay_value *rig_texts(int64_t count, const char *const *texts)
{
    inlay_str string[16];
    inlay_value *value = NULL;

    for (int64_t i = 0; i < count; i++)
        string[i] = (inlay_str){ texts[i], strlen(texts[i]) };
    assert_int_equal(inlay_value_create_strings(1, &count, string, &value, NULL), INLAY_OK);
    return value;
}
#endif
