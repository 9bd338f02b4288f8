#include "texts/tokens/generation.h"
#include "base/memory.h"
#include "base/strbuf.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "generation_config.json: "

enum { MOST_TOKENS = 65536, MOST_SEQUENCES = 65536, NAMED = 8 /* unknown members */ };

/* The user of the functions that read a member. */
struct reader {
    generation_settings *out;
    const int64_t *ends; /* [end_count] */
    uint32_t end_count;
};

/* A member of the file. */
typedef struct generation_key {
    const char *name;
    /* Reads the value, which is not null. NULL: it changes no text here. */
    inlay_status (*read)(const struct generation_key *key, const json_t *value, struct reader *reader,
                         inlay_diag *diag);
    double least, most; /* of numbers */
    size_t offset;      /* of the value in generation_settings */
} generation_key;

static void *place_of(const generation_key *key, struct reader *reader)
{
    return (char *)reader->out + key->offset;
}

static inlay_status fail(const generation_key *key, const char *what, inlay_diag *diag)
{
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, FILE_NAME "%s is not %s", key->name, what);
}

static inlay_status fail_memory(const generation_key *key, inlay_diag *diag)
{
    return no_memory(diag, "for %s", key->name);
}

static inlay_status check_number(const generation_key *key, const json_t *value, bool whole, inlay_diag *diag)
{
    const double number = json_number_value(value);

    if (!json_is_number(value) || !(number >= key->least && number <= key->most) || (whole && number != floor(number)))
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, FILE_NAME "%s is not a %s from %g to %g", key->name,
                          whole ? "whole number" : "number", key->least, key->most);
    return INLAY_OK;
}

static inlay_status read_number(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    const inlay_status status = check_number(key, value, false, diag);

    if (status == INLAY_OK)
        *(float *)place_of(key, reader) = (float)json_number_value(value);
    return status;
}

/* A count; -1 is 0 for those that may be -1. */
static inlay_status read_count(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    const inlay_status status = check_number(key, value, true, diag);

    if (status == INLAY_OK)
        *(uint32_t *)place_of(key, reader) = (uint32_t)fmax(0, json_number_value(value));
    return status;
}

static inlay_status read_length(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    const inlay_status status = check_number(key, value, true, diag);

    if (status == INLAY_OK)
        *(uint64_t *)place_of(key, reader) = (uint64_t)json_number_value(value);
    return status;
}

static inlay_status read_token(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    if (!json_is_integer(value))
        return fail(key, "a token", diag);
    *(int64_t *)place_of(key, reader) = json_integer_value(value);
    return INLAY_OK;
}

/* A list of tokens; is_single: one token stands for a list of it. */
static inlay_status take_tokens(const generation_key *key, const json_t *value, bool is_single, token_list *list,
                                inlay_diag *diag)
{
    const size_t count = json_is_array(value) ? json_array_size(value) : is_single && json_is_integer(value);

    if ((!json_is_array(value) && count == 0) || count > MOST_TOKENS)
        return fail(key, "a list of tokens", diag);
    list->tokens = calloc(count + 1, sizeof *list->tokens);
    if (list->tokens == NULL)
        return fail_memory(key, diag);
    for (size_t i = 0; i < count; i++) {
        const json_t *token = json_is_array(value) ? json_array_get(value, i) : value;

        if (!json_is_integer(token))
            return fail(key, "a list of tokens", diag);
        list->tokens[list->count++] = json_integer_value(token);
    }
    return INLAY_OK;
}

static inlay_status read_tokens(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    return take_tokens(key, value, false, place_of(key, reader), diag);
}

static inlay_status read_last(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    return take_tokens(key, value, true, place_of(key, reader), diag);
}

static bool is_end(const struct reader *reader, int64_t token)
{
    bool found = false;

    for (uint32_t i = 0; i < reader->end_count; i++)
        found |= reader->ends[i] == token;
    return found;
}

/* Adds a sequence. what: of the member, for a failure. */
static inlay_status take_sequence(const generation_key *key, const json_t *tokens, float bias, const char *what,
                                  struct reader *reader, inlay_diag *diag)
{
    token_list list = { NULL, 0 };
    inlay_status status = INLAY_OK;

    if (!json_is_array(tokens) || json_array_size(tokens) == 0)
        return fail(key, what, diag);
    status = take_tokens(key, tokens, false, &list, diag);
    /* In bad_words_ids, an end token alone has no effect. */
    if (status == INLAY_OK && (bias > -INFINITY || list.count > 1 || !is_end(reader, list.tokens[0])) &&
        !sequence_add(&reader->out->rules.sequences, list.tokens, list.count, bias))
        status = fail_memory(key, diag);
    free(list.tokens);
    return status;
}

static inlay_status read_bad_words(const generation_key *key, const json_t *value, struct reader *reader,
                                   inlay_diag *diag)
{
    static const char what[] = "a list of lists of tokens";
    inlay_status status = INLAY_OK;

    if (!json_is_array(value) || json_array_size(value) > MOST_SEQUENCES)
        return fail(key, what, diag);
    for (size_t i = 0; i < json_array_size(value) && status == INLAY_OK; i++)
        status = take_sequence(key, json_array_get(value, i), -INFINITY, what, reader, diag);
    return status;
}

/* [[[token, ...], number], ...]. */
static inlay_status read_biases(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    static const char what[] = "a list of pairs of a list of tokens and a number";
    inlay_status status = INLAY_OK;

    if (!json_is_array(value) || json_array_size(value) > MOST_SEQUENCES)
        return fail(key, what, diag);
    for (size_t i = 0; i < json_array_size(value) && status == INLAY_OK; i++) {
        const json_t *pair = json_array_get(value, i), *bias = json_array_get(pair, 1);

        if (json_array_size(pair) != 2 || !json_is_number(bias))
            return fail(key, what, diag);
        status = take_sequence(key, json_array_get(pair, 0), (float)json_number_value(bias), what, reader, diag);
    }
    return status;
}

/* [number of tokens, factor]. */
static inlay_status read_decay(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    const json_t *start = json_array_get(value, 0), *factor = json_array_get(value, 1);

    if (json_array_size(value) != 2 || !json_is_integer(start) || json_integer_value(start) < 0 ||
        !json_is_number(factor) || !(json_number_value(factor) > 0))
        return fail(key, "a list of a number of tokens and a positive factor", diag);
    reader->out->rules.decay_start = (uint64_t)json_integer_value(start);
    reader->out->rules.decay = json_number_value(factor);
    return INLAY_OK;
}

/* A text, or a list of texts. */
static inlay_status read_stops(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    const size_t count = json_is_array(value) ? json_array_size(value) : 1;
    generation_settings *out = reader->out;

    for (size_t i = 0; i < count; i++) {
        const char *text = json_string_value(json_is_array(value) ? json_array_get(value, i) : value);

        if (text == NULL || text[0] == '\0')
            return fail(key, "a list of texts that are not empty", diag);
        if (!LIST_GROW(out->stops, out->stop_count) || (out->stops[out->stop_count] = strdup(text)) == NULL)
            return fail_memory(key, diag);
        out->stop_count++;
    }
    return INLAY_OK;
}

/* Only key->least has no effect, and nothing else is supported. */
static inlay_status read_only(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    (void)reader;
    if (json_is_number(value) && json_number_value(value) == key->least)
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED, FILE_NAME "%s: only %g is supported; remove it", key->name, key->least);
}

/* Only false and empty values have no effect. */
static inlay_status read_none(const generation_key *key, const json_t *value, struct reader *reader, inlay_diag *diag)
{
    (void)reader;
    if (json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
        (json_is_object(value) && json_object_size(value) == 0))
        return INLAY_OK;
    return inlay_fail(diag, INLAY_UNSUPPORTED, FILE_NAME "%s is not supported; remove it", key->name);
}

#define SAMPLER(member) offsetof(generation_settings, sampler.member)
#define RULES(member) offsetof(generation_settings, rules.member)
static const generation_key keys[] = {
    { "temperature", read_number, 0, 2, SAMPLER(temperature) },
    { "top_p", read_number, 0, 1, SAMPLER(top_p) },
    { "top_k", read_count, -1, 1 << 24, SAMPLER(top_k) },
    { "min_p", read_number, 0, 1, SAMPLER(min_p) },
    { "typical_p", read_number, 0, 1, SAMPLER(typical_p) },
    { "epsilon_cutoff", read_number, 0, 1, SAMPLER(epsilon_cutoff) },
    { "eta_cutoff", read_number, 0, 1, SAMPLER(eta_cutoff) },
    { "repetition_penalty", read_number, 0.01, 100, SAMPLER(penalty) },
    { "encoder_repetition_penalty", read_number, 0.01, 100, SAMPLER(prompt_penalty) },
    { "no_repeat_ngram_size", read_count, 0, 1 << 24, RULES(no_repeat) },
    { "encoder_no_repeat_ngram_size", read_count, 0, 1 << 24, RULES(no_copy) },
    { "min_length", read_length, 0, 1e15, RULES(min_tokens) },
    { "min_new_tokens", read_length, 0, 1e15, RULES(min_generated) },
    { "bad_words_ids", read_bad_words, 0, 0, 0 },
    { "sequence_bias", read_biases, 0, 0, 0 },
    { "suppress_tokens", read_tokens, 0, 0, RULES(suppressed) },
    { "begin_suppress_tokens", read_tokens, 0, 0, RULES(first_not) },
    { "forced_bos_token_id", read_token, 0, 0, RULES(first) },
    { "forced_eos_token_id", read_last, 0, 0, RULES(last) },
    { "exponential_decay_length_penalty", read_decay, 0, 0, 0 },
    { "stop_strings", read_stops, 0, 0, 0 },
    /* other ways of choosing tokens */
    { "num_beams", read_only, 1, 1, 0 },
    { "num_beam_groups", read_only, 1, 1, 0 },
    { "diversity_penalty", read_only, 0, 0, 0 },
    { "guidance_scale", read_only, 1, 1, 0 },
    { "penalty_alpha", read_only, 0, 0, 0 },
    { "top_h", read_none, 0, 0, 0 },
    { "token_healing", read_none, 0, 0, 0 },
    { "constraints", read_none, 0, 0, 0 },
    { "force_words_ids", read_none, 0, 0, 0 },
    { "forced_decoder_ids", read_none, 0, 0, 0 },
    { "watermarking_config", read_none, 0, 0, 0 },
    { "dola_layers", read_none, 0, 0, 0 },
    /* read elsewhere, the request's, or without an effect on a text */
    { .name = "do_sample" },
    { .name = "eos_token_id" },
    { .name = "bos_token_id" },
    { .name = "pad_token_id" },
    { .name = "decoder_start_token_id" },
    { .name = "max_length" },
    { .name = "max_new_tokens" },
    { .name = "max_time" },
    { .name = "num_return_sequences" },
    { .name = "early_stopping" }, /* these two are of beams */
    { .name = "length_penalty" },
    { .name = "remove_invalid_values" },
    { .name = "renormalize_logits" },
    { .name = "use_cache" },
    { .name = "cache_implementation" },
    { .name = "cache_config" },
    { .name = "return_legacy_cache" },
    { .name = "prefill_chunk_size" },
    { .name = "compile_config" },
    { .name = "disable_compile" },
    { .name = "low_memory" },
    { .name = "output_attentions" },
    { .name = "output_hidden_states" },
    { .name = "output_logits" },
    { .name = "output_scores" },
    { .name = "return_dict_in_generate" },
    /* guesses, which change no text */
    { .name = "is_assistant" },
    { .name = "num_assistant_tokens" },
    { .name = "num_assistant_tokens_schedule" },
    { .name = "assistant_confidence_threshold" },
    { .name = "assistant_early_exit" },
    { .name = "assistant_lookbehind" },
    { .name = "target_lookbehind" },
    { .name = "prompt_lookup_num_tokens" },
    { .name = "max_matching_ngram_size" },
    /* for the programs of a model's folder: origin, and the form of chats, which is that of the template */
    { .name = "_from_model_config" },
    { .name = "transformers_version" },
    { .name = "trust_remote_code" },
    { .name = "model_type" },
    { .name = "chat_format" },
    { .name = "max_window_size" },
    { .name = "user_token_id" },
    { .name = "assistant_token_id" },
};

/* Members of models for speech, before the others. */
static const generation_key speech_keys[] = {
    /* a sound is read, not a prompt */
    { "encoder_repetition_penalty", read_only, 1, 1, 0 },
    { "encoder_no_repeat_ngram_size", read_only, 0, 0, 0 },
    { "stop_strings", read_none, 0, 0, 0 },
    /* a window is not read after the text of another one */
    { "condition_on_prev_tokens", read_none, 0, 0, 0 },
    { "prompt_ids", read_none, 0, 0, 0 },
    { .name = "prompt_condition_type" },
    /* the request's */
    { .name = "temperature" },
    { .name = "language" },
    { .name = "task" },
    { .name = "forced_decoder_ids" }, /* language and task in earlier files */
    { .name = "return_timestamps" },
    { .name = "return_token_timestamps" },
    { .name = "return_segments" },
    /* read by speech_model.c, or known by the tokenizer */
    { .name = "is_multilingual" },
    { .name = "lang_to_id" },
    { .name = "task_to_id" },
    { .name = "prev_sot_token_id" },
    { .name = "no_timestamps_token_id" },
    { .name = "max_initial_timestamp_index" },
    { .name = "logprob_threshold" },
    { .name = "compression_ratio_threshold" },
    { .name = "no_speech_threshold" },
    /* of the times of words */
    { .name = "alignment_heads" },
    { .name = "median_filter_width" },
};

static const generation_key *find_key(generation_kind kind, const char *name)
{
    for (size_t i = 0; kind == GENERATION_SPEECH && i < sizeof speech_keys / sizeof *speech_keys; i++)
        if (strcmp(speech_keys[i].name, name) == 0)
            return &speech_keys[i];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].name, name) == 0)
            return &keys[i];
    return NULL;
}

inlay_status generation_parse(const char *text, const char *path, json_t **out_root, inlay_diag *diag)
{
    json_error_t error = { .line = 1, .text = "out of memory" };

    *out_root = text != NULL   ? json_loads(text, 0, &error)
                : path != NULL ? json_load_file(path, 0, &error)
                               : json_object();
    if (json_is_object(*out_root))
        return INLAY_OK;
    if (*out_root == NULL && error.line < 1)
        return inlay_fail(diag, INLAY_INVALID_ARGUMENT, FILE_NAME "%s", error.text);
    return inlay_fail(diag, INLAY_INVALID_ARGUMENT, FILE_NAME "line %d: %s", *out_root == NULL ? error.line : 1,
                      *out_root == NULL ? error.text : "not an object");
}

inlay_status generation_read(const json_t *root, generation_kind kind, const int64_t *ends, uint32_t end_count,
                             generation_settings *out, inlay_diag *diag)
{
    struct reader reader = { out, ends, end_count };
    struct strbuf line = { 0 };
    inlay_status status = INLAY_OK;
    size_t unknown = 0;
    const char *name;
    json_t *value;

    *out = (generation_settings){ .sampler = SAMPLER_INIT, .rules = TOKEN_RULES_INIT };
    out->sampler.temperature = 1;
    json_object_foreach((json_t *)(uintptr_t)root, name, value) {
        const generation_key *key = find_key(kind, name);

        if (json_is_null(value) || (key != NULL && key->read == NULL))
            continue;
        if (key != NULL)
            status = key->read(key, value, &reader, diag);
        else if (unknown++ < NAMED)
            strbuf_format(&line, "%s'%.60s'", unknown > 1 ? ", " : FILE_NAME "not known, and without effect: ", name);
        if (status != INLAY_OK)
            goto done;
    }
    if (json_is_false(json_object_get(root, "do_sample")))
        out->sampler.temperature = 0;
    if (unknown == 0)
        goto done;
    if (unknown > NAMED)
        strbuf_format(&line, " and %zu more", unknown - NAMED);
    strbuf_add(&line, "", 1);
    if (line.failed)
        status = no_memory(diag, "for a warning");
    out->warning = line.failed ? NULL : line.data;
    line.data = line.failed ? line.data : NULL;
done:
    strbuf_deinit(&line);
    return status;
}

void generation_deinit(generation_settings *settings)
{
    for (uint32_t i = 0; i < settings->stop_count; i++)
        free(settings->stops[i]);
    free(settings->stops);
    rules_deinit(&settings->rules);
    free(settings->warning);
    *settings = (generation_settings){ .rules = TOKEN_RULES_INIT };
}
