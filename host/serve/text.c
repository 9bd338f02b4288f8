#include "serve/text.h"
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

static void add_end(text_model *t, const json_t *id)
{
    if (json_is_integer(id) && t->end_count < TEXT_MAX_ENDS)
        t->ends[t->end_count++] = json_integer_value(id);
}

/* eos_token_id of generation_config.json or config.json: a number or several. */
static void find_ends(text_model *t, const char *path)
{
    static const char *const names[] = { "generation_config.json", "config.json" };
    char file[PATH_MAX];

    for (int i = 0; i < 2 && t->end_count == 0; i++) {
        json_t *root = find_file(path, names[i], file) ? json_load_file(file, 0, NULL) : NULL;
        const json_t *ends = json_object_get(root, "eos_token_id");

        add_end(t, ends);
        for (size_t k = 0; k < json_array_size(ends); k++)
            add_end(t, json_array_get(ends, k));
        json_decref(root);
    }
}

/* A text, or what an object has as its content. */
static char *text_copy(const json_t *value)
{
    const char *text = json_string_value(json_is_object(value) ? json_object_get(value, "content") : value);

    return strdup(text != NULL ? text : "");
}

/* chat_template: a text, or several with names, of which "default" is meant. */
static const char *find_form(const json_t *root)
{
    json_t *form = json_object_get(root, "chat_template");

    for (size_t i = 0; i < json_array_size(form); i++) {
        const json_t *one = json_array_get(form, i);
        const char *name = json_string_value(json_object_get(one, "name"));

        if (name != NULL && strcmp(name, "default") == 0)
            return json_string_value(json_object_get(one, "template"));
    }
    return json_string_value(form);
}

/* What tokenizer_config.json says of chats; none where it is not there. false: no memory. */
static bool read_chat(text_model *t, const char *path)
{
    char file[PATH_MAX];
    json_t *root = find_file(path, "tokenizer_config.json", file) ? json_load_file(file, 0, NULL) : NULL;
    const char *form = find_form(root);
    int64_t end;

    t->begin = text_copy(json_object_get(root, "bos_token"));
    t->end = text_copy(json_object_get(root, "eos_token"));
    t->chat_form = form != NULL ? strdup(form) : NULL;
    end = t->end != NULL && t->end[0] != '\0' ? tokenizer_id(t->tokenizer, t->end) : -1;
    if (end >= 0 && !text_is_end(t, end) && t->end_count < TEXT_MAX_ENDS)
        t->ends[t->end_count++] = end;
    json_decref(root);
    return t->begin != NULL && t->end != NULL && (form == NULL || t->chat_form != NULL);
}

/* Whether the inputs are tokens, and what follows from how many there are, besides states. */
static bool takes_tokens(const struct model *m, const text_model *t)
{
    for (uint32_t i = 0; i < m->input_count; i++) {
        bool known = i == t->ids || i == t->mask || i == t->positions || i == t->types;

        if ((known && m->inputs[i].dtype != INLAY_INT64) ||
            (!known && !m->state_inputs[i] && m->inputs[i].optional == 0))
            return false;
    }
    return t->ids != INLAY_NONE;
}

static void find_outputs(const struct model *m, text_model *t)
{
    static const char *const names[] = { "sentence_embedding", "last_hidden_state", "token_embeddings" };

    t->logits = m->sequences != NULL ? inlay_session_find_output(m->session, "logits") : INLAY_NONE;
    t->vectors = INLAY_NONE;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && m->state_count == 0 && t->vectors == INLAY_NONE; i++)
        t->vectors = inlay_session_find_output(m->session, names[i]);
}

inlay_status language_open(const struct model *m, text_model **out_text, inlay_diag *diag)
{
    char path[PATH_MAX], error[512];
    text_model *t;

    *out_text = NULL;
    if (!find_file(m->path, "tokenizer.json", path))
        return INLAY_OK;
    t = calloc(1, sizeof *t);
    if (t == NULL)
        return no_memory(diag, "for the tokenizer");
    t->ids = inlay_session_find_input(m->session, "input_ids");
    t->mask = inlay_session_find_input(m->session, "attention_mask");
    t->positions = inlay_session_find_input(m->session, "position_ids");
    t->types = inlay_session_find_input(m->session, "token_type_ids");
    find_outputs(m, t);
    if (!takes_tokens(m, t) || (t->logits == INLAY_NONE && t->vectors == INLAY_NONE)) {
        language_close(t);
        return INLAY_OK;
    }
    t->tokenizer = tokenizer_open(path, error, sizeof error);
    if (t->tokenizer == NULL) {
        language_close(t);
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s", error);
    }
    find_ends(t, m->path);
    if (!read_chat(t, m->path)) {
        language_close(t);
        return no_memory(diag, "for the tokenizer");
    }
    *out_text = t;
    return INLAY_OK;
}

void language_close(text_model *t)
{
    if (t == NULL)
        return;
    tokenizer_close(t->tokenizer);
    free(t->chat_form);
    free(t->begin);
    free(t->end);
    free(t);
}

bool text_is_end(const text_model *t, int64_t token)
{
    for (uint32_t i = 0; i < t->end_count; i++)
        if (t->ends[i] == token)
            return true;
    return false;
}
