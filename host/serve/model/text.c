#include "serve/model/text.h"
#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The path of `name` in the model's folder or the one above; false: neither has it. */
static bool find_file(const char *path, const char *name, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    int folder = slash == NULL ? 0 : (int)(slash - path) + 1;

    for (int up = 0; up < 2; up++) {
        (void)snprintf(out, PATH_MAX, "%.*s%s%s", folder, path, up == 1 ? "../" : "", name);
        if (access(out, R_OK) == 0)
            return true;
    }
    return false;
}

/* The model's property of that name; NULL: none. Models that were loaded from GGUF files have such files within. */
static const char *find_property(const struct model *model, const char *name)
{
    const char *key, *value;

    for (uint32_t i = 0; inlay_session_metadata(model->session, i, &key, &value) == INLAY_OK; i++)
        if (strcmp(key, name) == 0)
            return value;
    return NULL;
}

/* The JSON of a file within the model or beside it; NULL: neither, or it is damaged. */
static json_t *load_json(const struct model *model, const char *name)
{
    const char *inner = find_property(model, name);
    char file[PATH_MAX];

    if (inner != NULL)
        return json_loads(inner, 0, NULL);
    return find_file(model->file.path, name, file) ? json_load_file(file, 0, NULL) : NULL;
}

/* false: out of memory. */
static bool add_end(text_model *model, int64_t token)
{
    if (!LIST_GROW(model->ends, model->end_count))
        return false;
    model->ends[model->end_count++] = token;
    return true;
}

/* eos_token_id of generation_config.json or config.json: a number or several. false: out of memory. */
static bool find_ends(text_model *text, const struct model *model)
{
    static const char *const names[] = { "generation_config.json", "config.json" };
    bool good = true;

    for (int i = 0; i < 2 && text->end_count == 0; i++) {
        json_t *root = load_json(model, names[i]);
        const json_t *ends = json_object_get(root, "eos_token_id");
        const size_t count = json_is_array(ends) ? json_array_size(ends) : 1;

        for (size_t k = 0; good && k < count; k++) {
            const json_t *id = json_is_array(ends) ? json_array_get(ends, k) : ends;

            good = !json_is_integer(id) || add_end(text, json_integer_value(id));
        }
        json_decref(root);
    }
    return good;
}

/* Reads a number of generation_config.json; a missing one leaves *out as it is. */
static inlay_status read_default(const json_t *root, const char *name, double least, double most, float *out,
                                 inlay_diag *diag)
{
    const json_t *value = json_object_get(root, name);

    if (value == NULL || json_is_null(value))
        return INLAY_OK;
    if (!json_is_number(value) || !(json_number_value(value) >= least && json_number_value(value) <= most))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "generation_config.json: %s is not a number from %g to %g",
                          name, least, most);
    *out = (float)json_number_value(value);
    return INLAY_OK;
}

static inlay_status find_sampler(text_model *text, const struct model *model, inlay_diag *diag)
{
    json_t *root = load_json(model, "generation_config.json");
    float top_k = 0;
    inlay_status status;

    text->sampler = (struct sampler)SAMPLER_INIT;
    text->sampler.temperature = 1;
    INLAY_TRY(read_default(root, "temperature", 0, 2, &text->sampler.temperature, diag));
    INLAY_TRY(read_default(root, "top_p", 0, 1, &text->sampler.top_p, diag));
    INLAY_TRY(read_default(root, "min_p", 0, 1, &text->sampler.min_p, diag));
    INLAY_TRY(read_default(root, "top_k", -1, 1 << 24, &top_k, diag));
    INLAY_TRY(read_default(root, "repetition_penalty", 0.01, 100, &text->sampler.penalty, diag));
    text->sampler.top_k = top_k > 0 ? (uint32_t)top_k : 0;
    if (json_is_false(json_object_get(root, "do_sample")))
        text->sampler.temperature = 0;
done:
    json_decref(root);
    return status;
}

/* The context of config.json, by the names that the families of models use. */
static void find_context(text_model *text, const struct model *model)
{
    static const char *const names[] = { "max_position_embeddings", "n_positions", "n_ctx" };
    json_t *root = load_json(model, "config.json");

    for (size_t i = 0; i < sizeof names / sizeof *names && text->decode.context == 0; i++) {
        json_int_t tokens = json_integer_value(json_object_get(root, names[i]));

        text->decode.context = tokens > 0 ? (size_t)tokens : 0;
    }
    json_decref(root);
}

/* Reads the pooling, which computes the embedding of a text from those of its tokens, from the files of
 * sentence-transformers: modules.json lists the steps, 1_Pooling/config.json has the kind of pooling. Without them the
 * embedding is the normalized mean. */
static void find_pooling(text_model *model, const char *path)
{
    static const struct {
        const char *name;
        text_pooling pooling;
    } forms[] = { { "pooling_mode_cls_token", POOL_FIRST },
                  { "pooling_mode_lasttoken", POOL_LAST },
                  { "pooling_mode_max_tokens", POOL_MAX } };
    char file[PATH_MAX];
    json_t *pooling = find_file(path, "1_Pooling/config.json", file) ? json_load_file(file, 0, NULL) : NULL;
    json_t *modules = find_file(path, "modules.json", file) ? json_load_file(file, 0, NULL) : NULL;

    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (json_is_true(json_object_get(pooling, forms[i].name)))
            model->pooling = forms[i].pooling;
    model->is_normalized = !json_is_array(modules);
    for (size_t i = 0; i < json_array_size(modules); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(modules, i), "type"));

        model->is_normalized |= type != NULL && strstr(type, "Normalize") != NULL;
    }
    json_decref(pooling);
    json_decref(modules);
}

/* A text, or the "content" of an object. */
static char *text_copy(const json_t *value)
{
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);

    return strdup(text != NULL ? text : "");
}

/* chat_template: a text, or an array of named templates. */
static const char *find_template(const json_t *root, const char *wanted)
{
    json_t *form = json_object_get(root, "chat_template");

    for (size_t i = 0; i < json_array_size(form); i++) {
        const json_t *entry = json_array_get(form, i);
        const char *name = json_string_value(json_object_get(entry, "name"));

        if (name != NULL && strcmp(name, wanted) == 0)
            return json_string_value(json_object_get(entry, "template"));
    }
    return strcmp(wanted, "default") == 0 ? json_string_value(form) : NULL;
}

/* The text of a small file; NULL: there is none, or memory ran out. */
static char *read_text(const char *path)
{
    enum { MOST = 1 << 20 };
    FILE *file = fopen(path, "rb");
    char *text = file != NULL ? calloc(1, MOST) : NULL;

    if (text != NULL && fread(text, 1, MOST - 1, file) == 0) {
        free(text);
        text = NULL;
    }
    if (file != NULL)
        (void)fclose(file);
    return text;
}

/* Reads the chat templates and special tokens of tokenizer_config.json, if it exists. The file chat_template.jinja
 * replaces the default template. false: out of memory. */
static bool read_chat(text_model *text, const struct model *model)
{
    char file[PATH_MAX];
    json_t *root = load_json(model, "tokenizer_config.json");
    const char *form = find_template(root, "default"), *tools = find_template(root, "tool_use");
    int64_t end;
    bool good;

    text->begin = text_copy(json_object_get(root, "bos_token"));
    text->end = text_copy(json_object_get(root, "eos_token"));
    text->chat_template = find_file(model->file.path, "chat_template.jinja", file) ? read_text(file) : NULL;
    if (text->chat_template == NULL && form != NULL)
        text->chat_template = strdup(form);
    text->tool_template = tools != NULL ? strdup(tools) : NULL;
    good = (form == NULL || text->chat_template != NULL) && (tools == NULL || text->tool_template != NULL);
    end = text->end != NULL && text->end[0] != '\0' ? tokenizer_id(text->tokenizer, text->end) : -1;
    json_decref(root);
    if (end >= 0 && !text_model_is_end(text, end) && !add_end(text, end))
        return false;
    return text->begin != NULL && text->end != NULL && good;
}

static void find_inputs(const struct model *model, text_model *text)
{
    text->decode.ids = inlay_session_find_input(model->session, "input_ids");
    text->decode.mask = inlay_session_find_input(model->session, "attention_mask");
    text->decode.positions = inlay_session_find_input(model->session, "position_ids");
    text->types = inlay_session_find_input(model->session, "token_type_ids");
    text->decode.adapter = inlay_session_find_input(model->session, "adapter");
    text->decode.last_logits = inlay_session_find_input(model->session, "last_logits");
    if (text->decode.last_logits != INLAY_NONE && text->decode.last_logits < model->input_count) /* the file has it */
        text->decode.last_logits = INLAY_NONE;
}

/* The first input that is neither tokens nor a state, nor follows from the number of tokens; NULL: there is none. */
static const inlay_io_info *find_unknown(const struct model *model, const text_model *text)
{
    for (uint32_t i = 0; i < model->input_count; i++) {
        bool known = i == text->decode.ids || i == text->decode.mask || i == text->decode.positions || i == text->types;

        if ((known && model->inputs[i].dtype != INLAY_INT64) ||
            (!known && !model->states.inputs[i] && model->inputs[i].optional == 0))
            return &model->inputs[i];
    }
    return NULL;
}

static bool takes_tokens(const struct model *model, const text_model *text)
{
    return text->decode.ids != INLAY_NONE && find_unknown(model, text) == NULL;
}

void text_model_explain(const struct model *model, char *out, size_t bytes)
{
    char path[PATH_MAX];
    const char *file = model->file.path, *slash = strrchr(file, '/');
    text_model text;
    const inlay_io_info *input;

    file = slash != NULL ? slash + 1 : file;
    if (model->session == NULL) {
        (void)snprintf(out, bytes, "not a model for texts: it is an ensemble");
        return;
    }
    find_inputs(model, &text);
    input = text.decode.ids != INLAY_NONE ? find_unknown(model, &text) : NULL;
    if (text.decode.ids == INLAY_NONE)
        (void)snprintf(out, bytes, "not a model for texts: %.100s has no input 'input_ids'", file);
    else if (input != NULL && strncmp(input->name, "encoder_", 8) == 0)
        (void)snprintf(
            out, bytes,
            "not a model for texts: input '%.60s' of %.60s comes from the encoder of a pair; run both models "
            "with v2/models/NAME/infer",
            input->name, file);
    else if (input != NULL && strcmp(input->name, "use_cache_branch") == 0)
        (void)snprintf(out, bytes,
                       "not a model for texts: %.60s is a merged decoder, whose input 'use_cache_branch' is not "
                       "supplied; use an export without this input",
                       file);
    else if (input != NULL)
        (void)snprintf(out, bytes, "not a model for texts: input '%.60s' of %.100s is not supplied", input->name, file);
    else if (find_property(model, "tokenizer.json") == NULL && !find_file(model->file.path, "tokenizer.json", path))
        (void)snprintf(out, bytes, "not a model for texts: no tokenizer.json in the folder of %.100s or above it",
                       file);
    else
        (void)snprintf(
            out, bytes,
            "not a model for texts: %.100s is not a decoder with states (past_key_values, present) and logits", file);
}

static void find_outputs(const struct model *model, text_model *text)
{
    static const char *const names[] = { "sentence_embedding", "last_hidden_state", "token_embeddings" };

    text->decode.logits =
        model->states.sequences != NULL ? inlay_session_find_output(model->session, "logits") : INLAY_NONE;
    text->vectors = INLAY_NONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && model->states.count == 0 && text->vectors == INLAY_NONE;
         i++)
        text->vectors = inlay_session_find_output(model->session, names[i]);
}

inlay_status text_model_open(const struct model *model, text_model **out_text, inlay_diag *diag)
{
    char path[PATH_MAX], error[512];
    const char *inner = find_property(model, "tokenizer.json");
    text_model *text;

    *out_text = NULL;
    if (inner == NULL && !find_file(model->file.path, "tokenizer.json", path))
        return INLAY_OK;
    text = calloc(1, sizeof *text);
    if (text == NULL)
        return no_memory(diag, "for the tokenizer");
    text->tool_refusal = (inlay_diag)INLAY_DIAG_INIT;
    find_inputs(model, text);
    find_outputs(model, text);
    if (!takes_tokens(model, text) || (text->decode.logits == INLAY_NONE && text->vectors == INLAY_NONE)) {
        text_model_close(text);
        return INLAY_OK;
    }
    text->tokenizer = inner != NULL ? tokenizer_open_bytes(inner, strlen(inner), model->file.path, error, sizeof error)
                                    : tokenizer_open(path, error, sizeof error);
    if (text->tokenizer == NULL) {
        text_model_close(text);
        return inlay_fail(diag, is_shortage(error) ? INLAY_IO_ERROR : INLAY_INVALID_ARGUMENT, "%s", error);
    }
    if (!find_ends(text, model) || !read_chat(text, model)) {
        text_model_close(text);
        return no_memory(diag, "for the tokenizer");
    }
    if (find_sampler(text, model, diag) != INLAY_OK) {
        text_model_close(text);
        return INLAY_INVALID_ARGUMENT;
    }
    find_context(text, model);
    find_pooling(text, model->file.path);
    *out_text = text;
    return INLAY_OK;
}

bool text_model_is_likely(const char *path)
{
    char file[PATH_MAX];

    return find_file(path, "tokenizer.json", file);
}

void text_model_close(text_model *model)
{
    if (model == NULL)
        return;
    if (model->decode.runner != NULL)
        model->decode.close_runner(model->decode.runner);
    if (model->decode.head != NULL)
        text_head_deinit(model->decode.head);
    free(model->decode.head);
    token_index_destroy(model->index);
    tokenizer_close(model->tokenizer);
    template_close(model->chat_tree);
    template_close(model->tool_tree);
    free(model->chat_template);
    free(model->tool_template);
    free(model->tool_form);
    free(model->ends);
    free(model->begin);
    free(model->end);
    free(model);
}

bool text_model_is_end(const text_model *model, int64_t token)
{
    for (uint32_t i = 0; i < model->end_count; i++)
        if (model->ends[i] == token)
            return true;
    return false;
}
