#include "texts/model/text_model.h"
#include "base/memory.h"
#include "base/path.h"
#include "texts/chat/tool_form.h"
#include "texts/draft/onnx_file.h"
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
static const char *find_property(const text_source *source, const char *name)
{
    const char *key, *value;

    for (uint32_t i = 0; inlay_session_metadata(source->session, i, &key, &value) == INLAY_OK; i++)
        if (strcmp(key, name) == 0)
            return value;
    return NULL;
}

/* The JSON of a file within the model or in its folder; NULL: neither, or it is damaged. */
static json_t *load_json(const text_source *source, const char *name)
{
    const char *inner = find_property(source, name);
    char file[PATH_MAX];

    if (inner != NULL)
        return json_loads(inner, 0, NULL);
    return find_file(source->path, name, file) ? json_load_file(file, 0, NULL) : NULL;
}

/* Adds a token that ends texts, unless it is known. false: out of memory. */
static bool add_end(text_model *model, int64_t token)
{
    if (text_model_is_end(model, token))
        return true;
    if (!LIST_GROW(model->ends, model->end_count))
        return false;
    model->ends[model->end_count++] = token;
    return true;
}

/* eos_token_id of generation_config.json or config.json: a number or several. false: out of memory. */
static bool find_ends(text_model *text, const text_source *source)
{
    static const char *const names[] = { "generation_config.json", "config.json" };
    bool good = true;

    for (int i = 0; i < 2 && text->end_count == 0; i++) {
        json_t *root = load_json(source, names[i]);
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

/* generation_config.json. */
static inlay_status load_generation(const text_source *source, json_t **out_root, inlay_diag *diag)
{
    static const char name[] = "generation_config.json";
    char file[PATH_MAX];

    return generation_parse(find_property(source, name), find_file(source->path, name, file) ? file : NULL, out_root,
                            diag);
}

/* The text of the token that templates print for an image, by config.json: that before an image, if there is one, or
 * that of its rows. false: out of memory. */
static bool find_image_mark(text_model *text, const text_source *source)
{
    static const char *const names[] = { "boi_token_index", "image_token_id", "image_token_index" };
    json_t *root = load_json(source, "config.json");
    const json_t *token = NULL;
    size_t bytes = 0;
    bool special, good = true;
    const char *mark;

    for (size_t i = 0; i < sizeof names / sizeof *names && !json_is_integer(token); i++)
        token = json_object_get(root, names[i]);
    mark =
        json_is_integer(token) ? tokenizer_bytes(text->tokenizer, json_integer_value(token), &bytes, &special) : NULL;
    if (mark != NULL && bytes > 0) {
        text->image_mark = strndup(mark, bytes);
        good = text->image_mark != NULL;
    }
    json_decref(root);
    return good;
}

/* The context of config.json, by the names that the families of models use, or that of the model's tables of positions
 * or of the source, which may be shorter. */
static void find_context(text_model *text, const text_source *source)
{
    static const char *const names[] = { "max_position_embeddings", "n_positions", "n_ctx" };
    json_t *root = load_json(source, "config.json");
    uint64_t positions;

    for (size_t i = 0; i < sizeof names / sizeof *names && text->decode.context == 0; i++) {
        json_int_t tokens = json_integer_value(json_object_get(root, names[i]));

        if (tokens == 0) /* of a model that reads images, too */
            tokens = json_integer_value(json_object_get(json_object_get(root, "text_config"), names[i]));
        text->decode.context = tokens > 0 ? (size_t)tokens : 0;
    }
    json_decref(root);
    positions = text->decode.logits != INLAY_NONE ? onnx_file_positions(source->path) : 0;
    if (positions > 0 && (text->decode.context == 0 || positions < text->decode.context))
        text->decode.context = (size_t)positions;
    if (source->context > 0 && (text->decode.context == 0 || source->context < text->decode.context))
        text->decode.context = source->context;
}

/* Reads the pooling, which computes the embedding of a text from those of its tokens, from the files of
 * sentence-transformers: modules.json lists the steps, 1_Pooling/config.json has the kind of pooling. Without them the
 * embedding is the normalized mean. */
static void find_pooling(text_model *model, const text_source *source)
{
    static const struct {
        const char *name;
        text_pooling pooling;
    } forms[] = { { "pooling_mode_cls_token", POOL_FIRST },
                  { "pooling_mode_lasttoken", POOL_LAST },
                  { "pooling_mode_max_tokens", POOL_MAX } };
    json_t *pooling = load_json(source, "1_Pooling/config.json");
    json_t *modules = load_json(source, "modules.json");

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

/* ChatML: for files without a template whose chats may have any form, such as GGUF. */
static const char chat_ml[] = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
                              "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

/* PaliGemma has no template: images come first, then the token that begins texts, and the text ends with a newline. */
static const char paligemma[] =
    "{% for m in messages %}{% for p in m.content %}{% if p.type == 'image' %}<image>{% endif %}{% endfor %}"
    "{% endfor %}{{ bos_token }}{% for m in messages %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}"
    "{% endif %}{% endfor %}{{ '\n' }}{% endfor %}";

static bool is_paligemma(const text_source *source)
{
    json_t *root = load_json(source, "config.json");
    const char *type = json_string_value(json_object_get(root, "model_type"));
    const bool is = type != NULL && strcmp(type, "paligemma") == 0;

    json_decref(root);
    return is;
}

/* Reads the chat templates and special tokens of tokenizer_config.json, if it exists. The file chat_template.jinja
 * replaces the default template. false: out of memory. */
static bool read_chat(text_model *text, const text_source *source)
{
    char file[PATH_MAX];
    json_t *root = load_json(source, "tokenizer_config.json");
    const char *form = find_template(root, "default"), *tools = find_template(root, "tool_use"),
               *pair = find_template(root, "rerank");
    static const char *const fills[] = { "prefix_token", "suffix_token", "middle_token", "eot_token" };
    int64_t end;
    bool good = true;

    text->begin = text_copy(json_object_get(root, "bos_token"));
    text->end = text_copy(json_object_get(root, "eos_token"));
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        text->fill[i] = text_copy(json_object_get(root, fills[i]));
        good = good && text->fill[i] != NULL;
    }
    text->chat_template = find_file(source->path, "chat_template.jinja", file) ? read_text(file) : NULL;
    if (text->chat_template == NULL && form == NULL && find_property(source, "tokenizer.json") != NULL) {
        form = chat_ml;
        text->assumes_chat_ml = true;
    }
    if (text->chat_template == NULL && form == NULL && is_paligemma(source))
        form = paligemma;
    if (text->chat_template == NULL && form != NULL)
        text->chat_template = strdup(form);
    text->tool_template = tools != NULL ? strdup(tools) : NULL;
    text->pair_template = pair != NULL ? strdup(pair) : NULL;
    good = good && (form == NULL || text->chat_template != NULL) && (tools == NULL || text->tool_template != NULL) &&
           (pair == NULL || text->pair_template != NULL);
    end = text->end != NULL && text->end[0] != '\0' ? tokenizer_id(text->tokenizer, text->end) : -1;
    json_decref(root);
    if (end >= 0 && !add_end(text, end))
        return false;
    return text->begin != NULL && text->end != NULL && good;
}

/* The inputs of option image_rows. */
static void find_image_rows(const inlay_session *session, decode_model *decode)
{
    inlay_io_info info = { .struct_size = sizeof info };

    decode->image_rows = inlay_session_find_input(session, "image_rows");
    decode->image_shifts = inlay_session_find_input(session, "image_shifts");
    decode->image_width = 0;
    if (decode->image_rows == INLAY_NONE)
        return;
    if (inlay_session_input(session, decode->image_rows, &info) == INLAY_OK && info.optional != 0 && info.rank == 2)
        decode->image_width = info.dims[1];
    else
        decode->image_rows = INLAY_NONE;
}

static void find_inputs(const text_source *source, text_model *text)
{
    decode_model *decode = &text->decode;
    inlay_io_info last = { .struct_size = sizeof last };

    decode->ids = inlay_session_find_input(source->session, "input_ids");
    decode->mask = inlay_session_find_input(source->session, "attention_mask");
    decode->positions = inlay_session_find_input(source->session, "position_ids");
    text->types = inlay_session_find_input(source->session, "token_type_ids");
    decode->adapter = inlay_session_find_input(source->session, "adapter");
    find_image_rows(source->session, decode);
    decode->last_logits = inlay_session_find_input(source->session, "last_logits");
    /* That of option last_logits is the last one; otherwise it is one of the file. */
    if (decode->last_logits != INLAY_NONE &&
        (decode->last_logits + 1 != inlay_session_input_count(source->session) ||
         inlay_session_input(source->session, decode->last_logits, &last) != INLAY_OK || last.optional == 0))
        decode->last_logits = INLAY_NONE;
}

static bool is_state(const inlay_session *session, uint32_t input)
{
    inlay_state_info info = { .struct_size = sizeof info };

    for (uint32_t i = 0; inlay_session_state(session, i, &info) == INLAY_OK; i++)
        if (info.input == input)
            return true;
    return false;
}

/* Finds the first input that is neither tokens nor a state, nor follows from the number of tokens; false: there is
 * none. */
static bool find_unknown(const text_source *source, const text_model *text, inlay_io_info *out)
{
    *out = (inlay_io_info){ .struct_size = sizeof *out };
    for (uint32_t i = 0; inlay_session_input(source->session, i, out) == INLAY_OK; i++) {
        const bool known =
            i == text->decode.ids || i == text->decode.mask || i == text->decode.positions || i == text->types;

        if ((known && out->dtype != INLAY_INT64) || (!known && out->optional == 0 && !is_state(source->session, i)))
            return true;
    }
    return false;
}

bool text_model_lacks_tokenizer(const text_source *source)
{
    return source->session != NULL && find_property(source, "tokenizer.ggml.model") != NULL;
}

void text_model_explain(const text_source *source, char *out, size_t bytes)
{
    char path[PATH_MAX];
    const char *file = path_name(source->path), *kind;
    text_model text;
    inlay_io_info input;
    bool unknown;

    if (source->session == NULL) {
        (void)snprintf(out, bytes, "not a model for texts: it is an ensemble");
        return;
    }
    kind = find_property(source, "tokenizer.ggml.model");
    find_inputs(source, &text);
    unknown = text.decode.ids != INLAY_NONE && find_unknown(source, &text, &input);
    if (text.decode.ids == INLAY_NONE)
        (void)snprintf(out, bytes, "not a model for texts: %.100s has no input 'input_ids'", file);
    else if (unknown && strncmp(input.name, "encoder_", 8) == 0)
        (void)snprintf(
            out, bytes,
            "not a model for texts: input '%.60s' of %.60s comes from the encoder of a pair; run both models "
            "with v2/models/NAME/infer",
            input.name, file);
    else if (unknown && strcmp(input.name, "use_cache_branch") == 0)
        (void)snprintf(out, bytes,
                       "not a model for texts: %.60s is a merged decoder, whose input 'use_cache_branch' is not "
                       "supplied; use an export without this input",
                       file);
    else if (unknown)
        (void)snprintf(out, bytes, "not a model for texts: input '%.60s' of %.100s is not supplied", input.name, file);
    else if (text_model_lacks_tokenizer(source) && (strcmp(kind, "none") == 0 || strcmp(kind, "no_vocab") == 0))
        (void)snprintf(out, bytes, "not a model for texts: %.100s has no tokenizer (tokenizer.ggml.model is %s)", file,
                       kind);
    else if (text_model_lacks_tokenizer(source))
        (void)snprintf(out, bytes,
                       "not a model for texts: the tokenizer of %.60s is of the kind '%.60s', not gpt2, llama or bert",
                       file, kind);
    else if (find_property(source, "tokenizer.json") == NULL && !find_file(source->path, "tokenizer.json", path))
        (void)snprintf(out, bytes, "not a model for texts: no tokenizer.json in the folder of %.100s or above it",
                       file);
    else
        (void)snprintf(
            out, bytes,
            "not a model for texts: %.100s is not a decoder with states (past_key_values, present) and logits", file);
}

static void find_outputs(const text_source *source, text_model *text)
{
    static const char *const names[] = { "sentence_embedding", "last_hidden_state", "token_embeddings" };
    decode_model *decode = &text->decode;

    decode->has_states = inlay_session_state_count(source->session) > 0;
    decode->logits = decode->has_states ? inlay_session_find_output(source->session, "logits") : INLAY_NONE;
    text->vectors = text->scores = INLAY_NONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !decode->has_states && text->vectors == INLAY_NONE; i++)
        text->vectors = inlay_session_find_output(source->session, names[i]);
    if (text->vectors == INLAY_NONE && !decode->has_states) {
        const uint32_t logits = inlay_session_find_output(source->session, "logits");
        inlay_io_info info = { .struct_size = sizeof info };

        if (logits != INLAY_NONE && inlay_session_output(source->session, logits, &info) == INLAY_OK &&
            info.rank == 2 && info.dims[1] == 1)
            text->scores = logits;
    }
}

/* A text that fits the context has at most as many bytes as the context's tokens can have. */
static void find_most_bytes(text_model *text)
{
    const size_t most = (size_t)8 << 20;
    size_t longest = 1;

    for (size_t i = 0; i < tokenizer_count(text->tokenizer); i++) {
        size_t bytes = 0;
        bool special;

        if (tokenizer_bytes(text->tokenizer, (int64_t)i, &bytes, &special) != NULL && bytes > longest)
            longest = bytes;
    }
    text->most_bytes =
        text->decode.context > 0 && text->decode.context < most / longest ? text->decode.context * longest : most;
}

/* Opens the tokenizer of the source, or else the one within the model or beside it. INLAY_NOT_FOUND: there is none. */
static inlay_status open_tokenizer(const text_source *source, struct tokenizer **out, inlay_diag *diag)
{
    const char *inner = source->tokenizer == NULL ? find_property(source, "tokenizer.json") : NULL;
    char path[PATH_MAX], error[sizeof diag->text];

    if (inner != NULL) {
        *out = tokenizer_open_bytes(inner, strlen(inner), source->path, error, sizeof error);
    } else {
        if (source->tokenizer == NULL && !find_file(source->path, "tokenizer.json", path))
            return INLAY_NOT_FOUND;
        *out = tokenizer_open(source->tokenizer != NULL ? source->tokenizer : path, error, sizeof error);
    }
    if (*out != NULL)
        return INLAY_OK;
    return inlay_fail(diag, is_shortage(error) ? INLAY_IO_ERROR : INLAY_INVALID_ARGUMENT, "%s", error);
}

inlay_status text_model_open(const text_source *source, text_model **out_text, inlay_diag *diag)
{
    text_model *text = calloc(1, sizeof *text);
    json_t *generation = NULL;
    inlay_io_info unknown;
    inlay_status status;

    *out_text = NULL;
    if (text == NULL)
        return no_memory(diag, "for the tokenizer");
    text->tool_refusal = (inlay_diag)INLAY_DIAG_INIT;
    text->decode.session = source->session;
    find_inputs(source, text);
    find_outputs(source, text);
    status = text->decode.ids == INLAY_NONE || find_unknown(source, text, &unknown) ||
                     (text->decode.logits == INLAY_NONE && text->vectors == INLAY_NONE && text->scores == INLAY_NONE)
                 ? INLAY_NOT_FOUND
                 : open_tokenizer(source, &text->tokenizer, diag);
    if (status == INLAY_NOT_FOUND) {
        text_model_close(text);
        return INLAY_OK;
    }
    INLAY_TRY(status);
    if (!find_ends(text, source) || !read_chat(text, source) ||
        (text->decode.image_rows != INLAY_NONE && !find_image_mark(text, source))) {
        status = no_memory(diag, "for the tokenizer");
        goto done;
    }
    INLAY_TRY(load_generation(source, &generation, diag));
    INLAY_TRY(generation_read(generation, GENERATION_TEXT, text->ends, text->end_count, &text->generation, diag));
    find_context(text, source);
    find_pooling(text, source);
    find_most_bytes(text);
    *out_text = text;
    text = NULL;
done:
    json_decref(generation);
    text_model_close(text);
    return status;
}

inlay_status text_model_find_rows(text_model *text, const uint32_t *cancel, inlay_diag *diag)
{
    inlay_run_options options = INLAY_RUN_OPTIONS_INIT;

    options.cancel = cancel;
    text->decode.rows.struct_size = sizeof text->decode.rows;
    return inlay_session_rows(text->decode.session, &options, &text->decode.rows, diag);
}

bool text_model_is_likely(const char *path)
{
    const size_t bytes = strlen(path);
    char file[PATH_MAX];

    return (bytes > 5 && strcmp(path + bytes - 5, ".gguf") == 0) || find_file(path, "tokenizer.json", file);
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
    free(model->characters);
    tokenizer_close(model->tokenizer);
    template_close(model->chat_tree);
    template_close(model->tool_tree);
    free(model->chat_template);
    free(model->image_mark);
    free(model->tool_template);
    free(model->pair_template);
    free(model->tool_form);
    free(model->ends);
    generation_deinit(&model->generation);
    free(model->begin);
    free(model->end);
    for (size_t i = 0; i < sizeof model->fill / sizeof *model->fill; i++)
        free(model->fill[i]);
    free(model);
}

bool text_model_is_end(const text_model *model, int64_t token)
{
    for (uint32_t i = 0; i < model->end_count; i++)
        if (model->ends[i] == token)
            return true;
    return false;
}
