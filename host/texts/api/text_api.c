/* The functions of inlay/text.h for texts. */
#include "base/memory.h"
#include "base/sized_struct.h"
#include "base/utf8.h"
#include "texts/api/api.h"
#include "texts/grammar/grammar_gbnf.h"
#include "texts/grammar/grammar_schema.h"
#include <stdlib.h>
#include <string.h>

enum { KNOWN_FLAGS = INLAY_TEXT_RENDERED | INLAY_TEXT_IGNORE_ENDS, MOST_IMAGES = 1024 };

static inlay_text *text_of(const decoding_text *decoding)
{
    return (inlay_text *)(uintptr_t)decoding; /* its first member */
}

/* The callbacks of decoding_text. */

static bool choose(decoding_text *decoding, const float *logits, size_t words, inlay_diag *diag)
{
    inlay_text *text = text_of(decoding);
    text_choice *choice = &text->choice;
    const int64_t token = text_choice_next(choice, logits, words, diag);
    const char *piece;
    size_t bytes;

    if (token < 0) {
        text->state = choice->may_end ? INLAY_TEXT_END : INLAY_TEXT_LENGTH;
        return false;
    }
    text->state = INLAY_TEXT_END;
    if (text_choice_is_end(choice, token))
        return false;
    text_choice_follow(choice, token);
    piece = text_model_bytes(choice->model, choice->marks, token, &bytes);
    if (piece != NULL)
        strbuf_add(&choice->unsent, piece, bytes);
    if (text_choice_find_stop(choice))
        return false;
    text->state = INLAY_TEXT_LENGTH;
    if (text_choice_is_full(choice))
        return false;
    text->state = INLAY_TEXT_RUNS;
    return !choice->unsent.failed || no_memory(diag, "for the text") == INLAY_OK;
}

static int64_t guess(decoding_text *decoding, const float *logits, size_t words, uint32_t index)
{
    return text_choice_guess((text_choice *)decoding, logits, words, index);
}

static bool is_over(const decoding_text *decoding, inlay_diag *diag)
{
    if (!atomic_load(&text_of(decoding)->is_stopped))
        return false;
    (void)inlay_fail(diag, INLAY_CANCELLED, "the text was stopped");
    return true;
}

static void free_text(inlay_text *text)
{
    for (uint32_t i = 0; text->stops != NULL && i < text->ends.stop_count; i++)
        free(text->stops[i]);
    free((void *)text->stops);
    grammar_destroy(text->choice.forms[0]);
    text_choice_deinit(&text->choice);
    image_prompt_deinit(&text->prompt);
    strbuf_deinit(&text->taken);
    free(text);
}

static void end(decoding_text *decoding, const inlay_diag *failure)
{
    inlay_text *text = text_of(decoding);

    text->model->running--;
    if (failure != NULL) {
        text->failure = *failure;
        text->state = atomic_load(&text->is_stopped) ? INLAY_TEXT_STOPPED : INLAY_TEXT_FAILED;
    } else if (text->state == INLAY_TEXT_RUNS) {
        text->state = INLAY_TEXT_LENGTH; /* no memory was left for more tokens */
    }
    if (text->is_dropped)
        free_text(text);
}

/* Takes what the request leaves open from the model, and checks the numbers. */
static inlay_status set_sampler(struct sampler *sampler, const inlay_text_request *request, inlay_diag *diag)
{
    const struct {
        const char *name;
        float given, least, most, *value;
    } numbers[] = { { "temperature", request->temperature, 0, 2, &sampler->temperature },
                    { "top_p", request->top_p, 0, 1, &sampler->top_p },
                    { "min_p", request->min_p, 0, 1, &sampler->min_p },
                    { "typical_p", request->typical_p, 0, 1, &sampler->typical_p },
                    { "repetition_penalty", request->repetition_penalty, 0.01f, 100, &sampler->penalty },
                    { "presence_penalty", request->presence_penalty, -2, 2, &sampler->presence },
                    { "frequency_penalty", request->frequency_penalty, -2, 2, &sampler->frequency } };

    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (numbers[i].least >= 0 && numbers[i].given < 0)
            continue;
        if (!(numbers[i].given >= numbers[i].least && numbers[i].given <= numbers[i].most))
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request.%s is not from %g to %g",
                              numbers[i].name, (double)numbers[i].least, (double)numbers[i].most);
        *numbers[i].value = numbers[i].given;
    }
    if (request->top_k >= 0)
        sampler->top_k = (uint32_t)request->top_k;
    sampler->state = request->seed;
    return INLAY_OK;
}

static inlay_status copy_stops(inlay_text *text, const inlay_text_request *request, inlay_diag *diag)
{
    text->stops = calloc((size_t)request->stop_count + 1, sizeof *text->stops);
    if (text->stops == NULL)
        return no_memory(diag, "for the stop texts");
    for (uint32_t i = 0; i < request->stop_count; i++) {
        if (request->stops[i] == NULL || request->stops[i][0] == '\0')
            return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request.stops[%u] is empty", i);
        text->stops[i] = strdup(request->stops[i]);
        if (text->stops[i] == NULL)
            return no_memory(diag, "for the stop texts");
        text->ends.stop_count++;
    }
    text->ends.stops = (const char *const *)text->stops;
    return INLAY_OK;
}

/* Makes the text one of a schema or of a grammar. */
static inlay_status set_form(text_choice *choice, const inlay_text_request *request, inlay_diag *diag)
{
    const char *member = request->schema != NULL ? "schema" : "grammar";
    char why[GRAMMAR_WHY_BYTES] = "out of memory";
    json_error_t error;
    json_t *schema = NULL;
    bool good;

    choice->states[0] = choice->states[1] = GRAMMAR_DEAD;
    if (request->schema == NULL && request->grammar == NULL)
        return INLAY_OK;
    if (request->schema != NULL && request->grammar != NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request: set either schema or grammar");
    if (request->schema != NULL && (schema = json_loads(request->schema, JSON_DECODE_ANY, &error)) == NULL)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "schema, line %d: %s", error.line, error.text);
    choice->forms[0] = grammar_create();
    good = choice->forms[0] != NULL &&
           (schema != NULL ? grammar_schema(choice->forms[0], schema, why)
                           : grammar_gbnf(choice->forms[0], request->grammar, why)) &&
           grammar_finish(choice->forms[0], why);
    json_decref(schema);
    if (!good)
        return inlay_fail(diag, choice->forms[0] == NULL ? INLAY_OUT_OF_MEMORY : INLAY_INVALID_ARGUMENT, "%s: %s",
                          member, why);
    if (!text_model_index(choice->model))
        return no_memory(diag, "for the vocabulary");
    choice->marks = choice->model->tool_form;
    choice->states[0] = grammar_start(choice->forms[0]);
    choice->is_bound = true;
    return INLAY_OK;
}

/* Reads a prompt with images. */
static inlay_status read_images(inlay_text *text, const inlay_text_request *request, inlay_diag *diag)
{
    image_encoder *encoder = text->model->encoder;
    image_file *files;
    inlay_status status;

    if (encoder == NULL)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s was opened without a vision part; it takes no images",
                          text->model->model.path);
    if (request->prompt == NULL || (request->flags & INLAY_TEXT_RENDERED) == 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT,
                          "inlay_text_request.images need a prompt with INLAY_TEXT_RENDERED");
    if (request->images == NULL || request->image_count > MOST_IMAGES)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request: images is NULL, or more than %d",
                          MOST_IMAGES);
    files = calloc(request->image_count, sizeof *files);
    if (files == NULL)
        return no_memory(diag, "for the images");
    for (uint64_t i = 0; i < request->image_count; i++)
        files[i] = (image_file){ request->images[i].data, (size_t)request->images[i].bytes };
    status = image_prompt_read(encoder, text->model->model.text->tokenizer, request->prompt, files,
                               (uint32_t)request->image_count, &text->prompt, diag);
    free(files);
    return status;
}

/* The tokens of the prompt: *tokens [*count], which *made owns if it is not NULL. */
static inlay_status read_prompt(inlay_text *text, const inlay_text_request *request, const int64_t **tokens,
                                size_t *count, int64_t **made, inlay_diag *diag)
{
    const text_model *model = text->choice.model;
    inlay_status status = INLAY_OK;

    *tokens = request->tokens;
    *count = request->token_count;
    if (request->prompt != NULL && *count > 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request: set either prompt or tokens");
    if (request->prompt != NULL && strlen(request->prompt) > model->most_bytes)
        return inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the prompt has %zu bytes; the model takes at most %zu",
                          strlen(request->prompt), model->most_bytes);
    if (request->image_count > 0) {
        status = read_images(text, request, diag);
        *tokens = text->prompt.tokens;
        *count = text->prompt.count;
        return status;
    }
    if (request->prompt != NULL) {
        if (!tokenizer_encode(model->tokenizer, request->prompt, (request->flags & INLAY_TEXT_RENDERED) == 0, made,
                              count))
            return no_memory(diag, "for the tokens of the prompt");
        *tokens = *made;
        return INLAY_OK;
    }
    for (size_t i = 0; i < *count && status == INLAY_OK; i++) {
        bool special;
        size_t bytes;

        if (tokenizer_bytes(model->tokenizer, (*tokens)[i], &bytes, &special) == NULL)
            status = inlay_fail(diag, INLAY_NOT_FOUND, "the model has no token %lld", (long long)(*tokens)[i]);
    }
    return status;
}

/* Begins the text with the tokens of the prompt. */
static inlay_status set_prompt(inlay_text *text, const inlay_text_request *request, inlay_diag *diag)
{
    text_choice *choice = &text->choice;
    const size_t context = choice->model->decode.context;
    const int64_t *tokens;
    int64_t *made = NULL;
    size_t count;
    inlay_status status = read_prompt(text, request, &tokens, &count, &made, diag);

    if (status == INLAY_OK && count == 0)
        status = inlay_fail(diag, INLAY_INVALID_ARGUMENT, "the prompt has no tokens");
    if (status == INLAY_OK && context > 0 && count >= context)
        status = inlay_fail(diag, INLAY_LIMIT_EXCEEDED, "the prompt has %zu tokens; the model's context has %zu", count,
                            context);
    if (status == INLAY_OK && !text_choice_begin(choice, tokens, count))
        status = no_memory(diag, "for the tokens of the prompt");
    choice->decoding.images = text->prompt.spans;
    choice->decoding.image_count = text->prompt.span_count;
    free(made);
    return status;
}

/* Finds the adapter of a name; NULL: none, -1. */
static inlay_status find_adapter(const inlay_text_model *model, const char *name, int64_t *out, inlay_diag *diag)
{
    *out = -1;
    for (uint32_t i = 0; i < model->adapter_count && name != NULL && *out < 0; i++)
        if (strcmp(model->adapters[i], name) == 0)
            *out = i;
    if (name == NULL || *out >= 0)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_NOT_FOUND, "the model has no adapter '%.100s'; option adapter states %u", name,
                      model->adapter_count);
}

inlay_status inlay_text_create(inlay_text_model *model, const inlay_text_request *request, inlay_text **out_text,
                               inlay_diag *diag)
{
    inlay_text_request known = INLAY_TEXT_REQUEST_INIT;
    inlay_text *text = NULL;
    inlay_status status;

    *out_text = NULL;
    if (request == NULL || request->struct_size < sizeof request->struct_size)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request.struct_size is not set");
    memcpy(&known, request, request->struct_size < sizeof known ? request->struct_size : sizeof known);
    if ((known.flags & ~(uint32_t)KNOWN_FLAGS) != 0)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request.flags: unknown flags 0x%x", known.flags);
    if (known.max_tokens > 0 && known.min_tokens != INLAY_NONE && known.min_tokens > known.max_tokens)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, "inlay_text_request.min_tokens is larger than max_tokens");
    if (model->model.text->decode.logits == INLAY_NONE)
        return inlay_fail(diag, INLAY_UNSUPPORTED, "%.200s makes embeddings (inlay_text_model_embed), no texts",
                          model->model.path);
    text = calloc(1, sizeof *text);
    if (text == NULL)
        return no_memory(diag, "for the text");
    text->model = model;
    text->ends.max_tokens = known.max_tokens;
    text->ends.ignores_ends = (known.flags & INLAY_TEXT_IGNORE_ENDS) != 0;
    text->choice.model = model->model.text;
    text->choice.ends = &text->ends;
    text->choice.scratch = &model->scratch;
    text->choice.sampler = model->model.text->generation.sampler;
    text->choice.rules = model->model.text->generation.rules;
    if (known.no_repeat_ngram_size != INLAY_NONE)
        text->choice.rules.no_repeat = known.no_repeat_ngram_size;
    text->ends.min_tokens = known.min_tokens != INLAY_NONE ? known.min_tokens : text->choice.rules.min_generated;
    text->choice.decoding = (decoding_text){ .choose = choose, .is_over = is_over, .guess = guess, .end = end };
    INLAY_TRY(find_adapter(model, known.adapter, &text->choice.decoding.adapter, diag));
    INLAY_TRY(set_sampler(&text->choice.sampler, &known, diag));
    INLAY_TRY(copy_stops(text, &known, diag));
    INLAY_TRY(set_form(&text->choice, &known, diag));
    INLAY_TRY(set_prompt(text, &known, diag));
    model->running++;
    status = decoding_add(&model->model.text->decode, &text->choice.decoding, diag);
    if (status != INLAY_OK) {
        model->running--;
        goto done;
    }
    *out_text = text;
    text = NULL;
done:
    if (text != NULL)
        free_text(text);
    return status;
}

void inlay_text_destroy(inlay_text *text)
{
    if (text == NULL)
        return;
    if (text->state != INLAY_TEXT_RUNS) {
        free_text(text);
        return;
    }
    text->is_dropped = true;
    inlay_text_stop(text);
}

void inlay_text_stop(inlay_text *text)
{
    atomic_store(&text->is_stopped, true);
}

/* Adds what the model generated as UTF-8 without NUL. */
static void add_characters(struct strbuf *to, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes;) {
        uint32_t point;
        size_t length = utf8_get(text + i, bytes - i, &point);

        if (length == 0 || point == 0)
            strbuf_text(to, length == 0 ? "\xef\xbf\xbd" : "\xe2\x90\x80");
        else
            strbuf_add(to, text + i, length);
        i += length > 0 ? length : 1;
    }
}

inlay_status inlay_text_take(inlay_text *text, const char **out_piece, size_t *out_bytes, inlay_diag *diag)
{
    struct strbuf *unsent = &text->choice.unsent, *taken = &text->taken;
    const bool runs = text->state == INLAY_TEXT_RUNS;
    const size_t bytes = unsent->size - (runs ? text_choice_held_back(&text->choice, "") : 0);

    *out_piece = "";
    *out_bytes = 0;
    taken->size = 0;
    add_characters(taken, unsent->data, bytes);
    strbuf_add(taken, "", 1);
    if (taken->failed) {
        taken->failed = false;
        return no_memory(diag, "for the text");
    }
    if (taken->size > 1) {
        memmove(unsent->data, unsent->data + bytes, unsent->size - bytes);
        unsent->size -= bytes;
        *out_piece = taken->data;
        *out_bytes = taken->size - 1;
        return INLAY_OK;
    }
    return text->state == INLAY_TEXT_FAILED ? inlay_fail(diag, text->failure.code, "%s", text->failure.text) : INLAY_OK;
}

inlay_status inlay_text_describe(const inlay_text *text, inlay_text_info *out_info)
{
    const text_choice *choice = &text->choice;
    const inlay_text_info info = { .struct_size = sizeof info,
                                   .tokens = choice->tokens,
                                   .prompt_tokens = choice->prompt_count,
                                   .generated_tokens = choice->token_count,
                                   .reused_tokens = choice->decoding.reused,
                                   .state = text->state };

    return sized_struct_write(out_info, &info, sizeof info) ? INLAY_OK : INLAY_INVALID_ARGUMENT;
}
