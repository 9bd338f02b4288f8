/* The exports of inlay.wasm, which sdk/bindings/web/index.js calls. An instance of the module is one session with one
 * context: an instance is created for each session, and its memory is freed as a whole. Functions that can fail return
 * a status; error() then has the message. Texts end with a zero byte. */
#include "tables/words.h"
#include "inlay/inlay.h"
#include "inlay/plugin.h"
#include <stdlib.h>
#include <string.h>

/* Engines take long to extend the memory, so it is extended at once by what most sessions need: this, and twice the
 * bytes of the model. Pages that are not used take no memory. */
enum { RESERVED_BYTES = 16 << 20 };

#define EXPORT(name) __attribute__((export_name(#name)))

/* The entries of the providers, see CMakeLists.txt. */
inlay_status web_open_cpu(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);
inlay_status web_open_reference(const inlay_host *host, const inlay_plugin **out_plugin, inlay_diag *diag);

static inlay_options *options;
static inlay_session *session;
static inlay_context *context;
static inlay_diag diag = INLAY_DIAG_INIT;
static inlay_value **inputs; /* [inputs of the session] bound by the last run; their memory is used again */

EXPORT(allocate) void *web_allocate(size_t bytes);
void *web_allocate(size_t bytes)
{
    return malloc(bytes > 0 ? bytes : 1);
}

EXPORT(release) void web_release(void *memory);
void web_release(void *memory)
{
    free(memory);
}

EXPORT(error) const char *web_error(void);
const char *web_error(void)
{
    return diag.text;
}

EXPORT(status_text) const char *web_status_text(inlay_status status);
const char *web_status_text(inlay_status status)
{
    return inlay_status_text(status);
}

EXPORT(set) inlay_status web_set(const char *name, const char *value);
inlay_status web_set(const char *name, const char *value)
{
    inlay_status status = INLAY_OK;

    /* The session would leave out provider cpu, and reference computes with libm of this module. */
    if (strcmp(name, "reproducible") == 0 && strcmp(value, "cpu") == 0)
        return inlay_fail(&diag, INLAY_UNSUPPORTED,
                          "option reproducible: inlay-web has no kernels for cpu; modules that `inlay bundle --target "
                          "wasm32 --reproducible cpu` makes have them");
    if (options == NULL)
        status = inlay_options_create(&options, &diag);
    return status == INLAY_OK ? inlay_options_set(options, name, value, &diag) : status;
}

/* The model must stay in memory as long as the session. */
EXPORT(create) inlay_status web_create(const void *data, size_t bytes);
inlay_status web_create(const void *data, size_t bytes)
{
    inlay_status status = inlay_plugin_register(web_open_cpu, &diag);
    void *volatile reserved = malloc(RESERVED_BYTES + 2 * bytes); /* volatile: compilers omit an unused block */

    free(reserved);
    if (status == INLAY_OK)
        status = inlay_plugin_register(web_open_reference, &diag);
    if (status == INLAY_OK)
        status = inlay_session_create_from_bytes(data, bytes, options, &session, &diag);
    if (status == INLAY_OK)
        status = inlay_context_create(session, &context, &diag);
    if (status != INLAY_OK)
        return status;
    inputs = calloc((size_t)inlay_session_input_count(session) + 1, sizeof *inputs);
    return inputs != NULL ? INLAY_OK : inlay_fail(&diag, INLAY_OUT_OF_MEMORY, "out of memory");
}

struct text {
    char *data; /* NULL after a failure */
    size_t bytes, capacity;
};

static void append(void *user, const char *piece, size_t bytes)
{
    struct text *to = user;

    if (to->data != NULL && to->capacity - to->bytes <= bytes) {
        char *larger = realloc(to->data, 2 * (to->capacity + bytes));

        if (larger == NULL)
            free(to->data);
        to->data = larger;
        to->capacity = 2 * (to->capacity + bytes);
    }
    if (to->data == NULL)
        return;
    memcpy(to->data + to->bytes, piece, bytes);
    to->bytes += bytes;
    to->data[to->bytes] = '\0';
}

typedef inlay_status (*io_fn)(const inlay_session *from, uint32_t index, inlay_io_info *out_info);

static void describe_list(json_out *json, const char *name, uint32_t count, io_fn get)
{
    json_open(json, name, '[', false);
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info, .name = "" };

        (void)get(session, i, &info);
        json_open(json, NULL, '{', true);
        json_text(json, "name", info.name);
        json_whole(json, "kind", info.kind == INLAY_KIND_TENSOR ? (uint64_t)info.dtype : 0);
        json_bool(json, "optional", info.optional != 0 || info.kind == INLAY_KIND_OPTIONAL);
        json_bool(json, "scalar", info.kind == INLAY_KIND_TENSOR && info.declared_rank == 0);
        json_open(json, "shape", '[', true);
        for (uint32_t d = 0; info.declared_rank != INLAY_RANK_UNKNOWN && d < info.declared_rank; d++)
            if (info.declared_dims[d] >= 0)
                json_whole(json, NULL, (uint64_t)info.declared_dims[d]);
            else
                json_text(json, NULL, info.declared_dim_names[d]);
        json_close(json);
        json_close(json);
    }
    json_close(json);
}

/* The inputs, the outputs and the metadata of the model as JSON; the caller releases it. NULL: out of memory. */
EXPORT(describe) char *web_describe(void);
char *web_describe(void)
{
    struct text out = { .data = malloc(1024), .capacity = 1024 };
    const explain_sink sink = { .write = append, .user = &out };
    json_out json = { .sink = &sink };
    inlay_model_info model = { .struct_size = sizeof model };

    json_open(&json, NULL, '{', false);
    describe_list(&json, "inputs", inlay_session_input_count(session), inlay_session_input);
    describe_list(&json, "outputs", inlay_session_output_count(session), inlay_session_output);
    json_open(&json, "metadata", '{', false);
    (void)inlay_session_model(session, &model);
    for (uint32_t i = 0; i < model.metadata_count; i++) {
        const char *key = "", *value = "";

        (void)inlay_session_metadata(session, i, &key, &value);
        json_text(&json, key, value);
    }
    json_close(&json);
    json_close(&json);
    return out.data;
}

static bool fits(const inlay_value *value, inlay_dtype dtype, uint32_t rank, const int64_t *dims)
{
    return value != NULL && inlay_value_dtype(value) == dtype && inlay_value_rank(value) == rank &&
           (rank == 0 || memcmp(inlay_value_dims(value), dims, rank * sizeof *dims) == 0);
}

static inlay_status bind(uint32_t index, inlay_value *value)
{
    const inlay_status status = inlay_context_set_input(context, index, value, &diag);

    if (status != INLAY_OK) {
        inlay_value_unref(value);
        return status;
    }
    inlay_value_unref(inputs[index]);
    inputs[index] = value;
    return INLAY_OK;
}

static const char *input_name(uint32_t index)
{
    inlay_io_info info = { .struct_size = sizeof info, .name = "" };

    (void)inlay_session_input(session, index, &info);
    return info.name;
}

/* Binds input `index` to a tensor that belongs to this module. The caller then writes the elements, `bytes` bytes, to
 * input_data(). The tensor of the last run is used again if it has the type and shape. */
EXPORT(input)
inlay_status web_input(uint32_t index, inlay_dtype dtype, uint32_t rank, const int64_t *dims, uint32_t bytes);
inlay_status web_input(uint32_t index, inlay_dtype dtype, uint32_t rank, const int64_t *dims, uint32_t bytes)
{
    inlay_value *value = NULL;
    inlay_status status = INLAY_OK;

    if (!fits(inputs[index], dtype, rank, dims)) {
        status = inlay_value_create(dtype, rank, dims, &value, &diag);
        if (status == INLAY_OK)
            status = bind(index, value);
    }
    if (status == INLAY_OK && inlay_value_bytes(inputs[index]) != bytes)
        status = inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "input '%.200s': %u bytes for a tensor of %llu",
                            input_name(index), bytes, (unsigned long long)inlay_value_bytes(inputs[index]));
    return status;
}

EXPORT(input_data) void *web_input_data(uint32_t index);
void *web_input_data(uint32_t index)
{
    return inlay_value_data(inputs[index]);
}

/* Binds input `index` to `count` strings, which are copied. */
EXPORT(input_strings)
inlay_status web_input_strings(uint32_t index, uint32_t rank, const int64_t *dims, const inlay_str *texts,
                               uint32_t count);
inlay_status web_input_strings(uint32_t index, uint32_t rank, const int64_t *dims, const inlay_str *texts,
                               uint32_t count)
{
    inlay_value *value = NULL;
    uint64_t elements = 1;
    inlay_status status;

    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] < 0 || __builtin_mul_overflow(elements, (uint64_t)dims[i], &elements))
            elements = UINT64_MAX;
    if (elements != count)
        return inlay_fail(&diag, INLAY_INVALID_ARGUMENT, "input '%.200s': %u strings for a tensor of other dims",
                          input_name(index), count);
    status = inlay_value_create_strings(rank, dims, texts, &value, &diag);
    return status == INLAY_OK ? bind(index, value) : status;
}

/* An optional input gets its default value. */
EXPORT(input_none) inlay_status web_input_none(uint32_t index);
inlay_status web_input_none(uint32_t index)
{
    inlay_value_unref(inputs[index]);
    inputs[index] = NULL;
    return inlay_context_set_input(context, index, NULL, &diag);
}

EXPORT(run) inlay_status web_run(void);
inlay_status web_run(void)
{
    return inlay_context_run(context, NULL, &diag);
}

/* An output of the last run, valid until the next one. */
struct output {
    uint32_t dtype; /* 0: not a tensor */
    uint32_t rank;
    const int64_t *dims; /* [rank] */
    const void *data;    /* of strings: inlay_str */
    uint32_t count, bytes;
};

EXPORT(output) const struct output *web_output(uint32_t index);
const struct output *web_output(uint32_t index)
{
    static struct output out;
    const inlay_value *value = inlay_context_output(context, index);

    out = (struct output){ 0 };
    if (value == NULL || inlay_value_kind(value) != INLAY_KIND_TENSOR)
        return &out;
    out = (struct output){ .dtype = (uint32_t)inlay_value_dtype(value),
                           .rank = inlay_value_rank(value),
                           .dims = inlay_value_dims(value),
                           .data = inlay_value_data(value),
                           .count = (uint32_t)inlay_value_count(value),
                           .bytes = (uint32_t)inlay_value_bytes(value) };
    return &out;
}
