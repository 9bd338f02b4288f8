/* The addon inlay_text.node: language models by inlay/text.h. It exports to text.js:
 *
 *     create(path, [[name, value], ...], [variant, tokenizer, draft], [kvMemory, maxTexts, draftTokens, lookupTokens,
 *         context])
 *         -> Promise<model>
 *     begin(model, [prompt, schema, grammar, adapter], [token, ...], [stop, ...], [seed, maxTokens, flags, topK,
 *         temperature, topP, minP, repetitionPenalty, presencePenalty, frequencyPenalty]) -> Promise<text>
 *     next(text)  -> Promise<piece, or [state, promptTokens, generatedTokens, reusedTokens] after the last one>
 *     stop(text)
 *     chat(model, messages, tools, variables) -> Promise<prompt>, all of them JSON
 *     tokenize(model, text, rendered) -> Promise<[token, ...]>
 *     detokenize(model, [token, ...]) -> Promise<text>
 *     embed(model, text)              -> Promise<Float32Array>
 *     describe(model) -> [vocabulary, context, embeds, hasTemplate, end...]
 *
 * Texts that may be missing are undefined. Calls run on libuv's threads, one at a time for each model. */
#include "addon.h"
#include "inlay/check.h"
#include "inlay/text.h"
#include <stdlib.h>
#include <string.h>

struct text;

struct model {
    uint32_t references; /* of JavaScript, texts and calls; atomic */
    inlay_text_model *model;
    pthread_mutex_t lock;      /* held during a call */
    pthread_mutex_t drop_lock; /* of `dropped` */
    struct text *dropped;      /* texts without references, which the next call destroys */
};

struct text {
    uint32_t references; /* atomic */
    struct model *model;
    inlay_text *text;
    struct text *next; /* of the dropped ones */
};

enum { STRINGS = 4, NUMBERS = 13 };

typedef struct text_call {
    napi_async_work work;
    napi_deferred deferred;
    inlay_status (*run)(struct text_call *call);                /* on libuv's threads, under the model's lock */
    napi_value (*result)(napi_env env, struct text_call *call); /* NULL: failed */
    struct model *model;                                        /* a reference */
    struct text *text;                                          /* a reference; NULL: none */
    inlay_options *options;                                     /* of create */
    char *strings[STRINGS], **list;                             /* [list_count]; owned */
    int64_t *tokens;                                            /* [token_count] owned */
    double numbers[NUMBERS];
    uint32_t list_count;
    size_t token_count;
    char *out; /* [out_bytes] owned */
    size_t out_bytes;
    const float *vector; /* [out_bytes] of the model */
    inlay_text_info info;
    inlay_status status;
    inlay_diag diag;
} text_call;

static void destroy_dropped(struct model *model)
{
    struct text *text;

    (void)pthread_mutex_lock(&model->drop_lock);
    text = model->dropped;
    model->dropped = NULL;
    (void)pthread_mutex_unlock(&model->drop_lock);
    while (text != NULL) {
        struct text *after = text->next;

        inlay_text_destroy(text->text);
        free(text);
        text = after;
    }
}

static void model_unref(struct model *model)
{
    if (model == NULL || __atomic_sub_fetch(&model->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    destroy_dropped(model);
    inlay_text_model_destroy(model->model);
    (void)pthread_mutex_destroy(&model->lock);
    (void)pthread_mutex_destroy(&model->drop_lock);
    free(model);
}

static void text_unref(struct text *text)
{
    struct model *model = text != NULL ? text->model : NULL;

    if (text == NULL || __atomic_sub_fetch(&text->references, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    (void)pthread_mutex_lock(&model->drop_lock);
    text->next = model->dropped;
    model->dropped = text;
    if (text->text != NULL)
        inlay_text_stop(text->text);
    (void)pthread_mutex_unlock(&model->drop_lock);
    if (pthread_mutex_trylock(&model->lock) == 0) {
        destroy_dropped(model);
        (void)pthread_mutex_unlock(&model->lock);
    }
    model_unref(model);
}

static void finalize_model(napi_env env, void *data, void *hint)
{
    (void)env, (void)hint;
    model_unref(data);
}

static void finalize_text(napi_env env, void *data, void *hint)
{
    (void)env, (void)hint;
    text_unref(data);
}

/* Tags that tell the handles of models from those of texts. */
static const napi_type_tag model_tag = { 0x696e6c61795f746d, 1 }, text_tag = { 0x696e6c61795f7478, 2 };

static void *handle_of(napi_env env, napi_value value, const napi_type_tag *tag)
{
    napi_valuetype type;
    void *data = NULL;
    bool same = false;

    if (napi_typeof(env, value, &type) != napi_ok || type != napi_external ||
        napi_check_object_type_tag(env, value, tag, &same) != napi_ok || !same ||
        napi_get_value_external(env, value, &data) != napi_ok)
        return NULL;
    return data;
}

/* Gives a reference to JavaScript; NULL: failed, and the reference is still the caller's. */
static napi_value give_handle(napi_env env, void *data, napi_finalize finalize, const napi_type_tag *tag)
{
    napi_value handle;

    if (napi_create_external(env, data, finalize, NULL, &handle) != napi_ok)
        return NULL;
    (void)napi_type_tag_object(env, handle, tag);
    return handle;
}

static void free_call(napi_env env, text_call *call)
{
    if (call->work != NULL)
        (void)napi_delete_async_work(env, call->work);
    text_unref(call->text);
    model_unref(call->model);
    inlay_options_destroy(call->options);
    for (int i = 0; i < STRINGS; i++)
        free(call->strings[i]);
    for (uint32_t i = 0; i < call->list_count; i++)
        free(call->list[i]);
    free((void *)call->list);
    free(call->tokens);
    free(call->out);
    free(call);
}

static void execute(napi_env env, void *data)
{
    text_call *call = data;

    (void)env;
    (void)pthread_mutex_lock(&call->model->lock);
    destroy_dropped(call->model);
    call->status = call->run(call);
    (void)pthread_mutex_unlock(&call->model->lock);
}

static void complete(napi_env env, napi_status cancelled, void *data)
{
    text_call *call = data;
    napi_value value = NULL;

    if (cancelled == napi_ok && call->status == INLAY_OK)
        value = call->result(env, call);
    if (value != NULL)
        (void)napi_resolve_deferred(env, call->deferred, value);
    else
        (void)napi_reject_deferred(env, call->deferred, js_error(env, &call->diag));
    free_call(env, call);
}

/* A call on a model; the call holds a reference to the model. Returns NULL if model is no handle. */
static text_call *new_call(struct model *model, struct text *text)
{
    text_call *made = model != NULL ? calloc(1, sizeof *made) : NULL;

    if (made == NULL)
        return NULL;
    made->diag = (inlay_diag)INLAY_DIAG_INIT;
    (void)__atomic_add_fetch(&model->references, 1, __ATOMIC_RELAXED);
    made->model = model;
    if (text != NULL)
        (void)__atomic_add_fetch(&text->references, 1, __ATOMIC_RELAXED);
    made->text = text;
    return made;
}

/* Starts the call. Its status is a failure of its arguments, or INLAY_OK. */
static napi_value start(napi_env env, text_call *call, inlay_status (*run)(struct text_call *call),
                        napi_value (*result)(napi_env env, struct text_call *call))
{
    napi_value promise = NULL;

    call->run = run;
    call->result = result;
    (void)napi_create_promise(env, &call->deferred, &promise);
    if (call->status == INLAY_OK &&
        napi_create_async_work(env, NULL, js_text(env, "inlay", 5), execute, complete, call, &call->work) == napi_ok &&
        napi_queue_async_work(env, call->work) == napi_ok)
        return promise;
    if (call->status == INLAY_OK)
        call->status = inlay_fail(&call->diag, INLAY_INTERNAL, "the call cannot be queued");
    complete(env, napi_ok, call);
    return promise;
}

static bool get_arguments(napi_env env, napi_callback_info info, size_t count, napi_value *arguments)
{
    size_t given = count;

    return napi_get_cb_info(env, info, &given, arguments, NULL, NULL) == napi_ok && given >= count;
}

static void read_numbers(napi_env env, napi_value list, double numbers[NUMBERS])
{
    for (uint32_t i = 0; i < NUMBERS && i < js_length(env, list); i++)
        (void)napi_get_value_double(env, js_element(env, list, i), &numbers[i]);
}

static void read_tokens(napi_env env, napi_value list, text_call *call)
{
    const uint32_t count = js_length(env, list);

    call->tokens = calloc((size_t)count + 1, sizeof *call->tokens);
    if (call->tokens == NULL)
        call->status = inlay_fail(&call->diag, INLAY_OUT_OF_MEMORY, "no memory for the tokens");
    for (uint32_t i = 0; call->tokens != NULL && i < count; i++)
        if (napi_get_value_int64(env, js_element(env, list, i), &call->tokens[i]) != napi_ok)
            call->status = inlay_fail(&call->diag, INLAY_INVALID_ARGUMENT, "token %u is not a number", i);
    call->token_count = call->tokens != NULL ? count : 0;
}

/* Models. */

static inlay_status run_create(text_call *call)
{
    const inlay_text_options how = { .struct_size = sizeof how,
                                     .options = call->options,
                                     .variant = call->strings[1],
                                     .tokenizer = call->strings[2],
                                     .draft = call->strings[3],
                                     .kv_memory = (uint64_t)call->numbers[0],
                                     .max_texts = (uint32_t)call->numbers[1],
                                     .draft_tokens = (uint32_t)call->numbers[2],
                                     .lookup_tokens = (uint32_t)call->numbers[3],
                                     .context = (uint32_t)call->numbers[4] };

    return inlay_text_model_create(call->strings[0], &how, &call->model->model, &call->diag);
}

static napi_value give_model(napi_env env, text_call *call)
{
    napi_value handle = give_handle(env, call->model, finalize_model, &model_tag);

    if (handle != NULL)
        call->model = NULL;
    return handle;
}

static napi_value text_model_create(napi_env env, napi_callback_info info)
{
    napi_value arguments[4];
    struct model *model = calloc(1, sizeof *model);
    text_call *call;

    if (model == NULL || !get_arguments(env, info, 4, arguments)) {
        free(model);
        return js_throw(env, "create(path, options, names, numbers)");
    }
    (void)pthread_mutex_init(&model->lock, NULL);
    (void)pthread_mutex_init(&model->drop_lock, NULL);
    call = new_call(model, NULL); /* its reference is the only one */
    if (call == NULL) {
        free(model);
        return js_throw(env, "no memory for a model");
    }
    call->strings[0] = js_get_text(env, arguments[0], NULL);
    for (uint32_t i = 1; i < STRINGS; i++)
        call->strings[i] = js_get_text(env, js_element(env, arguments[2], i - 1), NULL);
    read_numbers(env, arguments[3], call->numbers);
    call->status = call->strings[0] == NULL ? inlay_fail(&call->diag, INLAY_INVALID_ARGUMENT, "a model must be a path")
                                            : js_read_options(env, arguments[1], &call->options, &call->diag);
    return start(env, call, run_create, give_model);
}

/* Texts. */

static inlay_status run_begin(text_call *call)
{
    inlay_text_request request = INLAY_TEXT_REQUEST_INIT;
    const double *numbers = call->numbers;
    inlay_status status;

    request.prompt = call->strings[0];
    request.tokens = call->tokens;
    request.token_count = call->token_count;
    request.schema = call->strings[1];
    request.grammar = call->strings[2];
    request.adapter = call->strings[3];
    request.stops = (const char *const *)call->list;
    request.stop_count = call->list_count;
    request.seed = (uint64_t)numbers[0];
    request.max_tokens = (uint32_t)numbers[1];
    request.flags = (uint32_t)numbers[2];
    request.top_k = (int32_t)numbers[3];
    request.temperature = (float)numbers[4];
    request.top_p = (float)numbers[5];
    request.min_p = (float)numbers[6];
    request.repetition_penalty = (float)numbers[7];
    request.presence_penalty = (float)numbers[8];
    request.frequency_penalty = (float)numbers[9];
    request.typical_p = (float)numbers[10];
    request.no_repeat_ngram_size = (uint32_t)numbers[11];
    request.min_tokens = (uint32_t)numbers[12];
    call->text = calloc(1, sizeof *call->text);
    if (call->text == NULL)
        return inlay_fail(&call->diag, INLAY_OUT_OF_MEMORY, "no memory for a text");
    status = inlay_text_create(call->model->model, &request, &call->text->text, &call->diag);
    if (status == INLAY_OK) {
        call->text->references = 1;
        call->text->model = call->model;
        (void)__atomic_add_fetch(&call->model->references, 1, __ATOMIC_RELAXED);
    } else {
        free(call->text);
        call->text = NULL;
    }
    return status;
}

static napi_value give_text(napi_env env, text_call *call)
{
    napi_value handle = give_handle(env, call->text, finalize_text, &text_tag);

    if (handle != NULL)
        call->text = NULL;
    return handle;
}

static napi_value text_begin(napi_env env, napi_callback_info info)
{
    napi_value arguments[5];
    text_call *call =
        get_arguments(env, info, 5, arguments) ? new_call(handle_of(env, arguments[0], &model_tag), NULL) : NULL;
    uint32_t count;

    if (call == NULL)
        return js_throw(env, "begin(model, texts, tokens, stops, numbers)");
    for (uint32_t i = 0; i < STRINGS; i++)
        call->strings[i] = js_get_text(env, js_element(env, arguments[1], i), NULL);
    read_tokens(env, arguments[2], call);
    count = js_length(env, arguments[3]);
    call->list = calloc((size_t)count + 1, sizeof *call->list);
    for (uint32_t i = 0; call->list != NULL && i < count; i++)
        call->list[call->list_count++] = js_get_text(env, js_element(env, arguments[3], i), NULL);
    if (call->list == NULL)
        call->status = inlay_fail(&call->diag, INLAY_OUT_OF_MEMORY, "no memory for the stop texts");
    read_numbers(env, arguments[4], call->numbers);
    return start(env, call, run_begin, give_text);
}

/* Runs the model until there is a piece, or the text has ended. */
static inlay_status run_next(text_call *call)
{
    inlay_text *text = call->text->text;
    inlay_status status;

    do {
        const char *piece;

        call->info.struct_size = sizeof call->info;
        (void)inlay_text_describe(text, &call->info);
        status = inlay_text_take(text, &piece, &call->out_bytes, &call->diag);
        if (status != INLAY_OK)
            return status;
        if (call->out_bytes > 0) {
            call->out = malloc(call->out_bytes);
            if (call->out == NULL)
                return inlay_fail(&call->diag, INLAY_OUT_OF_MEMORY, "no memory for the text");
            memcpy(call->out, piece, call->out_bytes);
            return INLAY_OK;
        }
        if (call->info.state == INLAY_TEXT_RUNS)
            (void)inlay_text_model_step(call->model->model);
    } while (call->info.state == INLAY_TEXT_RUNS);
    return INLAY_OK;
}

static napi_value give_list(napi_env env, const double *numbers, uint32_t count)
{
    napi_value list;

    if (napi_create_array(env, &list) != napi_ok)
        return NULL;
    for (uint32_t i = 0; i < count; i++)
        (void)napi_set_element(env, list, i, js_number(env, numbers[i]));
    return list;
}

static napi_value give_piece(napi_env env, text_call *call)
{
    const inlay_text_info *info = &call->info;
    const double end[] = { info->state, (double)info->prompt_tokens, (double)info->generated_tokens,
                           (double)info->reused_tokens };

    return call->out != NULL ? js_text(env, call->out, call->out_bytes) : give_list(env, end, 4);
}

static napi_value text_next(napi_env env, napi_callback_info info)
{
    napi_value arguments[1];
    struct text *text = get_arguments(env, info, 1, arguments) ? handle_of(env, arguments[0], &text_tag) : NULL;
    text_call *call = text != NULL ? new_call(text->model, text) : NULL;

    return call != NULL ? start(env, call, run_next, give_piece) : js_throw(env, "next(text)");
}

static napi_value text_stop(napi_env env, napi_callback_info info)
{
    napi_value arguments[1];
    struct text *text = get_arguments(env, info, 1, arguments) ? handle_of(env, arguments[0], &text_tag) : NULL;

    if (text == NULL)
        return js_throw(env, "stop(text)");
    inlay_text_stop(text->text);
    return NULL;
}

/* Other functions of models. */

/* Makes call->out of a text whose size [bytes] is known. */
static inlay_status make_room(text_call *call, inlay_status status, size_t bytes)
{
    if (status != INLAY_OK)
        return status;
    call->out = malloc(bytes);
    return call->out != NULL ? INLAY_OK
                             : inlay_fail(&call->diag, INLAY_OUT_OF_MEMORY, "no memory for a text of %zu bytes", bytes);
}

static napi_value give_string(napi_env env, text_call *call)
{
    return js_text(env, call->out, call->out_bytes - 1);
}

static inlay_status run_chat(text_call *call)
{
    const inlay_text_chat chat = {
        .struct_size = sizeof chat, .json = call->strings[0], .tools = call->strings[1], .variables = call->strings[2]
    };
    inlay_text_model *model = call->model->model;
    inlay_status status = inlay_text_model_chat(model, &chat, NULL, 0, &call->out_bytes, &call->diag);

    status = make_room(call, status, call->out_bytes);
    return status == INLAY_OK
               ? inlay_text_model_chat(model, &chat, call->out, call->out_bytes, &call->out_bytes, &call->diag)
               : status;
}

static inlay_status run_detokenize(text_call *call)
{
    const inlay_text_model *model = call->model->model;
    inlay_status status =
        inlay_text_model_detokenize(model, call->tokens, call->token_count, NULL, 0, &call->out_bytes, &call->diag);

    status = make_room(call, status, call->out_bytes);
    return status == INLAY_OK ? inlay_text_model_detokenize(model, call->tokens, call->token_count, call->out,
                                                            call->out_bytes, &call->out_bytes, &call->diag)
                              : status;
}

static inlay_status run_tokenize(text_call *call)
{
    const char *text = call->strings[0];
    const uint32_t flags = call->numbers[0] > 0 ? INLAY_TEXT_RENDERED : 0;
    const inlay_text_model *model = call->model->model;
    const size_t bytes = strlen(text);
    inlay_status status =
        inlay_text_model_tokenize(model, text, bytes, flags, NULL, 0, &call->token_count, &call->diag);

    if (status != INLAY_OK || call->token_count == 0)
        return status;
    call->tokens = malloc(call->token_count * sizeof *call->tokens);
    if (call->tokens == NULL)
        return inlay_fail(&call->diag, INLAY_OUT_OF_MEMORY, "no memory for the tokens");
    return inlay_text_model_tokenize(model, text, bytes, flags, call->tokens, call->token_count, &call->token_count,
                                     &call->diag);
}

static napi_value give_tokens(napi_env env, text_call *call)
{
    napi_value list;

    if (napi_create_array(env, &list) != napi_ok)
        return NULL;
    for (size_t i = 0; i < call->token_count; i++)
        (void)napi_set_element(env, list, (uint32_t)i, js_number(env, (double)call->tokens[i]));
    return list;
}

static inlay_status run_embed(text_call *call)
{
    const char *text = call->strings[0];
    const float *vector;
    size_t size = 0;
    inlay_status status = inlay_text_model_embed(call->model->model, text, strlen(text), &vector, &size, &call->diag);

    call->out_bytes = size * sizeof *vector;
    status = make_room(call, status, call->out_bytes);
    if (status == INLAY_OK)
        memcpy(call->out, vector, call->out_bytes);
    return status;
}

static napi_value give_vector(napi_env env, text_call *call)
{
    napi_value buffer, vector;
    void *data;

    if (napi_create_arraybuffer(env, call->out_bytes, &data, &buffer) != napi_ok)
        return NULL;
    memcpy(data, call->out, call->out_bytes);
    return napi_create_typedarray(env, napi_float32_array, call->out_bytes / sizeof(float), buffer, 0, &vector) ==
                   napi_ok
               ? vector
               : NULL;
}

/* A call whose other arguments are `texts` texts. Only the first text is required. */
static text_call *call_with_texts(napi_env env, napi_callback_info info, uint32_t texts, napi_value arguments[STRINGS])
{
    text_call *call = get_arguments(env, info, texts + 1, arguments)
                          ? new_call(handle_of(env, arguments[0], &model_tag), NULL)
                          : NULL;

    for (uint32_t i = 0; call != NULL && i < texts; i++)
        call->strings[i] = js_get_text(env, arguments[i + 1], NULL);
    if (call != NULL && call->strings[0] == NULL)
        call->status = inlay_fail(&call->diag, INLAY_INVALID_ARGUMENT, "not a text");
    return call;
}

static napi_value text_chat(napi_env env, napi_callback_info info)
{
    napi_value arguments[STRINGS];
    text_call *call = call_with_texts(env, info, 3, arguments);

    return call != NULL ? start(env, call, run_chat, give_string)
                        : js_throw(env, "chat(model, messages, tools, variables)");
}

static napi_value text_tokenize(napi_env env, napi_callback_info info)
{
    napi_value arguments[STRINGS];
    text_call *call = call_with_texts(env, info, 2, arguments);

    if (call == NULL)
        return js_throw(env, "tokenize(model, text, rendered)");
    call->numbers[0] = call->strings[1] != NULL;
    return start(env, call, run_tokenize, give_tokens);
}

static napi_value text_detokenize(napi_env env, napi_callback_info info)
{
    napi_value arguments[2];
    text_call *call =
        get_arguments(env, info, 2, arguments) ? new_call(handle_of(env, arguments[0], &model_tag), NULL) : NULL;

    if (call == NULL)
        return js_throw(env, "detokenize(model, tokens)");
    read_tokens(env, arguments[1], call);
    return start(env, call, run_detokenize, give_string);
}

static napi_value text_embed(napi_env env, napi_callback_info info)
{
    napi_value arguments[STRINGS];
    text_call *call = call_with_texts(env, info, 1, arguments);

    return call != NULL ? start(env, call, run_embed, give_vector) : js_throw(env, "embed(model, text)");
}

/* Facts that do not change. */
static napi_value text_describe(napi_env env, napi_callback_info info)
{
    napi_value arguments[1], list;
    struct model *model = get_arguments(env, info, 1, arguments) ? handle_of(env, arguments[0], &model_tag) : NULL;
    inlay_text_model_info about = { .struct_size = sizeof about };
    double facts[4];

    if (model == NULL || inlay_text_model_describe(model->model, &about) != INLAY_OK)
        return js_throw(env, "describe(model)");
    facts[0] = (double)about.vocabulary;
    facts[1] = (double)about.context;
    facts[2] = about.embeds;
    facts[3] = about.has_template;
    list = give_list(env, facts, 4);
    for (uint32_t i = 0; list != NULL && i < about.end_count; i++)
        (void)napi_set_element(env, list, 4 + i, js_number(env, (double)about.ends[i]));
    return list;
}

static napi_value init(napi_env env, napi_value exports)
{
    static const struct {
        const char *name;
        napi_callback fn;
    } functions[] = { { "create", text_model_create },
                      { "begin", text_begin },
                      { "next", text_next },
                      { "stop", text_stop },
                      { "chat", text_chat },
                      { "tokenize", text_tokenize },
                      { "detokenize", text_detokenize },
                      { "embed", text_embed },
                      { "describe", text_describe } };

    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        napi_value fn;

        if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].fn, NULL, &fn) == napi_ok)
            js_put(env, exports, functions[i].name, fn);
    }
    return exports;
}

NAPI_MODULE(inlay_text, init)
