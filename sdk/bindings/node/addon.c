/* The native half of the npm package: sessions, and runs on libuv's threads. index.js is what programs see.
 *
 *     createSession(path | Uint8Array, [[name, value], ...]) -> Promise<session>
 *     describe(session)  -> { inputs: [...], outputs: [...] }
 *     run(session, [[index, kind, data, dims], ...], [output, ...], cancel) -> Promise<[[kind, data, dims], ...]>
 *     release(session)
 *     version()
 *
 * kind is an element type's number in ONNX; data a typed array, or an array of texts. The memory of typed arrays is
 * used where it lies, and that of results is the runtime's, freed when JavaScript no longer needs it. */
#include "inlay/inlay.h"
#include <node_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_IDLE = 64, MOST_DIMS = INLAY_MAX_RANK };

typedef struct session {
    uint32_t references; /* of JavaScript, and of runs under way; atomic */
    uint32_t released;   /* atomic */
    inlay_session *session;
    void *bytes;
    pthread_mutex_t lock;
    inlay_context *idle[MOST_IDLE];
    uint32_t idle_count;
} session;

static void session_unref(session *s)
{
    if (__atomic_sub_fetch(&s->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (uint32_t i = 0; i < s->idle_count; i++)
        inlay_context_destroy(s->idle[i]);
    inlay_session_destroy(s->session);
    (void)pthread_mutex_destroy(&s->lock);
    free(s->bytes);
    free(s);
}

/* ------------------------------------------------------------------ JavaScript's values */

static napi_value throw_text(napi_env env, const char *text)
{
    (void)napi_throw_error(env, NULL, text);
    return NULL;
}

/* An Error with inlay's sentence and code. */
static napi_value make_error(napi_env env, const inlay_diag *diag)
{
    napi_value text, code, error;

    if (napi_create_string_utf8(env, diag->text, NAPI_AUTO_LENGTH, &text) != napi_ok ||
        napi_create_string_utf8(env, inlay_status_text(diag->code), NAPI_AUTO_LENGTH, &code) != napi_ok ||
        napi_create_error(env, code, text, &error) != napi_ok)
        return NULL;
    return error;
}

static char *get_text(napi_env env, napi_value value, size_t *bytes)
{
    size_t n = 0;
    char *text;

    if (napi_get_value_string_utf8(env, value, NULL, 0, &n) != napi_ok)
        return NULL;
    text = malloc(n + 1);
    if (text != NULL && napi_get_value_string_utf8(env, value, text, n + 1, &n) != napi_ok) {
        free(text);
        return NULL;
    }
    if (bytes != NULL)
        *bytes = n;
    return text;
}

static napi_value element(napi_env env, napi_value array, uint32_t i)
{
    napi_value v = NULL;

    (void)napi_get_element(env, array, i, &v);
    return v;
}

static uint32_t length_of(napi_env env, napi_value array)
{
    uint32_t n = 0;

    (void)napi_get_array_length(env, array, &n);
    return n;
}

static void put(napi_env env, napi_value object, const char *name, napi_value value)
{
    (void)napi_set_named_property(env, object, name, value);
}

static napi_value make_text(napi_env env, const char *text, size_t bytes)
{
    napi_value v = NULL;

    (void)napi_create_string_utf8(env, text, bytes, &v);
    return v;
}

static napi_value make_number(napi_env env, double number)
{
    napi_value v = NULL;

    (void)napi_create_double(env, number, &v);
    return v;
}

/* ------------------------------------------------------------------ creating sessions */

typedef struct create_job {
    napi_async_work work;
    napi_deferred deferred;
    char *path; /* or the bytes of made */
    size_t bytes;
    inlay_options *options;
    session *made;
    inlay_status status;
    inlay_diag diag;
} create_job;

static void create_execute(napi_env env, void *data)
{
    create_job *j = data;
    session *s = j->made;

    (void)env;
    if (j->path != NULL)
        j->status = inlay_session_create(j->path, j->options, &s->session, &j->diag);
    else
        j->status = inlay_session_create_from_bytes(s->bytes, j->bytes, j->options, &s->session, &j->diag);
}

static void finalize_session(napi_env env, void *data, void *hint)
{
    (void)env, (void)hint;
    session_unref(data);
}

static void create_complete(napi_env env, napi_status cancelled, void *data)
{
    create_job *j = data;
    napi_value made = NULL;

    if (cancelled == napi_ok && j->status == INLAY_OK &&
        napi_create_external(env, j->made, finalize_session, NULL, &made) == napi_ok) {
        (void)napi_resolve_deferred(env, j->deferred, made);
    } else {
        session_unref(j->made);
        (void)napi_reject_deferred(env, j->deferred, make_error(env, &j->diag));
    }
    (void)napi_delete_async_work(env, j->work);
    inlay_options_destroy(j->options);
    free(j->path);
    free(j);
}

/* Settings as pairs of texts, on top of files and environment. */
static inlay_status read_options(napi_env env, napi_value list, create_job *j)
{
    inlay_status status = inlay_options_create(&j->options, &j->diag);

    if (status == INLAY_OK)
        status = inlay_options_load(j->options, NULL, &j->diag);
    if (status == INLAY_OK)
        status = inlay_options_load_environment(j->options, &j->diag);
    for (uint32_t i = 0; status == INLAY_OK && i < length_of(env, list); i++) {
        napi_value pair = element(env, list, i);
        char *name = get_text(env, element(env, pair, 0), NULL), *value = get_text(env, element(env, pair, 1), NULL);

        if (name != NULL && value != NULL)
            status = inlay_options_set(j->options, name, value, &j->diag);
        free(name);
        free(value);
    }
    return status;
}

static bool read_model(napi_env env, napi_value model, create_job *j)
{
    bool is_array = false;
    void *data = NULL;

    if (napi_is_typedarray(env, model, &is_array) != napi_ok || !is_array) {
        j->path = get_text(env, model, NULL);
        return j->path != NULL;
    }
    if (napi_get_typedarray_info(env, model, NULL, &j->bytes, &data, NULL, NULL) != napi_ok)
        return false;
    j->made->bytes = malloc(j->bytes + 1); /* the program may do with its own what it likes */
    if (j->made->bytes != NULL && j->bytes > 0)
        memcpy(j->made->bytes, data, j->bytes);
    return j->made->bytes != NULL;
}

static napi_value create_session(napi_env env, napi_callback_info info)
{
    napi_value args[2], promise = NULL;
    create_job *j = calloc(1, sizeof *j);
    session *s = calloc(1, sizeof *s);
    size_t count = 2;

    if (j == NULL || s == NULL || napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || count < 2) {
        free(j);
        free(s);
        return throw_text(env, "createSession(model, options)");
    }
    j->diag = (inlay_diag)INLAY_DIAG_INIT;
    j->made = s;
    s->references = 1;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)napi_create_promise(env, &j->deferred, &promise);
    (void)napi_create_async_work(env, NULL, make_text(env, "inlay", 5), create_execute, create_complete, j, &j->work);
    if (!read_model(env, args[0], j))
        j->status = inlay_fail(&j->diag, INLAY_INVALID_ARGUMENT, "a model is a path, an ArrayBuffer or a Uint8Array");
    if (j->status == INLAY_OK)
        j->status = read_options(env, args[1], j);
    if (j->status != INLAY_OK)
        create_complete(env, napi_cancelled, j);
    else
        (void)napi_queue_async_work(env, j->work);
    return promise;
}

/* ------------------------------------------------------------------ what a session tells */

static session *get_session(napi_env env, napi_value value)
{
    napi_valuetype type;
    void *s = NULL;

    if (napi_typeof(env, value, &type) != napi_ok || type != napi_external ||
        napi_get_value_external(env, value, &s) != napi_ok)
        return NULL;
    return s;
}

static napi_value describe_io(napi_env env, const inlay_session *s, bool input)
{
    uint32_t count = input ? inlay_session_input_count(s) : inlay_session_output_count(s);
    napi_value list, shape, one, yes;

    (void)napi_create_array(env, &list);
    for (uint32_t i = 0; i < count; i++) {
        inlay_io_info info = { .struct_size = sizeof info, .name = "" };

        (void)(input ? inlay_session_input(s, i, &info) : inlay_session_output(s, i, &info));
        (void)napi_create_object(env, &one);
        put(env, one, "name", make_text(env, info.name, NAPI_AUTO_LENGTH));
        put(env, one, "kind", make_number(env, info.kind == INLAY_KIND_TENSOR ? info.dtype : 0));
        (void)napi_get_boolean(env, info.optional != 0 || info.kind == INLAY_KIND_OPTIONAL, &yes);
        put(env, one, "optional", yes);
        (void)napi_get_boolean(env, info.kind == INLAY_KIND_TENSOR && info.rank == 0, &yes);
        put(env, one, "scalar", yes);
        (void)napi_create_array(env, &shape);
        for (uint32_t d = 0; info.rank != INLAY_RANK_UNKNOWN && d < info.rank; d++)
            (void)napi_set_element(env, shape, d,
                                   info.dims[d] >= 0 ? make_number(env, (double)info.dims[d])
                                                     : make_text(env, info.dim_names[d], NAPI_AUTO_LENGTH));
        put(env, one, "shape", shape);
        (void)napi_set_element(env, list, i, one);
    }
    return list;
}

static napi_value describe(napi_env env, napi_callback_info info)
{
    napi_value args[1], out;
    size_t count = 1;
    session *s;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || (s = get_session(env, args[0])) == NULL)
        return throw_text(env, "describe(session)");
    (void)napi_create_object(env, &out);
    put(env, out, "inputs", describe_io(env, s->session, true));
    put(env, out, "outputs", describe_io(env, s->session, false));
    return out;
}

/* Contexts go at once; the session when no run needs it any more. */
static napi_value release(napi_env env, napi_callback_info info)
{
    napi_value args[1];
    size_t count = 1;
    session *s;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || (s = get_session(env, args[0])) == NULL)
        return throw_text(env, "release(session)");
    __atomic_store_n(&s->released, 1, __ATOMIC_RELEASE);
    (void)pthread_mutex_lock(&s->lock);
    while (s->idle_count > 0)
        inlay_context_destroy(s->idle[--s->idle_count]);
    (void)pthread_mutex_unlock(&s->lock);
    return NULL;
}

/* ------------------------------------------------------------------ runs */

typedef struct feed {
    uint32_t index;
    inlay_value *value;
    napi_ref memory; /* of a typed array, until the run is over */
} feed;

typedef struct run_job {
    napi_async_work work;
    napi_deferred deferred;
    session *session;
    feed *feeds;
    uint32_t *wanted;
    inlay_value **made; /* [wanted_count] a reference each */
    const uint32_t *cancel;
    napi_ref cancel_memory;
    uint32_t feed_count, wanted_count;
    inlay_status status;
    inlay_diag diag;
} run_job;

static inlay_context *take_context(run_job *j)
{
    session *s = j->session;
    inlay_context *c = NULL;

    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_count > 0)
        c = s->idle[--s->idle_count];
    (void)pthread_mutex_unlock(&s->lock);
    if (c == NULL)
        j->status = inlay_context_create(s->session, &c, &j->diag);
    return c;
}

static void give_context(session *s, inlay_context *c)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->idle_count < MOST_IDLE && __atomic_load_n(&s->released, __ATOMIC_ACQUIRE) == 0) {
        s->idle[s->idle_count++] = c;
        c = NULL;
    }
    (void)pthread_mutex_unlock(&s->lock);
    inlay_context_destroy(c);
}

static void run_execute(napi_env env, void *data)
{
    run_job *j = data;
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;
    inlay_context *c = take_context(j);

    (void)env;
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < j->feed_count && j->status == INLAY_OK; i++)
        j->status = inlay_context_set_input(c, j->feeds[i].index, j->feeds[i].value, &j->diag);
    options.cancel = j->cancel;
    if (j->status == INLAY_OK)
        j->status = inlay_context_run(c, &options, &j->diag);
    for (uint32_t i = 0; i < j->wanted_count && j->status == INLAY_OK; i++)
        j->made[i] = inlay_value_ref(inlay_context_output(c, j->wanted[i]));
    for (uint32_t i = 0; i < j->feed_count; i++)
        (void)inlay_context_set_input(c, j->feeds[i].index, NULL, NULL);
    give_context(j->session, c);
}

/* JavaScript's array of an element type; bytes where it has none. */
static napi_typedarray_type array_type(inlay_dtype dtype)
{
    switch (dtype) {
    case INLAY_FLOAT:
        return napi_float32_array;
    case INLAY_DOUBLE:
        return napi_float64_array;
    case INLAY_INT8:
        return napi_int8_array;
    case INLAY_INT16:
        return napi_int16_array;
    case INLAY_UINT16:
    case INLAY_FLOAT16:
    case INLAY_BFLOAT16:
        return napi_uint16_array;
    case INLAY_INT32:
        return napi_int32_array;
    case INLAY_UINT32:
        return napi_uint32_array;
    case INLAY_INT64:
        return napi_bigint64_array;
    case INLAY_UINT64:
        return napi_biguint64_array;
    default:
        return napi_uint8_array;
    }
}

static void finalize_value(napi_env env, void *data, void *hint)
{
    (void)env, (void)data;
    inlay_value_unref(hint);
}

/* The elements as a typed array over their own memory, or as a copy where the program's JavaScript allows no such
 * memory. */
static napi_value make_elements(napi_env env, inlay_value *v)
{
    napi_typedarray_type type = array_type(inlay_value_dtype(v));
    size_t bytes = (size_t)inlay_value_bytes(v), count = (size_t)inlay_value_count(v);
    napi_value buffer = NULL, array = NULL;
    void *copy;

    if (type == napi_uint8_array)
        count = bytes;
    if (bytes > 0 && napi_create_external_arraybuffer(env, inlay_value_data(v), bytes, finalize_value,
                                                      inlay_value_ref(v), &buffer) != napi_ok) {
        inlay_value_unref(v);
        buffer = NULL;
    }
    if (buffer == NULL && napi_create_arraybuffer(env, bytes, &copy, &buffer) == napi_ok && bytes > 0)
        memcpy(copy, inlay_value_data(v), bytes);
    (void)napi_create_typedarray(env, type, count, buffer, 0, &array);
    return array;
}

static napi_value make_texts(napi_env env, const inlay_value *v)
{
    const inlay_str *texts = inlay_value_data(v);
    napi_value list;

    (void)napi_create_array(env, &list);
    for (int64_t i = 0; i < inlay_value_count(v); i++)
        (void)napi_set_element(env, list, (uint32_t)i, make_text(env, texts[i].data, (size_t)texts[i].bytes));
    return list;
}

static napi_value make_result(napi_env env, inlay_value *v)
{
    napi_value one, dims;

    (void)napi_create_array(env, &one);
    (void)napi_create_array(env, &dims);
    (void)napi_set_element(env, one, 0, make_number(env, inlay_value_dtype(v)));
    (void)napi_set_element(env, one, 1,
                           inlay_value_dtype(v) == INLAY_STRING ? make_texts(env, v) : make_elements(env, v));
    for (uint32_t d = 0; d < inlay_value_rank(v); d++)
        (void)napi_set_element(env, dims, d, make_number(env, (double)inlay_value_dims(v)[d]));
    (void)napi_set_element(env, one, 2, dims);
    return one;
}

static void free_run(napi_env env, run_job *j)
{
    for (uint32_t i = 0; i < j->feed_count; i++) {
        inlay_value_unref(j->feeds[i].value);
        if (j->feeds[i].memory != NULL)
            (void)napi_delete_reference(env, j->feeds[i].memory);
    }
    for (uint32_t i = 0; j->made != NULL && i < j->wanted_count; i++)
        inlay_value_unref(j->made[i]);
    if (j->cancel_memory != NULL)
        (void)napi_delete_reference(env, j->cancel_memory);
    if (j->work != NULL)
        (void)napi_delete_async_work(env, j->work);
    session_unref(j->session);
    free(j->feeds);
    free(j->wanted);
    free(j->made);
    free(j);
}

static void run_complete(napi_env env, napi_status cancelled, void *data)
{
    run_job *j = data;
    napi_value list;

    for (uint32_t i = 0; i < j->wanted_count && j->status == INLAY_OK && cancelled == napi_ok; i++)
        if (j->made[i] == NULL || inlay_value_kind(j->made[i]) != INLAY_KIND_TENSOR)
            j->status = inlay_fail(&j->diag, INLAY_UNSUPPORTED, "output %u is not a tensor", j->wanted[i]);
    if (cancelled != napi_ok || j->status != INLAY_OK) {
        (void)napi_reject_deferred(env, j->deferred, make_error(env, &j->diag));
    } else {
        (void)napi_create_array(env, &list);
        for (uint32_t i = 0; i < j->wanted_count; i++)
            (void)napi_set_element(env, list, i, make_result(env, j->made[i]));
        (void)napi_resolve_deferred(env, j->deferred, list);
    }
    free_run(env, j);
}

/* ------------------------------------------------------------------ a run's arguments */

static inlay_status read_texts(napi_env env, napi_value data, uint32_t rank, const int64_t *dims, feed *f,
                               inlay_diag *diag)
{
    uint32_t count = length_of(env, data);
    inlay_str *texts = calloc((size_t)count + 1, sizeof *texts);
    inlay_status status = INLAY_OK;
    int64_t want = 1;

    for (uint32_t d = 0; d < rank; d++)
        want *= dims[d];
    if (texts == NULL)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for %u texts", count);
    if (want != (int64_t)count)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%u texts for a tensor of %lld", count, (long long)want);
    for (uint32_t i = 0; i < count && status == INLAY_OK; i++) {
        size_t bytes = 0;

        texts[i].data = get_text(env, element(env, data, i), &bytes);
        texts[i].bytes = bytes;
        if (texts[i].data == NULL)
            status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "element %u of a tensor of strings is not a string", i);
    }
    if (status == INLAY_OK)
        status = inlay_value_create_strings(rank, dims, texts, &f->value, diag);
    for (uint32_t i = 0; i < count; i++)
        free((char *)(uintptr_t)texts[i].data);
    free(texts);
    return status;
}

/* [index, kind, data, dims] */
static inlay_status read_feed(napi_env env, napi_value from, feed *f, inlay_diag *diag)
{
    napi_value data = element(env, from, 2), list = element(env, from, 3), memory;
    uint32_t rank = length_of(env, list);
    size_t length = 0, offset, bytes;
    int64_t dims[MOST_DIMS];
    napi_typedarray_type type;
    bool is_array = false;
    int32_t dtype = 0;
    void *p;

    if (napi_get_value_uint32(env, element(env, from, 0), &f->index) != napi_ok ||
        napi_get_value_int32(env, element(env, from, 1), &dtype) != napi_ok || rank > MOST_DIMS)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "a feed is [index, kind, data, dims]");
    for (uint32_t d = 0; d < rank; d++)
        if (napi_get_value_int64(env, element(env, list, d), &dims[d]) != napi_ok)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "dims[%u] is not a number", d);
    if (dtype == INLAY_STRING)
        return read_texts(env, data, rank, dims, f, diag);
    if (napi_is_typedarray(env, data, &is_array) != napi_ok || !is_array ||
        napi_get_typedarray_info(env, data, &type, &length, &p, &memory, &offset) != napi_ok)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the data of a tensor is a typed array");
    bytes = length * (type == napi_float64_array || type == napi_bigint64_array || type == napi_biguint64_array ? 8
                      : type == napi_float32_array || type == napi_int32_array || type == napi_uint32_array     ? 4
                      : type == napi_int16_array || type == napi_uint16_array                                   ? 2
                                                                                                                : 1);
    if (napi_create_reference(env, data, 1, &f->memory) != napi_ok)
        return inlay_fail(diag, INLAY_OUT_OF_MEMORY, "no memory for a reference");
    return inlay_value_borrow(dtype, rank, dims, p, bytes, &f->value, diag);
}

static inlay_status read_run(napi_env env, const napi_value *args, run_job *j)
{
    inlay_status status = INLAY_OK;
    napi_valuetype type;
    void *word = NULL;

    j->feed_count = length_of(env, args[1]);
    j->wanted_count = length_of(env, args[2]);
    j->feeds = calloc((size_t)j->feed_count + 1, sizeof *j->feeds);
    j->wanted = calloc((size_t)j->wanted_count + 1, sizeof *j->wanted);
    j->made = calloc((size_t)j->wanted_count + 1, sizeof(inlay_value *));
    if (j->feeds == NULL || j->wanted == NULL || j->made == NULL) {
        j->feed_count = j->feeds != NULL ? j->feed_count : 0;
        return inlay_fail(&j->diag, INLAY_OUT_OF_MEMORY, "no memory for a run");
    }
    for (uint32_t i = 0; i < j->feed_count && status == INLAY_OK; i++)
        status = read_feed(env, element(env, args[1], i), &j->feeds[i], &j->diag);
    for (uint32_t i = 0; i < j->wanted_count && status == INLAY_OK; i++)
        if (napi_get_value_uint32(env, element(env, args[2], i), &j->wanted[i]) != napi_ok)
            status = inlay_fail(&j->diag, INLAY_INVALID_ARGUMENT, "an output is a number");
    if (status == INLAY_OK && napi_typeof(env, args[3], &type) == napi_ok && type == napi_object &&
        napi_get_typedarray_info(env, args[3], NULL, NULL, &word, NULL, NULL) == napi_ok && word != NULL &&
        napi_create_reference(env, args[3], 1, &j->cancel_memory) == napi_ok)
        j->cancel = word;
    return status;
}

static napi_value run(napi_env env, napi_callback_info info)
{
    napi_value args[4], promise = NULL;
    size_t count = 4;
    run_job *j;
    session *s;

    if (napi_get_cb_info(env, info, &count, args, NULL, NULL) != napi_ok || count < 4 ||
        (s = get_session(env, args[0])) == NULL)
        return throw_text(env, "run(session, feeds, outputs, cancel)");
    if (__atomic_load_n(&s->released, __ATOMIC_ACQUIRE) != 0)
        return throw_text(env, "the session was released");
    j = calloc(1, sizeof *j);
    if (j == NULL)
        return throw_text(env, "no memory for a run");
    j->diag = (inlay_diag)INLAY_DIAG_INIT;
    j->session = s;
    (void)__atomic_add_fetch(&s->references, 1, __ATOMIC_RELAXED);
    (void)napi_create_promise(env, &j->deferred, &promise);
    j->status = read_run(env, args, j);
    if (j->status == INLAY_OK &&
        napi_create_async_work(env, NULL, make_text(env, "inlay", 5), run_execute, run_complete, j, &j->work) ==
            napi_ok &&
        napi_queue_async_work(env, j->work) == napi_ok)
        return promise;
    if (j->status == INLAY_OK)
        j->status = inlay_fail(&j->diag, INLAY_INTERNAL, "the run cannot be queued");
    run_complete(env, napi_ok, j);
    return promise;
}

static napi_value version(napi_env env, napi_callback_info info)
{
    (void)info;
    return make_text(env, inlay_version(), NAPI_AUTO_LENGTH);
}

static napi_value init(napi_env env, napi_value exports)
{
    static const struct {
        const char *name;
        napi_callback fn;
    } functions[] = { { "createSession", create_session },
                      { "describe", describe },
                      { "run", run },
                      { "release", release },
                      { "version", version } };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        napi_value fn;

        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].fn, NULL, &fn) == napi_ok)
            put(env, exports, functions[i].name, fn);
    }
    return exports;
}

NAPI_MODULE(inlay, init)
