/* The functions of inlay/text.h for text models. */
#include "base/memory.h"
#include "base/sized_struct.h"
#include "texts/api/api.h"
#include "texts/chat/chat.h"
#include "texts/model/messages.h"
#include <stdlib.h>
#include <string.h>

inlay_status inlay_text_model_create(const char *path, const inlay_text_options *options, inlay_text_model **out_model,
                                     inlay_diag *diag)
{
    inlay_text_options known = { .struct_size = sizeof known };
    inlay_text_model *model;
    inlay_status status;

    *out_model = NULL;
    if (path == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_model_create: path is NULL");
    if (options != NULL && options->struct_size < sizeof options->struct_size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_options.struct_size is not set");
    if (options != NULL)
        sized_struct_read(&known, sizeof known, options, options->struct_size);
    model = calloc(1, sizeof *model);
    if (model == NULL)
        return no_memory(diag, "for the model");
    status = text_parts_open(model, path, &known, diag);
    if (status == INLAY_OK) {
        *out_model = model;
        return INLAY_OK;
    }
    inlay_text_model_destroy(model);
    return status;
}

void inlay_text_model_destroy(inlay_text_model *model)
{
    if (model == NULL)
        return;
    model->is_closing = true;
    while (model->first != NULL) /* the steps of texts that were destroyed in progress */
        text_queue_run(model);
    inlay_context_destroy(model->embedding);
    text_parts_close(model);
    choice_scratch_deinit(&model->scratch);
    free(model->vector);
    free(model->sums);
    free(model);
}

inlay_status inlay_text_model_describe(const inlay_text_model *model, inlay_text_model_info *out_info)
{
    const text_model *text = model->model.text;
    const inlay_text_model_info info = { .struct_size = sizeof info,
                                         .session = model->model.session,
                                         .ends = text->ends,
                                         .vocabulary = tokenizer_count(text->tokenizer),
                                         .context = text->decode.context,
                                         .guessed_tokens = model->guessed_tokens,
                                         .right_tokens = model->right_tokens,
                                         .runs = model->runs,
                                         .end_count = text->end_count,
                                         .has_template = text->chat_template != NULL,
                                         .assumes_chat_ml = text->assumes_chat_ml,
                                         .together = text->decode.rows.layout != INLAY_ROWS_ALONE,
                                         .embeds = text->decode.logits == INLAY_NONE,
                                         .adapter_count = model->adapter_count,
                                         .warning = text->generation.warning };

    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}

uint32_t inlay_text_model_step(inlay_text_model *model)
{
    text_queue_run(model);
    return model->running;
}

/* Whether flags has no other bits than `known`. */
static inlay_status check_flags(uint32_t flags, uint32_t known, inlay_diag *diag)
{
    return (flags & ~known) == 0 ? INLAY_OK : inlay_fail(diag, INLAY_INVALID_ARGUMENT, "unknown flags 0x%x", flags);
}

inlay_status inlay_text_model_tokenize(const inlay_text_model *model, const char *text, size_t bytes, uint32_t flags,
                                       int64_t *tokens, size_t room, size_t *out_count, inlay_diag *diag)
{
    inlay_status status = check_flags(flags, INLAY_TEXT_RENDERED, diag);
    char *copy = status == INLAY_OK ? malloc(bytes + 1) : NULL;
    int64_t *made = NULL;
    size_t count = 0;

    *out_count = 0;
    if (status != INLAY_OK)
        return status;
    if (copy != NULL && bytes > 0)
        memcpy(copy, text, bytes);
    if (copy != NULL)
        copy[bytes] = '\0';
    if (copy != NULL && strlen(copy) < bytes)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the text has a NUL at byte %zu", strlen(copy));
    else if (copy == NULL ||
             !tokenizer_encode(model->model.text->tokenizer, copy, (flags & INLAY_TEXT_RENDERED) == 0, &made, &count))
        status = no_memory(diag, "for the tokens");
    free(copy);
    if (status == INLAY_OK && count > 0 && room > 0)
        memcpy(tokens, made, (count < room ? count : room) * sizeof *tokens);
    free(made);
    if (status != INLAY_OK)
        return status;
    *out_count = count;
    if (room == 0 || room >= count)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the text has %zu tokens, and there is room for %zu", count, room);
}

/* Gives a text [size] to the caller, as inlay_text_model_detokenize() does. */
static inlay_status give(const char *from, size_t size, char *text, size_t bytes, size_t *out_bytes, inlay_diag *diag)
{
    const size_t fits = bytes == 0 ? 0 : size < bytes ? size : bytes - 1;

    *out_bytes = size + 1;
    if (bytes == 0)
        return INLAY_OK;
    if (fits > 0)
        memcpy(text, from, fits);
    text[fits] = '\0';
    if (fits == size)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the text has %zu bytes, and there is room for %zu", size + 1, bytes);
}

inlay_status inlay_text_model_detokenize(const inlay_text_model *model, const int64_t *tokens, size_t count, char *text,
                                         size_t bytes, size_t *out_bytes, inlay_diag *diag)
{
    const struct tokenizer *tokenizer = model->model.text->tokenizer;
    struct strbuf made = { 0 };
    inlay_status status = INLAY_OK;

    *out_bytes = 0;
    for (size_t i = 0; i < count && status == INLAY_OK; i++) {
        size_t piece_bytes = 0;
        bool special = false;
        const char *piece = tokenizer_bytes(tokenizer, tokens[i], &piece_bytes, &special);

        if (piece == NULL)
            status = inlay_fail(diag, INLAY_NOT_FOUND, "the model has no token %lld", (long long)tokens[i]);
        else if (!special)
            strbuf_add(&made, piece, piece_bytes);
    }
    if (status == INLAY_OK)
        status =
            made.failed ? no_memory(diag, "for the text") : give(made.data, made.size, text, bytes, out_bytes, diag);
    strbuf_deinit(&made);
    return status;
}

/* Reads a JSON text; NULL is the value NULL. */
static inlay_status read_json(const char *text, const char *member, bool is_list, json_t **out, inlay_diag *diag)
{
    json_error_t error;

    *out = NULL;
    if (text == NULL)
        return INLAY_OK;
    *out = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (*out == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s, line %d: %s", member, error.line, error.text);
    if (is_list ? json_is_array(*out) : json_is_object(*out))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "%s: not a JSON %s", member, is_list ? "array" : "object");
}

/* Makes an array of objects of the messages. */
static inlay_status list_messages(const inlay_text_chat *chat, json_t **out, inlay_diag *diag)
{
    *out = json_array();
    for (uint64_t i = 0; i < chat->message_count; i++) {
        const inlay_text_message *message = &chat->messages[i];
        json_t *one;

        if (message->role == NULL || message->content == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "message %llu: role or content is NULL",
                              (unsigned long long)i);
        one = json_pack("{s:s, s:s}", "role", message->role, "content", message->content);
        if (one == NULL)
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "message %llu is not UTF-8", (unsigned long long)i);
        if (json_array_append_new(*out, one) != 0)
            return no_memory(diag, "for the messages");
    }
    return *out != NULL ? INLAY_OK : no_memory(diag, "for the messages");
}

inlay_status inlay_text_model_chat(inlay_text_model *model, const inlay_text_chat *given, char *text, size_t bytes,
                                   size_t *out_bytes, inlay_diag *diag)
{
    text_model *parts = model->model.text;
    struct chat chat = { .begin = parts->begin, .end = parts->end };
    inlay_diag failure = INLAY_DIAG_INIT;
    inlay_text_chat known;
    json_t *given_messages;
    char *made = NULL;
    inlay_status status;

    *out_bytes = 0;
    if (given == NULL || given->struct_size < sizeof given->struct_size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_chat.struct_size is not set");
    sized_struct_read(&known, sizeof known, given, given->struct_size);
    if (known.json != NULL && known.message_count > 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_chat: set either messages or json");
    if (known.json != NULL)
        INLAY_TRY(read_json(known.json, "messages", true, &chat.messages, diag));
    else
        INLAY_TRY(list_messages(&known, &chat.messages, diag));
    INLAY_TRY(read_json(known.tools, "tools", true, &chat.tools, diag));
    INLAY_TRY(read_json(known.variables, "variables", false, &chat.variables, diag));
    given_messages = chat.messages;
    chat.messages = messages_for_template(parts, given_messages, chat.tools);
    json_decref(given_messages);
    if (chat.messages == NULL) {
        status = no_memory(diag, "for the messages");
        goto done;
    }
    chat.form = text_model_template(parts, chat.tools != NULL, &failure);
    if (chat.form == NULL) {
        status = failure.code != INLAY_OK
                     ? inlay_fail(diag, failure.code, "%s", failure.text)
                     : inlay_fail(diag, INLAY_NOT_FOUND,
                                  "the model has no chat_template (chat_template.jinja or tokenizer_config.json in its "
                                  "folder)");
        goto done;
    }
    INLAY_TRY(messages_write(parts, &chat, &made, diag));
    status = give(made, strlen(made), text, bytes, out_bytes, diag);
done:
    free(made);
    json_decref(chat.messages);
    json_decref(chat.tools);
    json_decref(chat.variables);
    return status;
}
