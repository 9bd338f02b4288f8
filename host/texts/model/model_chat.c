/* What a model's chats, forms and samplers need, made for the first text that does. */
#include "base/memory.h"
#include "texts/chat/chat.h"
#include "texts/model/text_model.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const template_tree *text_model_template(text_model *model, bool tools, inlay_diag *diag)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const bool own = tools && model->tool_template != NULL;
    const char *form = own ? model->tool_template : model->chat_template;
    template_tree **tree = own ? &model->tool_tree : &model->chat_tree, *made;

    if (form == NULL)
        return NULL;
    (void)pthread_mutex_lock(&lock);
    if (*tree == NULL && chat_open(form, &made, diag) == INLAY_OK)
        *tree = made;
    made = *tree;
    (void)pthread_mutex_unlock(&lock);
    return made;
}

/* A member of the parts that are tried: a template that prints it prints the parts as data, and does not read them. */
#define UNREAD "inlay_unread"

/* Whether the template prints these texts for a message with this content, which is released. */
static bool prints(text_model *model, const template_tree *tree, json_t *content, const char *text, const char *other)
{
    json_t *messages = json_pack("[{s:s, s:o}]", "role", "user", "content", content);
    const struct chat chat = { .form = tree, .begin = model->begin, .end = model->end, .messages = messages };
    char *made = NULL;
    bool found = messages != NULL && chat_render(&chat, &made, NULL) == INLAY_OK && strstr(made, text) != NULL &&
                 (other == NULL || strstr(made, other) != NULL) && strstr(made, UNREAD) == NULL;

    free(made);
    json_decref(messages);
    return found;
}

text_content text_model_content(text_model *model)
{
    static const char probe[] = "inlay";
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const char *mark = model->image_mark;
    const template_tree *tree = text_model_template(model, false, NULL);
    json_t *parts;
    text_content content;

    (void)pthread_mutex_lock(&lock);
    if (model->content == CONTENT_UNKNOWN) {
        parts = json_pack("[{s:s, s:s, s:b}]", "type", "text", "text", probe, UNREAD, 1);
        if (mark != NULL)
            (void)json_array_insert_new(parts, 0, json_pack("{s:s}", "type", "image"));
        model->content = CONTENT_TEXTS;
        if (tree != NULL && (mark != NULL || !prints(model, tree, json_string(probe), probe, NULL))) {
            if (prints(model, tree, json_incref(parts), probe, mark))
                model->content = CONTENT_PARTS;
        }
        json_decref(parts);
    }
    content = model->content;
    (void)pthread_mutex_unlock(&lock);
    return content;
}

/* Reads how the model writes calls. ends: room for the texts of the model's end tokens. */
static void read_tool_form(text_model *model, const char **ends)
{
    tool_template source = { .begin = model->begin, .end = model->end, .ends = ends };
    tool_form *form = calloc(1, sizeof *form);

    for (uint32_t i = 0; i < model->end_count; i++) {
        bool special = false;
        size_t bytes = 0;
        const char *text = tokenizer_bytes(model->tokenizer, model->ends[i], &bytes, &special);

        if (text != NULL && text[bytes] == '\0')
            ends[source.end_count++] = text;
    }
    source.tree = text_model_template(model, true, &model->tool_refusal);
    if (form == NULL)
        (void)no_memory(&model->tool_refusal, "for the form of calls");
    else if (source.tree == NULL || tool_form_read(&source, form, &model->tool_refusal) != INLAY_OK)
        free(form);
    else
        model->tool_form = form;
}

const tool_form *text_model_tool_form(text_model *model)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

    if (model->tool_template == NULL && model->chat_template == NULL)
        return NULL;
    (void)pthread_mutex_lock(&lock);
    if (model->tool_form == NULL && model->tool_refusal.code == INLAY_OK) {
        const char **ends = calloc((size_t)model->end_count + 1, sizeof *ends);

        if (ends != NULL)
            read_tool_form(model, ends);
        else
            (void)no_memory(&model->tool_refusal, "for the form of calls");
        free(ends);
    }
    (void)pthread_mutex_unlock(&lock);
    return model->tool_form;
}

const char *text_model_bytes(const text_model *model, const tool_form *marks, int64_t token, size_t *bytes)
{
    bool special = false;
    const char *text = tokenizer_bytes(model->tokenizer, token, bytes, &special);

    return special && (text == NULL || marks == NULL || !tool_form_has(marks, text, *bytes)) ? NULL : text;
}

static const char *text_of_token(const void *user, int64_t token, size_t *bytes)
{
    const text_model *model = user;

    return text_model_bytes(model, model->tool_form, token, bytes);
}

bool text_model_index(text_model *model)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool good;

    (void)text_model_tool_form(model); /* before the index, which is the same for texts with and without tools */
    (void)pthread_mutex_lock(&lock);
    if (model->index == NULL)
        model->index = token_index_create(text_of_token, model, tokenizer_count(model->tokenizer));
    good = model->index != NULL;
    (void)pthread_mutex_unlock(&lock);
    return good;
}

bool text_model_characters(text_model *model)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    const size_t count = tokenizer_count(model->tokenizer);
    bool good, is_made;

    (void)pthread_mutex_lock(&lock);
    is_made = model->characters != NULL;
    if (!is_made)
        model->characters = calloc(count + 1, sizeof *model->characters);
    good = model->characters != NULL;
    for (size_t i = 0; good && !is_made && i < count; i++) {
        size_t bytes = 0;
        bool special = false;
        const char *text = tokenizer_bytes(model->tokenizer, (int64_t)i, &bytes, &special);

        if (text != NULL)
            ascii_add(&model->characters[i], text, bytes);
    }
    (void)pthread_mutex_unlock(&lock);
    return good;
}
